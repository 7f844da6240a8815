"""A fake app server on real sockets, and edgebox before it: each test says what the app does.

The app is an async function that gets one `Call` after another. What it sends goes out
octet for octet, so that an answer may be late, cut off, in pieces, or nonsense.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

import edgebox.epoch
from edgebox.config.schema import Config, Route, Site
from edgebox.config.settle import look_at_machine, settle
from tests.wire import PATIENCE, Answer, Server, serving

REASON = {200: "OK", 206: "Partial Content", 304: "Not Modified", 404: "Not Found"}


@dataclass
class Call:
    """One request that the app got, and the means to answer it.

    `body` is as it came, chunks and all.
    """

    method: str
    target: str
    headers: dict[str, str]
    head: bytes
    stream: trio.SocketStream
    body: bytes = b""

    async def answer(
        self, *fields: str, status: int = 200, body: bytes = b"", length: int | None = None
    ) -> None:
        """A whole answer; `length` for a Content-Length that is not that of `body`."""
        bodiless = status in (204, 304) or status < 200
        lines = [f"HTTP/1.1 {status} {REASON.get(status, 'So')}", *fields]
        if not bodiless:
            lines.append(f"Content-Length: {len(body) if length is None else length}")
        head = "".join(line + "\r\n" for line in lines).encode("latin-1") + b"\r\n"
        await self.send(head if self.method == "HEAD" or bodiless else head + body)

    async def begin(self, *fields: str, status: int = 200) -> None:
        """The head of a chunked answer."""
        lines = [f"HTTP/1.1 {status} {REASON.get(status, 'So')}", *fields]
        lines.append("Transfer-Encoding: chunked")
        await self.send("".join(line + "\r\n" for line in lines).encode() + b"\r\n")

    async def chunk(self, data: bytes) -> None:
        """A piece of it; an empty one ends it."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def close(self) -> None:
        await self.stream.aclose()

    async def reset(self) -> None:
        """Close so that the other side sees a reset and not an end."""
        linger = struct.pack("ii", 1, 0)
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await self.stream.aclose()


App = Callable[[Call], Awaitable[None]]


@dataclass
class Origin:
    """`calls` in the order in which they came; `open` connections."""

    app: App
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    open: int = 0

    @property
    def seen(self) -> list[str]:
        """What was asked for, as "METHOD target"."""
        return [f"{call.method} {call.target}" for call in self.calls]

    async def serve(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            await self._serve(stream)
        finally:
            self.open -= 1

    async def _serve(self, stream: trio.SocketStream) -> None:
        buffer = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = await stream.receive_some(65536)
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                call = _read(head, stream)
                length = int(call.headers.get("content-length", "0"))
                if "transfer-encoding" in call.headers:
                    while b"0\r\n\r\n" not in buffer:
                        buffer += await stream.receive_some(65536)
                    length = buffer.index(b"0\r\n\r\n") + 5
                while len(buffer) < length:
                    buffer += await stream.receive_some(65536)
                call.body, buffer = buffer[:length], buffer[length:]
                self.calls.append(call)
                await self.app(call)
        await stream.aclose()


def _read(head: bytes, stream: trio.SocketStream) -> Call:
    line, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = line.split(" ")
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Call(method, target, headers, head, stream)


@asynccontextmanager
async def listening(app: App) -> AsyncIterator[Origin]:
    """The app on a port that the kernel chose."""
    origin = Origin(app)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        origin.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, origin.serve, [listener])
        yield origin
        nursery.cancel_scope.cancel()


def before(
    url: str, log: Path | None = None, root: str = "", **tables: dict[str, object]
) -> Config:
    """The settled configuration of a cache before `url`; `tables` change single keys.

    route={"set_cookie": "keep"}, cache={"object_size": 1000}, and so on. Nothing is
    compressed unless compression={"enabled": True}.
    """
    route = replace(Route(upstream=url), **tables.pop("route", {}))
    others = tables.pop("site", {}).get("route", ())
    config = replace(Config(), site=(Site(root=root, route=(route, *others)),))
    tables["compression"] = {"enabled": False} | tables.get("compression", {})
    tables["cache"] = {"dir": ""} | tables.get("cache", {})
    if log is not None:
        tables["log"] = {"error": str(log), "level": "debug"}
    for table, values in tables.items():
        config = replace(config, **{table: replace(getattr(config, table), **values)})
    return settle(config, look_at_machine())


class Clocks:
    """What the epoch reads the time from: it stands still but for what `age` lets pass."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self) -> None:
        self.begun = int(time.time()) + 0.5
        self.wall = 0
        self.steady = 0

    def time(self) -> float:
        return self.begun + self.wall

    def monotonic(self) -> float:
        return time.monotonic()  # what files are watched by goes on

    def clock_gettime(self, clock: int) -> float:
        return 1000.5 + self.steady


@asynccontextmanager
async def proxied(app: App, **tables: dict[str, object]) -> AsyncIterator[tuple[Server, Origin]]:
    """edgebox before an app."""
    async with listening(app) as origin:
        async with running(before(origin.url, **tables)) as server:
            yield server, origin


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[Server]:
    """A server whose time stands still but for `age`."""
    with pytest.MonkeyPatch.context() as patch:
        clocks = Clocks()
        patch.setattr(edgebox.epoch, "time", clocks)
        async with serving(config) as server:
            server.clocks = clocks  # type: ignore[attr-defined]
            yield server


def age(server: Server, seconds: int, *, wall: bool = True) -> None:
    """Let that much time pass, as far as the server can tell; `wall`: by that clock, too."""
    clocks = server.clocks  # type: ignore[attr-defined]
    clocks.steady += seconds
    clocks.wall += seconds if wall else 0
    server.worker.epoch.turn()


async def ask_all(server: Server, count: int, target: str = "/", *fields: str) -> list[Answer]:
    """That many clients ask for the same thing at once, each on a connection of its own."""
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await server.get(target, *fields))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(ask)
    return answers
