"""`edgebox top`: a full-screen view of the running server, once a second.

A client of the control socket like any other: it reads what is published anyway, and no worker
does anything for it. While the server restarts it waits for the next one.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

import click

from edgebox.cli.control import ControlClient, NoServer, Told, connect, socket_option
from edgebox.cli.options import config_option

PATIENCE = 3.0  # seconds for an answer; meanwhile no key is heard

# An escape sequence whole, so that the letters of an unknown one are no keys; or a character.
_SENT = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)
_KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}


@click.command()
@click.option("-i", "--interval", default=1.0, type=click.FloatRange(0.2), help="Seconds.")
@config_option
@socket_option
def top(interval: float, config: Path | None, socket_path: str | None) -> None:
    """Watch the running server: its link, cache, latency, hottest URLs, upstreams, workers.

    \b
    u p w r e   hottest URLs, upstreams, workers, RAM, errors; Tab the next of them
    s  S        sort by the next column; the other way round
    /           show only rows that contain what you type; Escape shows all
    ↑ ↓ Enter   choose a row; show it in full
    space       hold the figures still
    q           quit
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "top wants a terminal; for programs there is `edgebox status --json`"
        )
    server = _Server(socket_path, config)
    try:
        told = server.look()
        with _Keyboard() as keyboard:
            _watch(server, told, keyboard, interval)
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def _watch(server: _Server, told: Told, keyboard: _Keyboard, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from edgebox.cli.top_view import View, draw, press, settle

    console = Console(highlight=False)
    view, note, due = View(), "", time.monotonic() + interval
    live = Live(console=console, screen=True, auto_refresh=False)

    def pause() -> None:
        """Give the terminal back until the shell's `fg`."""
        live.stop()
        keyboard.let_go()
        os.kill(os.getpid(), signal.SIGSTOP)
        keyboard.take()
        live.start(refresh=True)

    with _orderly(pause), live:
        while not view.done:
            view = settle(view, told)
            size = console.size
            live.update(draw(view, told, size.width, size.height, note), refresh=True)
            for key in keyboard.wait(due - time.monotonic()):
                view = press(view, key)
            if time.monotonic() >= due:
                due = time.monotonic() + interval
                if not view.held:
                    try:
                        told, note = server.look(), ""
                    except click.ClickException as problem:
                        note = f"figures of {time.strftime('%H:%M:%S')}: {problem.message}"


class _Server:
    """The server that is looked at, found again after it was away."""

    def __init__(self, socket_path: str | None, config: Path | None) -> None:
        self._socket_path = socket_path
        self._config = config
        self._client: ControlClient | None = None

    def look(self) -> Told:
        """How it is. Raises ClickException."""
        try:
            return self._ask()
        except NoServer:
            raise
        except click.ClickException:
            if self._client is None:
                raise
            self.close()  # it may have restarted: then another answers at the same place
            return self._ask()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self) -> Told:
        if self._client is None:
            self._client = connect(self._socket_path, self._config, PATIENCE)
        return self._client.ask("status")


@contextmanager
def _orderly(pause: Callable[[], None]) -> Iterator[None]:
    """However it is told to end, the terminal is as it was: signals unwind what stands open."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    handlers = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT), end)
    handlers[signal.SIGTSTP] = lambda number, frame: pause()
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Keyboard:
    """Keys as they are pressed, without Enter; the terminal is as before at the end."""

    def __enter__(self) -> _Keyboard:
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        self.take()
        return self

    def take(self) -> None:
        tty.setcbreak(self._fd)

    def let_go(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.let_go()

    def wait(self, seconds: float) -> list[str]:
        """What was pressed within that time, at once when something was."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        if not ready:
            return []
        octets = os.read(self._fd, 1024)
        return keys_of(octets.decode("utf-8", "ignore")) if octets else ["q"]  # it has gone


def keys_of(text: str) -> list[str]:
    """Keys, named as `top_view.press` has them, in what a terminal sent."""
    sent = (_KEYS.get(found, found) for found in _SENT.findall(text))
    return [key for key in sent if not key.startswith("\x1b")]
