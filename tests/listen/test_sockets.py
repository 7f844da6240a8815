"""Addresses as the configuration writes them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edgebox.listen.sockets import (
    ListenError,
    address_of,
    bind,
    close_listener,
    split_address,
)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_the_address_that_is_told_is_the_one_that_answers(address: str) -> None:
    with bind(address, 5) as listener:
        assert address_of(listener).startswith("http://")
        with socket.create_connection(listener.getsockname()[:2], timeout=5):
            pass
        assert not listener.getblocking()


def test_every_address_is_both_families() -> None:
    with bind("*:0", 5) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, port), timeout=5):
                pass


def test_a_taken_port_says_so() -> None:
    with bind("127.0.0.1:0", 5) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}.*in use"):
            bind(f"127.0.0.1:{port}", 5)


@pytest.mark.parametrize("address", ["8080", "host:1", "1.2.3:80", "[::1:80", "127.0.0.1:65536"])
def test_what_is_no_address_says_so(address: str) -> None:
    with pytest.raises(ListenError):
        bind(address, 5)


def test_a_unix_socket_left_by_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    bind(address, 5).close()  # closed but not unlinked: as after kill -9
    listener = bind(address, 5)
    with pytest.raises(ListenError):
        bind(address, 5)  # this one lives
    close_listener(listener)
    assert not (tmp_path / "s").exists()


def test_brackets_and_empty_hosts() -> None:
    assert split_address("[::1]:80") == ("::1", 80)
    assert split_address(":80") == ("", 80)


@pytest.mark.parametrize("address", ["unix:", "unix:relative", "unix:@abstract"])
def test_a_unix_socket_without_an_absolute_path_is_refused(address: str) -> None:
    with pytest.raises(ListenError, match="want an absolute path"):
        bind(address, 16)
