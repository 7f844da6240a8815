"""Promises of the child that gathers: it tells what we would see, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgebox.plan import gathering
from edgebox.plan.facts import Facts, FactsError
from edgebox.plan.gather import Subject, gather
from edgebox.plan.gathering import Gathering, gather_in_child


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.slow
def test_a_child_sees_the_same_machine_and_takes_its_memory_with_it() -> None:
    found = gather_in_child(Subject(interface="lo"))
    assert found.network.interface == "lo"
    assert found.descriptors == gather(Subject(interface="lo")).descriptors
    assert "pyroute2" not in _loaded_after("gather_in_child(Subject())")
    assert "pyroute2" in _loaded_after("gather(Subject())")


def test_a_child_that_takes_too_long_is_given_up_and_gone() -> None:
    before = descriptors()
    with pytest.raises(subprocess.TimeoutExpired):
        gather_in_child(Subject(), seconds=0.001)
    assert descriptors() == before
    assert not children()


def test_a_child_that_is_not_wanted_any_more_is_gone() -> None:
    before = descriptors()
    Gathering(Subject()).abandon()
    assert descriptors() == before
    assert not children()


def test_what_goes_wrong_in_a_child_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Subject) -> Facts:
        raise RuntimeError("the machine cannot be looked at")

    monkeypatch.setattr(gathering, "gather", fail)
    with pytest.raises(subprocess.CalledProcessError):
        gather_in_child(Subject())
    monkeypatch.setattr(gathering, "gather", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(subprocess.CalledProcessError) as told:
        gather_in_child(Subject())
    assert told.value.returncode == -signal.SIGKILL
    monkeypatch.setattr(gathering, "gather", lambda _: os._exit(0))
    with pytest.raises(FactsError):
        gather_in_child(Subject())


def test_a_child_holds_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port of which we let go while it hangs is free."""
    monkeypatch.setattr(gathering, "gather", lambda _: time.sleep(60))
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    child = Gathering(Subject())
    try:
        (pid,) = children()
        deadline = time.monotonic() + 10
        while len(list(Path(f"/proc/{pid}/fd").iterdir())) != 4:
            assert time.monotonic() < deadline, "it holds more than its output"
            time.sleep(0.01)
        listener.close()
        socket.create_server(address).close()
    finally:
        child.abandon()


def _loaded_after(call: str) -> list[str]:
    code = (
        "import sys; from edgebox.plan.gather import *; from edgebox.plan.gathering import *;"
        f"{call}; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()
