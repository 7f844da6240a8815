"""Servers that send long files, with the express lane and without."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from tests.wire import Client, Server, configure, unharmed

SEGMENT = 1460  # octets, as on Ethernet: loopback's are 64 kB, and buffers as large


@dataclass
class Box:
    """A server of `files`, what it logged, and how to reach it as over Ethernet."""

    server: Server
    body: bytes  # of /long.bin
    access: Path
    errors: Path

    @asynccontextmanager
    async def connect(self, buffer: int | None = None) -> AsyncIterator[Client]:
        """A client, with a receive buffer of about `buffer` octets if given."""
        sock = trio.socket.socket()
        with sock:
            sock.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_MAXSEG, SEGMENT)
            if buffer is not None:
                sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, buffer)
            await sock.connect(("127.0.0.1", self.server.port))
            yield Client(trio.SocketStream(sock))

    @property
    def transfers(self) -> int:
        return len(self.server.worker.service.carrier.transfers)

    @property
    def sent(self) -> int:
        """Octets of files in what is on its way now."""
        carried = self.server.worker.service.carrier.transfers.values()
        return sum(transfer.offset - transfer.start for transfer in carried)

    def lines(self) -> list[bytes]:
        """The access log so far."""
        self.server.worker._sinks[0].flush()
        return self.access.read_bytes().splitlines()


Boxes = Callable[..., AbstractAsyncContextManager[Box]]


@pytest.fixture(params=[True, False], ids=["lane", "tasks"])
def boxes(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Boxes:
    """boxes(limits={...}) is a server that must come out of the block unharmed."""

    @asynccontextmanager
    async def enter(**tables: dict[str, object]) -> AsyncIterator[Box]:
        body = os.urandom(1_500_000)
        (root / "long.bin").write_bytes(body)
        log, access = tmp_path / "error.log", tmp_path / "access.log"
        tables["server"] = {"express": request.param} | tables.get("server", {})
        tables["log"] = {"access": str(access)}
        tables["files"] = {"object_size": 1024} | tables.get("files", {})
        async with unharmed(configure(root, **tables), log) as server:
            yield Box(server, body, access, log)

    return enter
