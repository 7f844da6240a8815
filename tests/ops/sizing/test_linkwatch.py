"""Promises of the link watch: what changed is told by name, and nothing else is."""

from __future__ import annotations

import selectors
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.ops.sizing.linkwatch import LOST, Change, LinkWatch, changes

NEWLINK, DELLINK, NEWQDISC = 16, 17, 36
UP = 0x1


def attribute(kind: int, value: bytes) -> bytes:
    padding = -len(value) % 4
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * padding


def message(kind: int, number: int, flags: int = 0, attributes: bytes = b"") -> bytes:
    body = struct.pack("=BxHiII", 0, 1, number, flags, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def link(number: int, name: str, flags: int = UP, mtu: int = 1500, other: bytes = b"") -> bytes:
    rest = attribute(4, struct.pack("=I", mtu)) + attribute(7, other)
    return message(NEWLINK, number, flags, attribute(3, name.encode() + b"\0") + rest)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> tuple[socket.socket, LinkWatch, list[str]]:
    """A watch on a socket of ours, and what it told."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    theirs.setblocking(False)
    monkeypatch.setattr("edgebox.ops.sizing.linkwatch._subscribe", lambda: theirs)
    names: list[str] = []
    return ours, LinkWatch(selectors.DefaultSelector(), names.append), names


Told = tuple[socket.socket, LinkWatch, list[str]]


def hear(told: Told, *messages: bytes) -> list[str]:
    ours, watch, names = told
    names.clear()
    for each in messages:
        ours.send(each)
    watch._hear(1)
    return list(names)


def test_an_interface_is_told_when_it_differs_and_not_for_each_message(told: Told) -> None:
    assert hear(told, link(7, "eth0")) == ["eth0"]
    assert hear(told, link(7, "eth0"), link(7, "eth0", other=b"a scan's result")) == []
    assert hear(told, link(7, "eth0", flags=0)) == ["eth0"]
    assert hear(told, link(7, "eth0", flags=0, mtu=9000)) == ["eth0"]
    assert hear(told, message(DELLINK, 7, 0, attribute(3, b"eth0\0"))) == ["eth0"]
    told[1].close()
    told[0].close()


def test_a_shaper_is_told_by_the_name_of_its_interface(told: Told) -> None:
    hear(told, link(7, "eth0"))
    assert hear(told, message(NEWQDISC, 7)) == ["eth0"]
    assert hear(told, message(NEWQDISC, 1)) == ["lo"]
    assert hear(told, message(NEWQDISC, 2**31 - 1)) == [LOST]
    told[1].close()
    told[0].close()


def test_several_messages_in_one_datagram_are_all_read() -> None:
    found = list(changes(link(1, "a") + link(2, "b") + message(99, 3) + message(NEWQDISC, 4)))
    assert [(change.number, change.name) for change in found] == [(1, "a"), (2, "b"), (4, None)]


@given(st.binary(max_size=200), st.integers(0, 100))
def test_octets_that_are_no_message_say_nothing_and_raise_nothing(octets: bytes, cut: int) -> None:
    for garbled in (octets, link(1, "eth0")[:cut] + octets):
        assert all(isinstance(change, Change) for change in changes(garbled))


def test_where_the_kernel_gives_no_socket_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> socket.socket:
        raise PermissionError

    monkeypatch.setattr("socket.socket", refused)
    selector = selectors.DefaultSelector()
    watch = LinkWatch(selector, lambda _: None)
    assert watch.statistics()["watching"] == 0
    assert not selector.get_map()
    watch.close()


def test_this_kernel_lets_us_listen() -> None:
    selector = selectors.DefaultSelector()
    watch = LinkWatch(selector, lambda _: None)
    assert watch.statistics()["watching"] == 1
    watch.close()
    assert not selector.get_map()
