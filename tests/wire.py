"""A raw HTTP client and an in-process server: real sockets, octets as they are.

The client writes what it is told, whole or in pieces, and reads what comes; nothing is
put right on the way, so a test sees what a hostile or a slow client would see.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import h11
import trio
import trio.lowlevel
from msgspec.structs import replace

from edgebox.config.schema import Config, Site
from edgebox.config.settle import look_at_machine, settle
from edgebox.express.lane import Lane
from edgebox.listen.sockets import bind
from edgebox.ops.worker.worker import Worker

PATIENCE = 10  # seconds that anything in a test may take before it counts as hung


@dataclass
class Answer:
    """One response as the client saw it."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw_headers: list[tuple[str, str]] = field(default_factory=list)


class Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._h11: h11.Connection | None = None
        self.buffer = b""

    async def send(self, data: bytes, step: int | None = None) -> None:
        """Write `data`, in pieces of `step` octets if given, each in a segment of its own."""
        if step is None:
            await self.stream.send_all(data)
            return
        for i in range(0, len(data), step):
            await self.stream.send_all(data[i : i + step])
            await trio.lowlevel.checkpoint()

    async def read_all(self) -> bytes:
        """Everything until the server closes."""
        pieces = [self.buffer]
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    pieces.append(await self.stream.receive_some(65536))
                except trio.BrokenResourceError:
                    break
                if not pieces[-1]:
                    break
        self.buffer = b"".join(pieces)
        return self.buffer

    async def read_answer(self, method: str = "GET") -> Answer:
        """The next final response to a `method` request."""
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        reader.send(h11.EndOfMessage())
        if self.buffer:  # nothing means the end, to h11
            reader.receive_data(self.buffer)
        status, headers, body = 0, [], b""
        with trio.fail_after(PATIENCE):
            while True:
                event = reader.next_event()
                if event is h11.NEED_DATA:
                    reader.receive_data(await self.stream.receive_some(65536))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                    headers = [(k.decode(), v.decode("latin-1")) for k, v in event.headers]
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    self.buffer = reader.trailing_data[0]
                    return Answer(status, dict(headers), body, headers)
                elif isinstance(event, h11.ConnectionClosed):
                    raise EOFError("closed before the answer was whole")

    async def closed(self) -> bool:
        """True once the server has closed and nothing more came."""
        return await self.read_all() == b""


class Usage(NamedTuple):
    """What a server holds; `octets` by its own ledger, the rest as it is."""

    descriptors: int
    tasks: int
    children: int
    idle: int
    octets: int


class Server:
    """A worker in this very loop, on a port that the kernel chose."""

    def __init__(self, worker: Worker, port: int, nursery: trio.Nursery) -> None:
        self.worker = worker
        self.port = port
        self.nursery = nursery

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            yield Client(stream)

    async def exchange(self, data: bytes, step: int | None = None, end: bool = False) -> bytes:
        """Send `data` on a connection of its own, return all that came until it was closed.

        `end`: close the sending side afterwards (half-close).
        """
        async with self.connect() as client:
            try:
                await client.send(data, step)
                if end:
                    await client.stream.send_eof()
            except trio.BrokenResourceError:
                pass  # it closed on us before it had read everything: see what it said
            return await client.read_all()

    async def get(self, target: str = "/", *fields: str, method: str = "GET") -> Answer:
        """One request on a connection of its own."""
        async with self.connect() as client:
            await client.send(request(target, *fields, method=method))
            return await client.read_answer(method)

    def usage(self) -> Usage:
        """What is held once all that may be forgotten is: records, answers, heads."""
        worker = self.worker
        worker.epoch.forget()
        worker.store._holdings.clear()
        if isinstance(worker.front, Lane):
            worker.front._memory.forget_heads()
        return Usage(
            descriptors=len(os.listdir("/proc/self/fd")),
            tasks=worker.admission.tasks,
            children=len(worker.front._nursery.child_tasks),
            idle=worker.front.statistics()["idle"],
            octets=worker.ledger.held,
        )

    async def wait_rest(self) -> Usage:
        """What is held once no client is; TooSlowError if one stays."""
        with trio.fail_after(PATIENCE):
            while (usage := self.usage()).tasks or usage.idle:
                await trio.sleep(0.002)
        return usage


def request(target: str = "/", *fields: str, method: str = "GET", host: str = "x") -> bytes:
    """The octets of a request without a body; `fields` as "Name: value"."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]
    return "".join(line + "\r\n" for line in lines).encode("latin-1") + b"\r\n"


Change = Callable[[Config], Config]


def configure(root: Path, cache: Path | None = None, **tables: dict[str, object]) -> Config:
    """A settled configuration that serves `root`; `tables` change single keys.

    site={"dotfiles": True}, limits={"head_timeout": 0.3}, and so on. Nothing is
    compressed unless a `cache` directory is given.
    """
    site = replace(Site(root=str(root)), **tables.pop("site", {}))
    config = replace(Config(), site=(site,))
    compression = {"enabled": cache is not None, "dir": str(cache or root / "none")}
    tables["compression"] = compression | tables.get("compression", {})
    tables["cache"] = {"dir": ""} | tables.get("cache", {})
    for table, values in tables.items():
        config = replace(config, **{table: replace(getattr(config, table), **values)})
    return settle(config, look_at_machine())


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Server]:
    """A server for `config` until the block ends."""
    with ExitStack() as stack:
        listener = stack.enter_context(bind("127.0.0.1:0", 128))
        worker = Worker(config, stack)
        async with trio.open_nursery() as nursery:
            await nursery.start(worker.serve, [listener])
            yield Server(worker, listener.getsockname()[1], nursery)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def unharmed(config: Config, log: Path) -> AsyncIterator[Server]:
    """A server that whatever is done to it in the block must not leave worse.

    At the end it answers a clean request; descriptors, tasks and memory are back where
    they were; and the error log, kept in `log`, tells of no bug of ours.
    """
    config = replace(config, log=replace(config.log, error=str(log), level="debug"))
    async with serving(config) as server:
        clean = await server.get("/")
        assert clean.status == 200
        before = await server.wait_rest()
        yield server
        again = await server.get("/")
        assert (again.status, again.body) == (clean.status, clean.body)
        after = await server.wait_rest()
        # Fewer: what an earlier test had forgotten was collected meanwhile.
        assert after.descriptors <= before.descriptors
        assert after._replace(descriptors=before.descriptors) == before
    assert b"internal error" not in log.read_bytes(), log.read_text()


def statuses(answers: Sequence[Answer]) -> list[int]:
    return [a.status for a in answers]


def first_status(octets: bytes) -> int:
    """The status of the first response in `octets`; 0 where there is none."""
    return int(octets[9:12]) if octets.startswith(b"HTTP/1.1 ") else 0


def count_answers(octets: bytes) -> int:
    """How many responses there are in `octets`; none of ours speaks of HTTP/1.1 in its body."""
    return len(re.findall(rb"HTTP/1\.1 [1-5][0-9][0-9] ", octets))
