"""systemd is told what sd_notify(3) says, and never holds us up."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from edgebox.ops.processes.notify import Notifier


def listening(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(address)
    sock.settimeout(5)
    return sock


def test_ready_names_the_process_that_speaks(tmp_path: Path) -> None:
    with listening(f"{tmp_path}/notify") as manager:
        Notifier({"NOTIFY_SOCKET": f"{tmp_path}/notify"}).ready("all well")
        lines = manager.recv(4096).decode().split("\n")
    assert lines == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=all well"]


def test_a_socket_in_the_abstract_namespace() -> None:
    name = f"edgebox-test-{os.getpid()}"
    with listening(f"\0{name}") as manager:
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).feed()
        assert manager.recv(4096) == b"WATCHDOG=1"


def test_a_reload_says_when_it_began(tmp_path: Path) -> None:
    with listening(f"{tmp_path}/notify") as manager:
        Notifier({"NOTIFY_SOCKET": f"{tmp_path}/notify"}).reloading()
        told = dict(line.split("=") for line in manager.recv(4096).decode().split("\n"))
    assert told["RELOADING"] == "1"
    assert int(told["MONOTONIC_USEC"]) > 0


def test_a_manager_that_does_not_read_or_is_gone_does_no_harm(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": f"{tmp_path}/notify"})
    notifier.stopping()  # nobody is there
    with listening(f"{tmp_path}/notify"):
        for _ in range(1000):  # more than its buffer takes
            notifier.feed()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 30.0),  # as after an upgrade
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_known_where_there_is_one(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/run/x", **environ}).watchdog == seconds
    assert Notifier(environ).watchdog is None  # to nobody we could speak
