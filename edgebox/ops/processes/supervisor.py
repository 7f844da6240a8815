"""The supervisor: holds the sockets, and sees to it that workers serve on them.

It answers no client, so it knows no loop but a selector and none of the rooms that requests go
through. Every configuration gets a generation of workers: see `succession` for how a reload
goes, and `successor` for an upgrade, which is the same with another supervisor.

Signals are nginx's: TERM and INT end all at once, QUIT when all is answered, HUP reloads, USR1
opens the logs again, USR2 upgrades, WINCH lets the workers go and keeps the sockets.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from functools import partial

from msgspec.structs import replace

from edgebox.config.schema import Config
from edgebox.observe.pages import Pages
from edgebox.ops.control.control import Control
from edgebox.ops.control.desk import Desk
from edgebox.ops.control.jsonlines import Message
from edgebox.ops.processes.generation import Brief, Generation
from edgebox.ops.processes.inheritance import Inheritance, take_inheritance
from edgebox.ops.processes.journal import Journal
from edgebox.ops.processes.notify import Notifier
from edgebox.ops.processes.signals import has_terminal, signals
from edgebox.ops.processes.succession import REASONS, Rise, Succession, Told
from edgebox.ops.processes.successor import Predecessor, Successor
from edgebox.ops.sizing.live import Live, measure
from edgebox.ops.sizing.sizes import sizes
from edgebox.ops.sizing.sizing import Sized

TURN = 1.0  # seconds between two looks at the workers' heartbeats
ABSENT = 5.0  # a turn that is so late was ours to blame: workers get time to beat again


class StartError(Exception):
    """The first workers do not serve; the message says why."""


class Supervisor:
    """`read` gives the configuration that is asked for, or raises ConfigError; `announce` is
    called with the addresses when connections are accepted. Raises ListenError for sockets
    that were handed over and are none."""

    def __init__(
        self,
        read: Callable[[], Config],
        announce: Callable[[list[str]], None],
        environ: MutableMapping[str, str] = os.environ,
    ) -> None:
        self._announce = announce
        self._notifier = Notifier(environ)
        self._inherited = inherited = take_inheritance(environ, os.getpid())
        self._selector = selectors.DefaultSelector()
        self._log = Journal()
        self._pages = _make_pages(inherited)
        self._control = Control(self._selector, self._log)
        self._generations = Succession(read, self._pages, self._control, self._log, inherited)
        self._generations.risen, self._generations.failed = self._risen, self._failed
        self._desk = Desk(self._control, self._pages, self._log, self)
        succession = self._control.events["failed"]

        def failed(slot: int, message: Message) -> None:
            succession(slot, message)
            # Workers that are replaced are of the code that is installed: so are we, from now on.
            if message.get("outdated") and self._started and self._generations.rise is None:
                self.upgrade()

        self._control.events["failed"] = failed
        self._live: Live | None = None
        self._predecessor = (
            Predecessor(inherited.wire) if inherited is not None and inherited.wire >= 0 else None
        )
        self._successor: Successor | None = None
        self._wanted: list[Told] = []  # reloads asked for while one is under way
        self._started = self._ending = self._handed_over = False
        self._failure = ""  # why nobody serves
        self._turned_at = self._grace_until = self._fed_at = time.monotonic()

    def run(self) -> None:
        """Serve until told to end. Raises StartError, or one of REASONS, if it cannot begin."""
        actions = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGQUIT: self.drain,
            signal.SIGHUP: self.reload,
            signal.SIGUSR1: self.reopen,
            signal.SIGUSR2: self.upgrade,
            signal.SIGCHLD: lambda: None,  # a turn follows
            # A terminal's window that changes its size sends this, too.
            signal.SIGWINCH: (lambda: None) if has_terminal() else self._rest,
        }
        with ExitStack() as stack:
            stack.callback(self._close)
            stack.enter_context(signals(self._selector, actions))
            try:
                self._generations.begin([])
                while not self._ending or list(self._generations):
                    for key, mask in self._selector.select(TURN):
                        key.data(mask)
                    self._turn(time.monotonic())
                if self._failure:
                    raise StartError(self._failure)
            except (StartError, *REASONS) as problem:
                if self._predecessor is not None and not self._started:
                    self._predecessor.tell_failure(str(problem))
                raise

    # --- what it can be told to do -----------------------------------------------------------

    def reload(self, told: Told = lambda why: None) -> None:
        """Take up the configuration as it is now."""
        if self._ending or self._successor is not None:
            told("the server is ending" if self._ending else "the server is being upgraded")
            return
        self._wanted.append(told)
        if self._generations.rise is None:
            self._reload()

    def upgrade(self, told: Told = lambda why: None) -> None:
        """Have a new supervisor take over, of the code that is installed now."""
        if self._ending or self._successor is not None or self._generations.rise is not None:
            told("the server is busy: it starts, reloads, upgrades or ends")
            return

        def done(why: str) -> None:
            told(why)
            if why:
                self._successor = None
                self._log("error", f"upgrade failed, all goes on as before: {why}")
            else:
                self._hand_over()

        self._generations.keep_warm()
        listener = self._control.listener
        control = listener.fileno() if listener is not None else -1
        successor = Successor(self._selector, done, time.monotonic())
        try:
            successor.start(replace(self._generations.estate(), control=control))
        except OSError as problem:
            told(f"cannot be started: {problem}")
            return
        self._successor = successor

    def reopen(self) -> None:
        """Open the logs again, after they were moved away."""
        try:
            self._generations.reopen()
        except OSError as problem:
            self._log("error", f"logs cannot be opened again: {problem}")
        self._log.reopen()

    def drain(self) -> None:
        """Answer what is in hand, then end. A successor has the sockets, if there is one."""
        self._end(self._generations.rest if self._handed_over else self._generations.retire)

    def stop(self) -> None:
        """End at once."""
        self._end(lambda: self._generations.end(Generation.stop))

    def facts(self) -> dict[str, object]:
        """What runs, for operators' tools."""
        return {
            "pid": os.getpid(),
            "addresses": self._generations.listeners.addresses(),
            "generations": [generation.statistics() for generation in self._generations],
            "log_lines_lost": self._log.lost,
        }

    def _rest(self) -> None:
        """Let the workers go, and keep the sockets: a reload has them served again."""
        if self._generations.rise is not None:
            self._log("warning", "SIGWINCH came during a start or a reload: nobody was let go")
            return
        self._log("warning", "nobody serves: workers were let go by SIGWINCH, until a reload")
        self._generations.rest()

    # --- reloads -----------------------------------------------------------------------------

    def _reload(self) -> None:
        told, self._wanted = self._wanted, []
        self._notifier.reloading()
        self._generations.keep_warm()
        try:
            self._generations.begin(told)
        except Exception as problem:
            # Whatever it is, an operator's mistake or ours, must not end what serves.
            why = str(problem) if isinstance(problem, REASONS) else f"internal error: {problem!r}"
            self._reload_failed(why)
            for each in told:
                each(why)

    def _risen(self, rise: Rise) -> None:
        """Other workers serve than before."""
        brief = rise.generation.brief
        self._log.use(brief.config.log, follow=brief.identity is None)
        self._desk.took_over(rise.sized, brief.number)
        if self._live is None:
            measured = partial(measure, self._pages)
            facts, replanned = rise.sized.facts, self._replanned
            self._live = Live(self._selector, facts, rise.asked, replanned, measured)
        else:
            self._live.adopt(rise.sized.facts, rise.asked)
        if self._started:
            self._log("info", f"reloaded: generation {brief.number} serves")
        else:
            if self._predecessor is not None:
                self._predecessor.tell_ready(self._selector, partial(self._hear_tools, brief))
            else:
                self._hear_tools(brief)
            self._announce(self._generations.listeners.addresses())
        self._started = True
        self._notifier.ready(rise.sized.summary())

    def _replanned(self, sized: Sized, line: str) -> None:
        """The machine is not what it was: who serves is made to fit."""
        self._log("info", line)
        if (current := self._generations.current) is not None:
            current.resize(sized.worker, sizes(sized.worker))
            self._desk.took_over(sized, current.brief.number)

    def _failed(self, rise: Rise) -> None:
        if self._started:
            self._reload_failed(rise.generation.failure)
        else:
            self._failure = rise.generation.failure
            self._ending = True

    def _reload_failed(self, why: str) -> None:
        self._log("error", f"reload failed, all goes on as before: {why}")
        self._notifier.ready("reload failed, all goes on as before")

    # --- the loop ----------------------------------------------------------------------------

    def _turn(self, now: float) -> None:
        if now - self._turned_at >= TURN:
            if now - self._turned_at > ABSENT:
                self._grace_until = now + ABSENT
            self._turned_at = now
            self._generations.tick(now, grace=now < self._grace_until)
            self._desk.turn()
            if self._live is not None:
                self._live.turn()
            if self._successor is not None:
                self._successor.tick(now)
            self._feed(now)
        self._generations.turn(now)
        if self._wanted and self._generations.rise is None and not self._ending:
            self._reload()

    def _feed(self, now: float) -> None:
        """Tell systemd that all is well, if it is, well before it worries."""
        watchdog, current = self._notifier.watchdog, self._generations.current
        if watchdog is None or now - self._fed_at < watchdog / 4:
            return
        if current is None or current.healthy(now):
            self._notifier.feed()
            self._fed_at = now

    def _end(self, how: Callable[[], None]) -> None:
        self._notifier.stopping()
        self._ending = True
        if self._successor is not None and not self._handed_over:
            self._successor.abandon("the server is ending")
        wanted, self._wanted = self._wanted, []
        for told in wanted:
            told("the server is ending")
        how()

    def _close(self) -> None:
        if self._live is not None:
            self._live.close()
        self._control.close(remove=not self._handed_over)
        self._generations.close(remove=not self._handed_over)
        self._pages.close()
        self._selector.close()

    # --- predecessor and successor -------------------------------------------------------------

    def _hand_over(self) -> None:
        """The successor serves: let it have all, and go when everything is answered."""
        assert self._successor is not None
        self._handed_over = True
        self._control.close(remove=False)
        self._successor.let_go()
        self._ending = True
        self._generations.end(Generation.drain)

    def _hear_tools(self, brief: Brief) -> None:
        """Have operators' tools come to us: a predecessor has let go of them, if there was one."""
        if self._inherited is not None and self._inherited.control >= 0:
            self._control.adopt(socket.socket(fileno=self._inherited.control))
        else:
            self._desk.open(brief.config, brief.identity.group if brief.identity else -1)


def _make_pages(inherited: Inheritance | None) -> Pages:
    """The predecessor's, so that no counter starts anew; our own if its differ from ours."""
    if inherited is not None and inherited.pages >= 0:
        try:
            return Pages.attach(inherited.pages)
        except ValueError:
            os.close(inherited.pages)
    return Pages.create()
