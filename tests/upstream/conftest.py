"""A fake app server on real sockets: each test says, octet by octet, what it does."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trustme

from edgebox.config.upstreams import Upstream, UpstreamHealth, UpstreamServer, UpstreamTls
from edgebox.upstream.group import UpstreamGroup
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.outgoing import Outgoing

PATIENCE = 5  # seconds that anything may take before it counts as hung


class Peer:
    """One connection that the fake has accepted; `number` counts them from 0."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, raw: object, number: int) -> None:
        self.stream = stream
        self.number = number
        self._raw = raw
        self.buffer = b""

    async def read_head(self) -> bytes:
        """The next request's head; EOFError where there is none."""
        while b"\r\n\r\n" not in self.buffer:
            await self._read_more()
        return self._take(self.buffer.index(b"\r\n\r\n") + 4)

    async def read(self, count: int) -> bytes:
        """`count` octets."""
        while len(self.buffer) < count:
            await self._read_more()
        return self._take(count)

    async def read_all(self) -> bytes:
        """Everything until edgebox closes, or resets."""
        with suppress(EOFError):
            while True:
                await self._read_more()
        return self._take(len(self.buffer))

    async def _read_more(self) -> None:
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise EOFError(self.buffer)
        self.buffer += data

    def _take(self, count: int) -> bytes:
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def reset(self) -> None:
        """Close so that edgebox sees a reset and not an end."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.stream.aclose()


Handler = Callable[[Peer], Awaitable[None]]


class Fake:
    """Runs `handler` for each connection and closes it afterwards; `accepted` counts."""

    def __init__(self, url: str, listener: trio.abc.Listener) -> None:
        self.url = url
        self.accepted = 0
        self.open = 0
        self.peers: list[Peer] = []
        self._listener = listener

    async def run(self, handler: Handler, context: ssl.SSLContext | None) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            raw = stream.socket
            number, self.accepted = self.accepted, self.accepted + 1
            self.open += 1
            secured = trio.SSLStream(stream, context, server_side=True) if context else stream
            peer = Peer(secured, raw, number)
            self.peers.append(peer)
            try:
                with suppress(EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                    await handler(peer)
            finally:
                self.open -= 1
                with trio.move_on_after(1, shield=True):
                    await secured.aclose()

        try:
            await trio.serve_listeners(serve, [self._listener])
        except* trio.ClosedResourceError:
            pass  # stopped

    async def stop(self) -> None:
        """Take no more connections: who tries is refused."""
        await self._listener.aclose()


@pytest.fixture(autouse=True)
def no_descriptor_leaks() -> Iterator[None]:
    """After each test no more descriptors are open than before it."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.fixture
async def fake(nursery: trio.Nursery) -> Callable[..., Awaitable[Fake]]:
    """Starts a fake app server; `tls` gives it a certificate, `path` a Unix socket."""

    async def start(
        handler: Handler, *, tls: ssl.SSLContext | None = None, path: Path | None = None
    ) -> Fake:
        if path is not None:
            sock = trio.socket.socket(socket.AF_UNIX)
            await sock.bind(str(path))
            sock.listen(16)
            listener, url = trio.SocketListener(sock), f"unix:{path}"
        else:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listener.socket.getsockname()[1]
            url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        server = Fake(url, listener)
        nursery.start_soon(server.run, handler, tls)
        return server

    return start


@pytest.fixture
async def group(nursery: trio.Nursery) -> Callable[..., Awaitable[UpstreamGroup]]:
    """Starts a group for some URLs; keywords are keys of [upstream.NAME]."""

    async def start(*servers: object, **keys: object) -> UpstreamGroup:
        log = keys.pop("log", [])
        made = UpstreamGroup(
            "app",
            Upstream(
                servers=tuple(UpstreamServer(**s) if isinstance(s, dict) else s for s in servers),
                health=UpstreamHealth(**keys.pop("health", {})),
                tls=UpstreamTls(**keys.pop("tls", {})),
                **keys,
            ),
            lambda level, text: log.append(f"{level}: {text}"),
            random_number=lambda: 0.0,
        )
        await nursery.start(made.run)
        return made

    return start


@pytest.fixture
def get() -> Callable[..., Outgoing]:
    """Makes a request."""

    def make(target: bytes = b"/", method: bytes = b"GET", **parts: object) -> Outgoing:
        return Outgoing(method, target, ((b"Host", b"example.com"),), **parts)

    return make


@pytest.fixture
def read() -> Callable[[Incoming], Awaitable[bytes]]:
    """Reads a body to its end."""

    async def read_all(incoming: Incoming) -> bytes:
        with trio.fail_after(PATIENCE):
            return b"".join([piece async for piece in incoming])

    return read_all


@pytest.fixture
def always() -> Callable[[bytes], Handler]:
    """A handler that gives the same answer to every request of a connection."""

    def make(answer: bytes) -> Handler:
        async def handle(peer: Peer) -> None:
            while True:
                await peer.read_head()
                await peer.send(answer)

        return handle

    return make


@pytest.fixture
def once() -> Callable[[bytes], Handler]:
    """A handler that answers one request and closes."""

    def make(answer: bytes) -> Handler:
        async def handle(peer: Peer) -> None:
            await peer.read_head()
            await peer.send(answer)

        return handle

    return make


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Signs the certificates of the fakes."""
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def certified(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """A server's TLS context with a certificate for some names."""

    def make(*names: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(*names).configure_cert(context)
        return context

    return make


@pytest.fixture
def pieces() -> Callable[..., AsyncIterator[bytes]]:
    """A body that yields its arguments."""

    async def make(*parts: bytes) -> AsyncIterator[bytes]:
        for part in parts:
            await trio.lowlevel.checkpoint()
            yield part

    return make
