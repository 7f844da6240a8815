"""Tells when a network interface or its shaper changes: rtnetlink(7)'s own messages.

A raw socket and the few fields that matter, for the library that reads all of them takes 24 MiB
and this stays for as long as the server. What it means, who is told has to find out. Where the
kernel refuses such a socket (some sandboxes), nothing is ever told.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

# linux/rtnetlink.h
RTMGRP_LINK, RTMGRP_TC = 0x1, 0x8
_NEWLINK, _DELLINK, _NEWQDISC, _DELQDISC = 16, 17, 36, 37
# linux/if_link.h
_IFNAME, _MTU, _LINK, _MASTER, _OPERSTATE = 3, 4, 5, 10, 16
_WANTED = {_IFNAME, _MTU, _LINK, _MASTER, _OPERSTATE}

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_INFO = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change
_ATTRIBUTE = struct.Struct("=HH")
_PIECE = 64 * 1024

LOST = ""  # the name that is told when messages were lost: anything may have changed


class Change(NamedTuple):
    """An interface as a message has it: `state` is all in it that a plan may hang on."""

    number: int  # its index
    name: str | None  # None: of its queue only
    state: tuple[object, ...]


class LinkWatch:
    """Calls `on_change` with the name of each interface that is not as it was."""

    def __init__(self, selector: selectors.BaseSelector, on_change: Callable[[str], None]) -> None:
        self._selector = selector
        self._on_change = on_change
        self._states: dict[int, Change] = {}
        self._heard = self._told = 0
        self._sock = _subscribe()
        if self._sock is not None:
            selector.register(self._sock, selectors.EVENT_READ, self._hear)

    def close(self) -> None:
        if self._sock is not None:
            self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def statistics(self) -> dict[str, int]:
        return {"watching": int(self._sock is not None), "heard": self._heard, "told": self._told}

    def _hear(self, mask: int) -> None:
        for message in self._messages():
            self._heard += 1
            for change in changes(message):
                self._note(change)

    def _messages(self) -> Iterator[bytes]:
        while self._sock is not None:
            try:
                yield self._sock.recv(_PIECE)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno != errno.ENOBUFS:
                    raise
                self._tell(LOST)

    def _note(self, change: Change) -> None:
        before = self._states.get(change.number)
        if change.name is None:  # a shaper: its rate is not read here
            self._tell(before.name or LOST if before is not None else _name(change.number))
        elif before is None or before.state != change.state:
            # Wireless cards send one for each scan: only what differs is told.
            self._states[change.number] = change
            self._tell(change.name)

    def _tell(self, name: str) -> None:
        self._told += 1
        self._on_change(name)


def changes(octets: bytes) -> Iterator[Change]:
    """What one datagram says of interfaces; what is cut off or of another kind says nothing."""
    at = 0
    while at + _HEADER.size <= len(octets):
        length, kind, *_ = _HEADER.unpack_from(octets, at)
        if length < _HEADER.size or at + length > len(octets):
            return
        body = octets[at + _HEADER.size : at + length]
        at += -(-length // 4) * 4
        if len(body) < _INFO.size:
            continue
        _, _, index, flags, _ = _INFO.unpack_from(body)
        if kind in (_NEWQDISC, _DELQDISC):  # tcmsg: the index is in the same place
            yield Change(index, None, ())
        elif kind in (_NEWLINK, _DELLINK):
            told = dict(_attributes(body[_INFO.size :]))
            name = told.pop(_IFNAME, b"").rstrip(b"\0").decode(errors="replace")
            yield Change(index, name, (kind, name, flags, *sorted(told.items())))


def _attributes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(octets):
        length, kind = _ATTRIBUTE.unpack_from(octets, at)
        if length < _ATTRIBUTE.size:
            return
        if kind in _WANTED:
            yield kind, octets[at + _ATTRIBUTE.size : at + length]
        at += -(-length // 4) * 4


def _subscribe() -> socket.socket | None:
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        sock = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
    except OSError:
        return None
    try:
        sock.bind((0, RTMGRP_LINK | RTMGRP_TC))
    except OSError:
        sock.close()
        return None
    return sock


def _name(index: int) -> str:
    with suppress(OSError):
        return socket.if_indextoname(index)
    return LOST
