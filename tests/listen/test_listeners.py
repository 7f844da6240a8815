"""The sockets of a box: kept while they are wanted, shared among workers, closed after."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edgebox.listen.listeners import Listeners
from edgebox.listen.sockets import ListenError, begin, bind

HERE = "127.0.0.1:0"


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    first = Listeners({}).changed([HERE], 2, 128)
    yield first
    first.close(remove=True)


def numbers(listeners: Listeners) -> list[int]:
    return sorted(sock.fileno() for sock in listeners)


def accepting(listeners: Listeners) -> set[int]:
    """Ports at which somebody can be reached."""
    found = set()
    for sock in listeners:
        with socket.create_connection(sock.getsockname(), timeout=5):
            found.add(sock.getsockname()[1])
    return found


def test_each_worker_has_a_socket_of_its_own_on_the_same_port(listeners: Listeners) -> None:
    one, two = listeners.portion(0, 2), listeners.portion(1, 2)
    assert len(one) == len(two) == 1
    assert one != two
    assert len(accepting(listeners)) == 1
    assert len(listeners.addresses()) == 1


def test_nobody_else_gets_the_port(listeners: Listeners) -> None:
    (port,) = accepting(listeners)
    with pytest.raises(ListenError, match="in use"):
        bind(f"127.0.0.1:{port}", 16)


def test_nobody_is_led_to_a_socket_that_no_worker_accepts_from_yet(listeners: Listeners) -> None:
    (first,), (second,) = listeners.portion(0, 2), listeners.portion(1, 2)
    with ExitStack() as stack:

        def come(clients: int) -> tuple[int, int]:
            """How many of these come to the first, and to the second."""
            for _ in range(clients):
                sock = socket.create_connection(first.getsockname(), timeout=5)
                stack.enter_context(sock).send(b"x")  # TCP_DEFER_ACCEPT waits for it
            return waiting(stack, first), waiting(stack, second)

        assert come(30) == (30, 0)
        begin(second, 64)
        ours, theirs = come(60)
        assert ours + theirs == 60
        assert theirs > 5  # the kernel spreads by a hash of addresses


def waiting(stack: ExitStack, listener: socket.socket) -> int:
    """How many wait at `listener`, now accepted."""
    count = 0
    while True:
        try:
            stack.enter_context(listener.accept()[0])
        except OSError:  # nobody, or it does not listen
            return count
        count += 1


def test_more_workers_get_more_sockets_and_fewer_get_several_each(listeners: Listeners) -> None:
    more = listeners.changed([HERE], 3, 16)
    assert set(numbers(listeners)) < set(numbers(more))
    assert len(accepting(more)) == 1
    fewer = more.changed([HERE], 2, 16)
    assert numbers(fewer) == numbers(more)  # a closed one would reset who waits in its queue
    parts = [fewer.portion(number, 2) for number in range(2)]
    assert sorted(map(len, parts)) == [1, 2]
    assert {s.fileno() for part in parts for s in part} == set(numbers(fewer))
    more.close_except(listeners)


def test_what_is_no_longer_wanted_is_closed_and_its_path_removed(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    first = Listeners({}).changed([HERE, address], 2, 16)
    assert len(list(first)) == 3  # a path has one
    assert first.portion(0, 2)[1] is first.portion(1, 2)[1]
    second = first.changed([HERE], 2, 16)
    first.close_except(second)
    assert not (tmp_path / "s").exists()
    assert len(accepting(second)) == 1
    second.close(remove=True)


def test_an_address_that_cannot_be_had_leaves_nothing_behind(listeners: Listeners) -> None:
    before = os.listdir("/proc/self/fd")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wrong = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError):
            listeners.changed([HERE, "[::1]:0", wrong], 3, 16)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert len(accepting(listeners)) == 1


def test_sockets_that_were_given_stand_in_place_of_all_addresses() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        given = Listeners.adopt({"given 0": [os.dup(made.fileno())]}, given=True)
        assert given.changed(["127.0.0.1:1", HERE], 2, 16) is given
        (sock,) = given.portion(1, 2)
        assert not sock.getblocking()
        assert not sock.get_inheritable()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        given.close(remove=False)


def test_what_is_no_listening_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket() as plain, pytest.raises(ListenError, match="not a listening socket"):
        Listeners.adopt({"given 0": [os.dup(plain.fileno())]}, given=True)
    file = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ListenError, match=f"descriptor {file}"):
            Listeners.adopt({"given 0": [file]}, given=True)
    finally:
        os.close(file)


def test_a_path_that_goes_on_with_another_is_not_removed(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    first = Listeners({}).changed([address], 1, 16)
    numbers = {name: [os.dup(fd) for fd in group] for name, group in first.descriptors().items()}
    second = Listeners.adopt(numbers, given=False)
    first.close(remove=False)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{tmp_path}/s")
    second.close(remove=True)
    assert not (tmp_path / "s").exists()
