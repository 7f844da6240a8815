"""The wire carries a gigabit between two namespaces, and nothing of it is ever left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perf.gigabit.network import (
    CLIENT_ADDRESS,
    DEVICE,
    SERVER_ADDRESS,
    TOOLS,
    NoNetwork,
    facts,
    inhabitants,
    inside,
    leftovers,
    mask,
    network,
    read_wire,
    remove,
    sockets,
    steer,
    wire,
)
from perf.processes import alive, family

ROOT = Path(__file__).parents[3]
NAME = "edgebox-gigabit-test"

pytestmark = pytest.mark.alone  # a gigabit takes what there is of the processors
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(tool) is None for tool in TOOLS),
    reason="network namespaces take root, ip and tc",
)


def test_a_mask_has_groups_of_32_bits() -> None:
    assert [mask(core) for core in (0, 1, 4, 31, 32, 65)] == [
        "1", "2", "10", "80000000", "00000001,00000000", "00000002,00000000,00000000",
    ]  # fmt: skip


def test_the_shaper_is_found_among_queues() -> None:
    text = '[{"kind": "noqueue"}, {"kind": "tbf", "bytes": 5, "drops": 2}]'
    assert (read_wire(text).octets, read_wire(text).drops) == (5, 2)
    with pytest.raises(ValueError, match="no shaper"):
        read_wire('[{"kind": "noqueue"}]')


@needs_root
@pytest.mark.slow
def test_what_is_sent_passes_the_shaper_and_stays_inside() -> None:
    with network(NAME) as made:
        with inside(made.server):
            listener = socket.create_server((SERVER_ADDRESS, 0))
            listener.settimeout(5)
        port = listener.getsockname()[1]
        with inside(made.client):
            near = socket.create_connection((SERVER_ADDRESS, port), timeout=5)
        far, address = listener.accept()
        with listener, near, far:
            assert address[0] == CLIENT_ADDRESS
            before = wire(made)
            far.settimeout(5)
            far.sendall(bytes(100_000))
            received = 0
            while received < 100_000:
                received += len(near.recv(65536))
            # Ethernet, IP and TCP headers of 70 packets, at least.
            assert wire(made).octets - before.octets > 100_000 + 69 * 54
            assert sockets(made, port).count("skmem:") == 1
        names = {name for _, name in socket.if_nameindex()}
        assert DEVICE not in names
        with inside(made.client):
            assert {name for _, name in socket.if_nameindex()} == {"lo", DEVICE}
    assert leftovers(NAME) == []


@needs_root
@pytest.mark.slow
def test_the_namespaces_have_no_way_out() -> None:
    with network(NAME) as made, inside(made.server):
        with pytest.raises(OSError, match="unreachable"):
            socket.create_connection(("198.51.100.1", 80), timeout=1)


@needs_root
@pytest.mark.slow
def test_each_end_receives_on_its_own_core_and_tells_how_tcp_is_set() -> None:
    with network(NAME) as made:
        steer(made, 0, min(1, (os.cpu_count() or 1) - 1))
        found = facts(made)
    assert found["congestion control"]
    assert "tbf rate 1gbit" in found["wire"]


@needs_root
@pytest.mark.slow
def test_what_runs_inside_is_killed_with_it() -> None:
    with network(NAME) as made, inside(made.client):
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert process.wait(5) == -signal.SIGKILL


@needs_root
@pytest.mark.slow
def test_an_exception_leaves_nothing_behind_and_this_thread_at_home() -> None:
    home = os.readlink("/proc/thread-self/ns/net")
    with pytest.raises(KeyboardInterrupt), network(NAME) as made, inside(made.server):
        assert os.readlink("/proc/thread-self/ns/net") != home
        raise KeyboardInterrupt
    assert leftovers(NAME) == []
    assert os.readlink("/proc/thread-self/ns/net") == home


@needs_root
@pytest.mark.slow
def test_a_second_run_is_refused_and_disturbs_nothing() -> None:
    with network(NAME) as made:
        with pytest.raises(NoNetwork, match="under way"), network(NAME):
            pass
        assert sorted(leftovers(NAME)) == sorted((made.server, made.client))


def wait_for(happened: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start_a_run(temporary: Path) -> subprocess.Popen[bytes]:
    """A whole run, once its crowd downloads from a server."""
    words = ["--phase", "30", "--clients", "10", "--servers", "edgebox", "--parts", "downloads"]
    process = subprocess.Popen(
        [sys.executable, "-m", "perf.gigabit", *words, "--name", NAME],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
    )

    def downloads() -> bool:
        assert process.poll() is None
        both = leftovers(NAME)
        return len(both) == 2 and all(inhabitants(namespace) for namespace in both)

    wait_for(downloads)
    return process


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_is_told_to_end_clears_everything_away(
    number: signal.Signals, tmp_path: Path
) -> None:
    process = start_a_run(tmp_path)
    members = family(process.pid)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert leftovers(NAME) == []
    assert not [member for member in members if alive(member)]
    assert list(tmp_path.iterdir()) == []


@needs_root
@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    process = start_a_run(tmp_path)
    members = family(process.pid)
    process.kill()
    process.wait()
    try:
        assert len(leftovers(NAME)) == 2
        with network(NAME):
            wait_for(lambda: not any(alive(member) for member in members), 5)
    finally:
        remove(NAME)
    assert leftovers(NAME) == []
