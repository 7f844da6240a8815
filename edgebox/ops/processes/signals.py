"""Signals for a selector loop: each runs its action in the loop, between two callbacks."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

Actions = Mapping[signal.Signals, Callable[[], None]]


@contextmanager
def signals(selector: selectors.BaseSelector, actions: Actions) -> Iterator[None]:
    """Have `actions` run when their signals come; as before when the block is left."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)

    def act(mask: int) -> None:
        with suppress(BlockingIOError):
            for number in reading.recv(4096):
                if action := actions.get(signal.Signals(number)):
                    action()

    selector.register(reading, selectors.EVENT_READ, act)
    before = {number: signal.signal(number, lambda *_: None) for number in actions}
    wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        selector.unregister(reading)
        reading.close()
        writing.close()


def has_terminal() -> bool:
    """Whether this process belongs to one."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
