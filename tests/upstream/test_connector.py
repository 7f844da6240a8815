"""Connections over TCP, Unix sockets and TLS, and each way in which there is none."""

from __future__ import annotations

import errno
import os
import resource
import socket
import ssl
from contextlib import contextmanager, suppress

import pytest
import trio

from edgebox.upstream.connector import Connector, make_context
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.origin import parse_origin

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def failure(url: str, timeout: float = 5, **tls: object) -> UpstreamError:
    context = make_context(tls.get("verify", True), tls.get("ca", ""))
    connector = Connector(parse_origin(url), timeout, context, tls.get("name", ""))
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await connector.connect()
    assert caught.value.unsent
    return caught.value


@contextmanager
def listening(family: int, address: object, backlog: int = 16):
    with socket.socket(family) as sock:
        sock.bind(address)
        sock.listen(backlog)
        yield sock


async def test_a_name_is_resolved(fake, group, get, read, always) -> None:
    server = await fake(always(OK))
    app = await group(server.url.replace("127.0.0.1", "localhost"))
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"ok"
    assert server.accepted == 1


async def test_ipv6_is_spoken() -> None:
    with listening(socket.AF_INET6, ("::1", 0)) as sock:
        port = sock.getsockname()[1]
        wire = await Connector(parse_origin(f"http://[::1]:{port}"), 5, None).connect()
        wire.close()


async def test_small_segments_are_not_held_back() -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as sock:
        for host in ("127.0.0.1", "localhost"):
            origin = parse_origin(f"http://{host}:{sock.getsockname()[1]}")
            wire = await Connector(origin, 5, None).connect()
            assert wire._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not wire._sock.getblocking()
            wire.close()


async def test_a_unix_socket_is_spoken_to(fake, group, get, read, always, tmp_path) -> None:
    server = await fake(always(OK), path=tmp_path / "app.sock")
    app = await group(server.url)
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"ok"
    assert server.accepted == 1


async def test_a_unix_socket_with_a_full_backlog_is_waited_for(tmp_path) -> None:
    path = str(tmp_path / "app.sock")
    with listening(socket.AF_UNIX, path, backlog=0) as sock, socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        connector = Connector(parse_origin(f"unix:{path}"), 5, None)
        async with trio.open_nursery() as nursery:

            async def accept_later() -> None:
                await trio.sleep(0.02)
                sock.accept()[0].close()

            nursery.start_soon(accept_later)
            with trio.fail_after(5):
                wire = await connector.connect()
        assert wire.send_nowait(b"x") == 1
        wire.close()


async def test_one_that_stays_full_is_a_504(tmp_path) -> None:
    path = str(tmp_path / "app.sock")
    with listening(socket.AF_UNIX, path, backlog=0), socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        error = await failure(f"unix:{path}", timeout=0.05)
    assert (error.reason, error.status) == (Reason.CONNECT_TIMEOUT, 504)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_is_a_502(host: str) -> None:
    with socket.socket() as sock:  # bound and not listening
        sock.bind(("127.0.0.1", 0))
        error = await failure(f"http://{host}:{sock.getsockname()[1]}")
    assert (error.reason, error.status) == (Reason.CONNECT_FAILED, 502)
    assert error.detail == os.strerror(errno.ECONNREFUSED)


async def test_a_socket_file_that_is_not_there_is_a_502(tmp_path) -> None:
    error = await failure(f"unix:{tmp_path}/none.sock")
    assert (error.reason, error.detail) == (Reason.CONNECT_FAILED, os.strerror(errno.ENOENT))


async def test_a_name_that_does_not_resolve_is_a_502() -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *args: object, **keys: object) -> object:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *args: object) -> object:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    error = await failure("http://nowhere.invalid")
    assert (error.reason, error.detail) == (Reason.CONNECT_FAILED, "Name or service not known")


async def test_a_handshake_that_never_ends_is_a_504() -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as sock:
        error = await failure(f"https://127.0.0.1:{sock.getsockname()[1]}", timeout=0.05)
    assert error.reason is Reason.CONNECT_TIMEOUT
    assert "TLS" in error.detail


async def test_no_descriptor_left_is_our_own_fault(fake, always) -> None:
    server = await fake(always(OK))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        with suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        error = await failure(server.url) if held else None
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert error is not None
    assert (error.reason, error.status, error.reason.counts) == (Reason.NO_DESCRIPTORS, 503, False)


async def test_https_is_verified_and_reused(
    fake, group, get, read, always, certified, ca_file
) -> None:
    server = await fake(always(OK), tls=certified("127.0.0.1"))
    app = await group(server.url, tls={"ca": ca_file})
    for _ in range(3):
        assert await read(await app.fetch(get())) == b"ok"
        await trio.sleep(0.01)  # session tickets arrive late, and mean nothing
    assert server.accepted == 1


@pytest.mark.parametrize(
    ("names", "ca", "words"),
    [(["other.example"], True, "certificate refused"), (["127.0.0.1"], False, "issuer")],
    ids=["name", "authority"],
)
async def test_a_certificate_that_does_not_verify_is_a_502(
    fake, always, certified, ca_file, names, ca, words
) -> None:
    async def quiet(peer) -> None:
        with suppress(trio.BrokenResourceError):
            await peer.read_head()

    server = await fake(quiet, tls=certified(*names))
    error = await failure(server.url, ca=ca_file if ca else "")
    assert (error.reason, error.status) == (Reason.TLS_FAILED, 502)
    assert words in error.detail


async def test_verification_can_be_switched_off(fake, group, get, read, always, certified) -> None:
    server = await fake(always(OK), tls=certified("other.example"))
    app = await group(server.url, tls={"verify": False})
    assert await read(await app.fetch(get())) == b"ok"


async def test_another_name_can_be_asked_for(
    fake, group, get, read, always, certified, ca_file
) -> None:
    asked = []
    context = certified("app.example")
    context.sni_callback = lambda sock, name, ctx: asked.append(name)
    server = await fake(always(OK), tls=context)
    app = await group(server.url, tls={"ca": ca_file, "server_name": "app.example"})
    assert await read(await app.fetch(get())) == b"ok"
    assert asked == ["app.example"]


async def test_a_server_that_speaks_no_tls_is_a_502(fake, always) -> None:
    async def handle(peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = await fake(handle)
    error = await failure(server.url.replace("http", "https"))
    assert error.reason is Reason.TLS_FAILED


def test_a_missing_ca_file_is_told_at_once(tmp_path) -> None:
    with pytest.raises(OSError):
        make_context(True, str(tmp_path / "none.pem"))
    assert make_context(False, "").verify_mode is ssl.CERT_NONE
