"""`edgebox top` in a terminal of its own: a pseudoterminal, whose screen is read as it is drawn."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from edgebox.cli.main import main

pytestmark = pytest.mark.slow

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]")
PATIENCE = 30.0


class Terminal:
    """A process in a terminal of 100 by 30."""

    def __init__(self, *command: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.seen = ""

    def press(self, keys: str) -> None:
        """From now on only what comes after this has been seen."""
        self.seen = ""
        os.write(self.fd, keys.encode())

    def wait_for(self, text: str) -> str:
        """All that was drawn since the last key, once it has `text`."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.plain:
            assert time.monotonic() < deadline, self.plain
            if not self._read():
                raise AssertionError(f"it has ended: {self.plain}")
        return self.plain

    def wait_end(self) -> int:
        """Its exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, self.plain
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    @property
    def plain(self) -> str:
        return _ESCAPE.sub("", self.seen)

    def close(self) -> None:
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)

    def _read(self) -> bool:
        if not select.select([self.fd], [], [], 0.2)[0]:
            return True
        try:
            octets = os.read(self.fd, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.seen += octets.decode("utf-8", "replace")
        return bool(octets)


@pytest.fixture
def terminal(served: Any, told: Callable[..., dict[str, Any]]) -> Iterator[Terminal]:
    served.answers["status"] = told()
    # From a program of its own: a fork of this one, with its threads, may do nothing but exec.
    code = "import sys; from edgebox.cli.main import main; main(sys.argv[1:], prog_name='edgebox')"
    made = Terminal(sys.executable, "-c", code, "top", "-i", "0.2", "--socket", str(served.place))
    yield made
    made.close()


# The child of pty.fork does nothing but exec.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_top_in_a_terminal(
    terminal: Terminal, served: Any, told: Callable[..., dict[str, Any]]
) -> None:
    before = termios.tcgetattr(terminal.fd)
    screen = terminal.wait_for("q quit")
    for text in ("edgebox 9.9", "50.0 % of 944 Mbit/s", "hits 90.0 %", "example.com/a"):
        assert text in screen
    terminal.press("p")
    terminal.wait_for("http://b:1")
    terminal.press("/a:1\r")
    terminal.wait_for("1 by head after")
    terminal.press("\r")
    terminal.wait_for("answered")
    terminal.press("\x1b")
    terminal.press("\x1b")
    terminal.wait_for("2 by head after")
    served.answers["status"] = told(gauges={"connections": 777})
    terminal.press("w")
    terminal.wait_for("777 of 1000")
    served.answers["status"] = {"ok": False, "error": "the pages are damaged"}
    terminal.press("u")
    terminal.wait_for("the pages are damaged")
    served.answers["status"] = told(gauges={"connections": 888})
    terminal.wait_for("888 of 1000")
    terminal.press("q")
    assert terminal.wait_end() == 0
    assert termios.tcgetattr(terminal.fd) == before


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_an_interrupt_ends_it_and_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.fd)
    terminal.wait_for("q quit")
    terminal.press("\x03")
    assert terminal.wait_end() == 0
    assert "\x1b[?1049l" in terminal.seen  # back from the second screen
    assert termios.tcgetattr(terminal.fd) == before


def test_without_a_terminal_it_says_what_there_is_for_programs(served: Any) -> None:
    result = CliRunner().invoke(main, ["top", "--socket", str(served.place)])
    assert result.exit_code == 2
    assert "edgebox status --json" in result.output


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    before = termios.tcgetattr(terminal.fd)
    terminal.wait_for("q quit")
    os.kill(terminal.pid, number)
    assert terminal.wait_end() == (0 if number == signal.SIGINT else 128 + number)
    assert terminal.seen.rindex("\x1b[?1049l") > terminal.seen.rindex("\x1b[?1049h")
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")
    assert termios.tcgetattr(terminal.fd) == before


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_stopped_it_gives_the_terminal_back_until_it_goes_on(terminal: Terminal) -> None:
    terminal.wait_for("q quit")
    os.kill(terminal.pid, signal.SIGTSTP)
    os.waitpid(terminal.pid, os.WUNTRACED)
    while "\x1b[?1049l" not in terminal.seen:
        assert terminal._read()
    assert termios.tcgetattr(terminal.fd)[3] & termios.ECHO
    terminal.press("")
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait_for("q quit")
    assert not termios.tcgetattr(terminal.fd)[3] & termios.ECHO
    terminal.press("q")
    assert terminal.wait_end() == 0
