"""A supervisor's selector loop in a thread, and clients of its control socket."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebox.ops.control.control import Control

PATIENCE = 10.0


class Loop:
    """What the supervisor does: select, call, turn. `now` is the tests' to move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[tuple[str, str]] = []
        self.lost: list[tuple[int, str]] = []
        self.selector = selectors.DefaultSelector()
        self.control = Control(
            self.selector, lambda level, text: self.said.append((level, text)), lambda: self.now
        )
        self.control.when_lost = lambda slot, why: self.lost.append((slot, why))
        self._calls: list[Callable[[], Any]] = []
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self.selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self.crash: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def do(self, call: Callable[[], Any]) -> Any:
        """Have the loop call something; its result."""
        done = threading.Event()
        result: list[Any] = []

        def run() -> None:
            try:
                result.append(call())
            finally:
                done.set()

        self._calls.append(run)
        self._waker.send(b"x")
        assert done.wait(PATIENCE), self.crash
        assert result, self.crash
        return result[0]

    def turn_at(self, now: float) -> None:
        self.now = now
        self.do(self.control.turn)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._going = False
            self._waker.send(b"x")
            self._thread.join(PATIENCE)
        self.control.close()
        self.selector.close()
        self._wake.close()
        self._waker.close()
        assert self.crash is None, self.crash

    def _woken(self, mask: int) -> None:
        self._wake.recv(4096)
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def _run(self) -> None:
        try:
            while self._going:
                for key, mask in self.selector.select(0.5):
                    key.data(mask)
        except BaseException as problem:
            self.crash = problem


class Client:
    """A blocking client of a control socket."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(path))
        self._lines = self.sock.makefile("rb")

    def write(self, octets: bytes) -> None:
        self.sock.sendall(octets)

    def say(self, **message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "the server closed"
        told: dict[str, Any] = json.loads(line)
        return told

    def ended(self) -> bool:
        try:
            return self._lines.readline() == b""
        except ConnectionResetError:
            return True

    def ask(self, **message: object) -> dict[str, Any]:
        self.say(**message)
        return self.read()

    def close(self) -> None:
        self._lines.close()
        self.sock.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def connect(loop: Loop, place: Path) -> Iterator[Callable[[], Client]]:
    """Clients of a control socket that listens."""
    loop.do(lambda: loop.control.listen(str(place), 0o660))
    clients: list[Client] = []

    def make() -> Client:
        clients.append(Client(place))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
