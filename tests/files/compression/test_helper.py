"""The helper as a process: polite, alone, and gone when nobody needs it."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebox.files.compression.helper import IOPRIO_IDLE, IOPRIO_SET, Abandoned, watch_hangup
from edgebox.files.compression.jobs import Job, Outcome, Report, Settings, read_report, write_line
from edgebox.files.compression.variants import variant_name

pytestmark = pytest.mark.slow

MakeJob = Callable[..., Job]
Start = Callable[[Settings], subprocess.Popen[bytes]]

PATIENCE = 20.0  # seconds; a busy machine must not fail a test
# Brotli at its slowest takes a minute for it.
HUGE = random.Random(5).randbytes(30_000_000)


def command(settings: Settings) -> list[str | bytes]:
    module = "edgebox.files.compression.helper"
    return [sys.executable, "-P", "-m", module, *settings.arguments()]


@pytest.fixture
def start() -> Iterator[Start]:
    """A helper with pipes at both ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start(settings: Settings) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command(settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def hear(process: subprocess.Popen[bytes]) -> Report:
    assert process.stdout is not None
    return read_report(process.stdout.readline())


def tell(process: subprocess.Popen[bytes], job: Job) -> None:
    assert process.stdin is not None
    process.stdin.write(write_line(job))


def test_it_answers_each_job_with_a_report(
    start: Start, settings: Settings, make_job: MakeJob, cache: Path
) -> None:
    helper = start(settings)
    assert hear(helper).outcome is Outcome.READY
    for coding in [b"br", b"zstd", b"gzip"]:
        job = make_job(coding=coding)
        tell(helper, job)
        assert hear(helper).outcome is Outcome.KEPT
        assert (cache / os.fsdecode(variant_name(job.identity, coding))).stat().st_size > 0
    missing = make_job("b.txt")
    os.unlink(missing.root + missing.path)
    tell(helper, missing)
    assert hear(helper).outcome is Outcome.SOURCE


def test_it_gives_way_in_processor_and_disk_time(start: Start, settings: Settings) -> None:
    helper = start(settings)
    hear(helper)
    fields = Path(f"/proc/{helper.pid}/stat").read_text().rpartition(")")[2].split()
    assert int(fields[16]) == 19  # nice, the 19th field of proc_pid_stat(5)
    number = IOPRIO_SET.get(platform.machine())
    if number is not None:
        get = number + 1 if platform.machine() != "s390x" else 283  # ioprio_get follows it
        assert ctypes.CDLL(None).syscall(get, 1, helper.pid) == IOPRIO_IDLE


def test_it_imports_neither_trio_nor_click_nor_rich() -> None:
    program = (
        "import sys, edgebox.files.compression.helper\n"
        "print(*{'trio', 'click', 'rich', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == []


def test_it_ends_when_its_input_ends(start: Start, settings: Settings) -> None:
    helper = start(settings)
    hear(helper)
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(PATIENCE) == 0


def test_it_ends_in_the_middle_of_a_file_when_its_input_ends(
    start: Start, settings: Settings, make_job: MakeJob, files_below: Callable[[Path], list[Path]]
) -> None:
    helper = start(Settings(settings.directory, 1 << 30, {b"br": 11}))
    hear(helper)
    tell(helper, make_job(octets=HUGE, coding=b"br"))
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(PATIENCE) == 0
    assert files_below(Path(os.fsdecode(settings.directory))) == []


def test_it_dies_with_a_parent_that_is_killed(
    settings: Settings, make_job: MakeJob, tmp_path: Path
) -> None:
    settings = Settings(settings.directory, 1 << 30, {b"br": 11})
    job_file = tmp_path / "job"
    job_file.write_bytes(write_line(make_job(octets=HUGE, coding=b"br")))
    program = (
        "import subprocess, sys, signal\n"
        "p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "p.stdout.readline(); p.stdin.write(open(sys.argv[1], 'rb').read()); p.stdin.flush()\n"
        "print(p.pid, flush=True)\n"
        "signal.pause()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(job_file), *command(settings)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    helper = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.kill()
        parent.communicate(timeout=PATIENCE)
        ended, _, _ = select.select([helper], [], [], PATIENCE)
        assert ended
    finally:
        os.close(helper)


@pytest.mark.parametrize("place", ["file", "read-only"])
def test_it_says_so_and_ends_where_it_cannot_work(
    place: str, start: Start, tmp_path: Path, mounted: Callable[[str], Path]
) -> None:
    if place == "file":
        directory = tmp_path / "file" / "cache"
        directory.parent.write_bytes(b"in the way")
    else:
        directory = mounted("ro")
    helper = start(Settings(os.fsencode(directory), 1 << 20, {}))
    report = hear(helper)
    assert report.outcome is (Outcome.FAILED if place == "file" else Outcome.READ_ONLY)
    assert str(directory) in report.text
    assert helper.wait(PATIENCE) == 1


def test_root_becomes_the_owner_of_the_directory(start: Start, make_job: MakeJob) -> None:
    """What root made, the server could not renew; and root could be led anywhere."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    nobody = 65534
    # Not tmp_path, whose parents are closed to everyone else.
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        source = Path(place, "a.txt")
        source.write_bytes(b"some text\n" * 1000)
        cache = Path(place, "cache")
        cache.mkdir()
        os.chown(cache, nobody, nobody)
        helper = start(Settings(os.fsencode(cache), 1 << 20, {b"gzip": 6}))
        assert hear(helper).outcome is Outcome.READY
        status = Path(f"/proc/{helper.pid}/status").read_text()
        assert f"Uid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}" in status
        assert f"Gid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}" in status
        job = make_job()
        tell(helper, job)
        assert hear(helper).outcome is Outcome.SOURCE  # in a directory closed to nobody
        assert {path.stat().st_uid for path in cache.rglob("*")} == {nobody}


def test_a_hangup_is_seen_at_once_and_unread_jobs_are_no_hangup() -> None:
    reading, writing = os.pipe()
    try:
        breathe = watch_hangup(reading)
        breathe(0)
        os.write(writing, b"a job")
        breathe(0.001)
    finally:
        os.close(writing)
    with pytest.raises(Abandoned):
        breathe(PATIENCE)
    os.close(reading)
