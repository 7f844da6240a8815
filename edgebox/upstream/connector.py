"""Makes connections to one app server: name, TCP or Unix socket, TLS handshake.

A numeric address is connected to directly, a name through trio, which resolves in a thread
and tries several addresses at once (RFC 8305). To a local server the connection stands when
connect(2) returns, so that case waits for nothing.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address

import trio

from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.origin import Origin
from edgebox.upstream.wire import Wire

# It is this box that lacks something: the server is not to blame.
_OURS = frozenset((
    errno.EADDRNOTAVAIL, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM,
))  # fmt: skip
_BACKLOG_FULL = 0.005  # seconds between tries at a Unix socket whose backlog is full

Address = str | tuple[str, int] | tuple[str, int, int, int]


def make_context(verify: bool, ca: str) -> ssl.SSLContext:
    """How https servers are spoken to. OSError, ssl.SSLError: `ca` cannot be read."""
    context = ssl.create_default_context(cafile=ca or None)
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Connector:
    """Connects to `origin`; `context` is needed where that speaks TLS."""

    def __init__(
        self, origin: Origin, timeout: float, context: ssl.SSLContext | None, server_name: str = ""
    ) -> None:
        """`server_name`: asked for and checked instead of the host's own name."""
        self._origin = origin
        self._timeout = timeout
        self._context = context if origin.tls else None
        self._server_name = server_name or origin.host
        self._direct = _numeric(origin)

    async def connect(self) -> Wire:
        """A new connection, ready for a request.

        UpstreamError: CONNECT_FAILED, CONNECT_TIMEOUT, TLS_FAILED or NO_DESCRIPTORS.
        """
        sock: socket.socket | None = None
        with trio.CancelScope(deadline=trio.current_time() + self._timeout) as scope:
            try:
                sock = await self._reach()
                if self._context is not None:
                    sock = await self._secure(sock, self._context)
                return Wire(sock)
            except ssl.SSLError as refused:
                raise _failure(Reason.TLS_FAILED, _tls_words(refused)) from None
            except OSError as refused:
                cause = _first_cause(refused)
                ours = cause.errno in _OURS
                reason = Reason.NO_DESCRIPTORS if ours else Reason.CONNECT_FAILED
                raise _failure(reason, _words(cause)) from None
        assert scope.cancelled_caught
        step = "connecting" if sock is None else "the TLS handshake"
        raise _failure(Reason.CONNECT_TIMEOUT, f"{step} took more than {self._timeout:g} s")

    async def _reach(self) -> socket.socket:
        if self._direct is not None:
            return await _connect_directly(*self._direct)
        stream = await trio.open_tcp_stream(self._origin.host, self._origin.port)
        sock = socket.socket(fileno=stream.socket.detach())
        sock.setblocking(False)
        return sock

    async def _secure(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """`sock` with TLS over it; closed if that fails."""
        try:
            secured = context.wrap_socket(
                sock,
                server_hostname=self._server_name,
                do_handshake_on_connect=False,
                # An end without notice must show: a body that ends so may be cut off.
                suppress_ragged_eofs=False,
            )
        except BaseException:
            sock.close()
            raise
        try:
            while True:
                try:
                    secured.do_handshake()
                    return secured
                except ssl.SSLWantReadError:
                    await trio.lowlevel.wait_readable(secured)
                except ssl.SSLWantWriteError:
                    await trio.lowlevel.wait_writable(secured)
        except BaseException:
            secured.close()
            raise


def _numeric(origin: Origin) -> tuple[socket.AddressFamily, Address] | None:
    """Family and address that need no resolving; None for a name."""
    if origin.path:
        return socket.AF_UNIX, origin.path
    try:
        version = ip_address(origin.host).version
    except ValueError:
        return None
    if version == 4:
        return socket.AF_INET, (origin.host, origin.port)
    return socket.AF_INET6, (origin.host, origin.port, 0, 0)


async def _connect_directly(family: socket.AddressFamily, address: Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        outcome = sock.connect_ex(address)
        if outcome == errno.EINPROGRESS:
            outcome = sock.connect_ex(address)  # 0 if the handshake is over by now, connect(2)
        # A Unix socket is connected at once or not at all; nothing tells when there is room.
        while outcome == errno.EAGAIN and family == socket.AF_UNIX:
            await trio.sleep(_BACKLOG_FULL)
            outcome = sock.connect_ex(address)
        if outcome == errno.EALREADY:
            await trio.lowlevel.wait_writable(sock)
            outcome = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if outcome:
            raise OSError(outcome, os.strerror(outcome))
        return sock
    except BaseException:
        with suppress(OSError):
            trio.lowlevel.notify_closing(sock)
        sock.close()
        raise


def _first_cause(error: OSError) -> OSError:
    """Of what trio tells of several addresses, what the first of them said."""
    several = error.__cause__
    while isinstance(several, BaseExceptionGroup):
        first = several.exceptions[0]
        if isinstance(first, OSError):
            return first
        several = first
    return error


def _words(refused: OSError) -> str:
    """The system's own words; a resolver's errors are negative and have theirs."""
    if refused.errno is not None and refused.errno > 0:
        return os.strerror(refused.errno)
    return refused.strerror or str(refused)


def _tls_words(refused: ssl.SSLError) -> str:
    if isinstance(refused, ssl.SSLCertVerificationError):
        return f"certificate refused: {refused.verify_message}"
    return refused.reason or str(refused)


def _failure(reason: Reason, detail: str) -> UpstreamError:
    return UpstreamError(reason, detail, unsent=True, unanswered=True, resendable=True)
