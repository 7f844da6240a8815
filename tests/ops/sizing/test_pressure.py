"""Promises of the look-out for memory pressure: the kernel's trigger where it can be had."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.ops.sizing import pressure
from edgebox.ops.sizing.pressure import Pressure, average

KERNEL = Path("/proc/pressure/memory")
GROUPS = Path("/sys/fs/cgroup/memory")
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("some avg10=12.34 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00 avg60=0 total=1\n",
         12.34),
        ("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", 0.0),
        ("", 0.0),
        ("nonsense", 0.0),
        ("some avg10=much", 0.0),
    ],
)  # fmt: skip
def test_the_average_is_that_of_some_process_over_ten_seconds(
    text: str, percent: float, tmp_path: Path
) -> None:
    (tmp_path / "memory.pressure").write_text(text)
    assert average(tmp_path / "memory.pressure") == percent


def test_without_such_a_file_there_is_no_pressure(tmp_path: Path) -> None:
    assert average(tmp_path / "none") == 0.0
    found = Pressure(selectors.DefaultSelector(), tmp_path / "none", pytest.fail)
    found.turn()
    found.close()


def test_where_no_trigger_can_be_had_the_average_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "memory.pressure"
    path.touch()  # a plain file cannot be waited for
    told: list[int] = []
    selector = selectors.DefaultSelector()
    found = Pressure(selector, path, lambda: told.append(1))
    assert found.statistics()["trigger"] == 0
    path.write_text("some avg10=3.00 avg60=0 avg300=0 total=1\n")
    found.turn()
    assert not told
    path.write_text("some avg10=30.00 avg60=0 avg300=0 total=1\n")
    found.turn()
    assert told == [1]
    assert not selector.get_map()
    found.close()


@pytest.fixture
def small_group(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A control group with less memory than a file has octets, and that file, not in memory."""
    if os.geteuid() or not (GROUPS / "memory.limit_in_bytes").exists() or not KERNEL.exists():
        pytest.skip("needs root, PSI and a memory controller of version 1 at " + str(GROUPS))
    group = GROUPS / f"edgebox-test-{os.getpid()}"
    group.mkdir()
    file = tmp_path / "large"
    with file.open("wb") as out:
        for _ in range(96):
            out.write(os.urandom(MIB))
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        (group / "memory.limit_in_bytes").write_text(str(24 * MIB))
        yield group, file
    finally:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


@pytest.mark.slow
def test_the_kernel_wakes_us_when_processes_wait_for_memory(
    small_group: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, file = small_group
    # On a fast disk they wait for milliseconds: a low threshold, but the kernel's own trigger.
    monkeypatch.setattr(pressure, "TRIGGER", b"some 500 2000000\0")
    told: list[float] = []
    selector = selectors.DefaultSelector()
    found = Pressure(selector, KERNEL, lambda: told.append(time.monotonic()))
    assert found.statistics()["trigger"] == 1
    thrash = subprocess.Popen(
        ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh",
         sys.executable, Path(__file__).parent / "thrash.py", file, "20"],
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while not told and time.monotonic() < deadline:
            for key, mask in selector.select(0.2):
                key.data(mask)
    finally:
        thrash.kill()
        thrash.wait()
        found.close()
    assert told
    assert not selector.get_map()
