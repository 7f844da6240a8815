"""The server's side: requests are cheap, and no trouble of a helper is the server's."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from edgebox.config.schema import Compression
from edgebox.files import seal
from edgebox.files.compression import client as module
from edgebox.files.compression.client import CompressionClient
from edgebox.files.compression.jobs import Job
from edgebox.files.compression.variants import variant_name

MakeJob = Callable[..., Job]
Find = Callable[[Path], list[Path]]
slow = pytest.mark.slow

PATIENCE = 60.0
NOISE = random.Random(5).randbytes(8_000_000)
CONFIG = Compression(br_level=11, zstd_level=3, gzip_level=6)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def client(cache: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> CompressionClient:
    monkeypatch.setattr(module, "FIRST_BACKOFF", 0.01)
    return CompressionClient(CONFIG, cache, warnings.append)


async def wait_until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.005)


def variant_of(job: Job, cache: Path) -> Path:
    return cache / os.fsdecode(variant_name(job.identity, job.coding))


def done(client: CompressionClient) -> int:
    return sum(client.statistics().outcomes.values())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@slow
async def test_a_variant_that_was_asked_for_appears(
    client: CompressionClient,
    nursery: trio.Nursery,
    make_job: MakeJob,
    cache: Path,
    decode: Callable[[bytes, bytes], bytes],
    text: bytes,
    warnings: list[str],
) -> None:
    await nursery.start(client.run)
    make_job("a.txt", text)
    jobs = [make_job("a.txt", None, coding) for coding in (b"gzip", b"br", b"zstd")]
    for job in jobs:
        client.request(job)
    await wait_until(lambda: done(client) == 3)
    for job in jobs:
        assert decode(job.coding, variant_of(job, cache).read_bytes()[: -seal.SIZE]) == text
    statistics = client.statistics()
    assert statistics.outcomes == {"kept": 3}
    assert statistics.octets_before == 3 * len(text) > statistics.octets_after > 0
    assert (statistics.queued, statistics.dropped, statistics.deaths) == (0, 0, 0)
    assert warnings == []


@slow
async def test_asking_often_makes_it_once(
    client: CompressionClient, nursery: trio.Nursery, make_job: MakeJob
) -> None:
    job = make_job()
    for _ in range(1000):
        client.request(job)
    assert client.statistics().queued == 1
    await nursery.start(client.run)
    await wait_until(lambda: done(client) == 1)
    for _ in range(1000):
        client.request(job)  # before the file store could notice
    assert client.statistics().queued == 0


async def test_the_queue_is_bounded_and_drops_are_counted(
    client: CompressionClient, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE", 5)
    for number in range(8):
        client.request(make_job(f"{number}.txt"))
    client.request(make_job("0.txt", None))  # is in the queue: no drop
    assert client.statistics().queued == 5
    assert client.statistics().dropped == 3


async def test_what_is_remembered_of_finished_jobs_is_bounded(
    client: CompressionClient, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    for number in range(8):
        job = make_job(f"{number}.txt")
        client.request(job)
        client._finish(job.key, 60.0)
    assert len(client._refused_until) == 3


async def test_a_finished_job_may_be_asked_for_again_later(
    client: CompressionClient, make_job: MakeJob, autojump_clock: trio.testing.MockClock
) -> None:
    """Its variant may have been swept."""
    job = make_job()
    client.request(job)
    client._finish(job.key, module.AGAIN)
    client.request(job)
    assert client.statistics().queued == 0
    await trio.sleep(module.AGAIN)
    client.request(job)
    assert client.statistics().queued == 1


@slow
async def test_a_helper_that_is_killed_is_replaced_and_its_job_done(
    client: CompressionClient,
    nursery: trio.Nursery,
    make_job: MakeJob,
    cache: Path,
    warnings: list[str],
) -> None:
    await nursery.start(client.run)
    await wait_until(lambda: client.statistics().helper)
    first = client.statistics().helper
    assert first is not None
    os.kill(first, signal.SIGKILL)
    job = make_job()
    client.request(job)
    await wait_until(lambda: done(client) == 1)
    assert variant_of(job, cache).exists()
    assert client.statistics().deaths == 1
    assert client.statistics().helper not in (None, first)
    assert len(warnings) == 1
    assert "signal 9" in warnings[0]


@slow
async def test_a_job_that_two_helpers_die_of_is_given_up_and_the_next_is_done(
    client: CompressionClient,
    nursery: trio.Nursery,
    make_job: MakeJob,
    cache: Path,
    warnings: list[str],
    files_below: Find,
) -> None:
    poison = make_job("poison.txt", NOISE, b"br")  # takes long enough to be killed in it
    good = make_job("good.txt")
    client.request(poison)
    client.request(good)
    await nursery.start(client.run)
    for death in (1, 2):
        await wait_until(lambda: client.statistics().helper)
        pid = client.statistics().helper
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: client.statistics().deaths == death)  # noqa: B023
    await wait_until(lambda: done(client) == 1)
    assert client.statistics().poisoned == 1
    assert files_below(cache) == [variant_of(good, cache)]
    assert any("poison.txt" in line for line in warnings)
    client.request(poison)
    assert client.statistics().queued == 0


@slow
async def test_an_idle_helper_ends_and_another_starts_with_the_next_job(
    client: CompressionClient,
    nursery: trio.Nursery,
    make_job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    warnings: list[str],
) -> None:
    monkeypatch.setattr(module, "IDLE", 0.01)
    await nursery.start(client.run)
    await wait_until(lambda: client.statistics().helper)
    await wait_until(lambda: not client.statistics().helper)
    client.request(make_job())
    await wait_until(lambda: done(client) == 1)
    assert client.statistics().deaths == 0
    assert warnings == []


@slow
async def test_a_directory_that_cannot_be_made_is_warned_of_once_and_tried_again(
    tmp_path: Path,
    nursery: trio.Nursery,
    make_job: MakeJob,
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN", 0.05)
    obstacle = tmp_path / "obstacle"
    obstacle.write_bytes(b"")
    client = CompressionClient(CONFIG, obstacle / "cache", warnings.append)
    await nursery.start(client.run)
    job = make_job()

    def ask() -> int:
        client.request(job)
        return client.statistics().dropped

    await wait_until(lambda: warnings)
    await wait_until(lambda: ask() > 20)  # several tries
    assert len(warnings) == 1
    assert "Not a directory" in warnings[0]
    obstacle.unlink()
    await wait_until(lambda: ask() and done(client))
    assert variant_of(job, obstacle / "cache").exists()


@slow
async def test_a_full_disk_pauses_writing_and_is_overcome_without_a_restart(
    nursery: trio.Nursery,
    make_job: MakeJob,
    mounted: Callable[[str], Path],
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN", 0.05)
    cache = mounted("size=256k")
    client = CompressionClient(CONFIG, cache, warnings.append)
    await nursery.start(client.run)
    await wait_until(lambda: client.statistics().helper)
    ballast = cache / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    job = make_job(octets=b"".join(b"%d " % n for n in range(40_000)))
    client.request(job)
    await wait_until(lambda: warnings)
    assert client.statistics().outcomes == {"disk full": 1}
    assert "disk full" in warnings[0]
    ballast.unlink()

    def ask() -> bool:
        client.request(job)
        return variant_of(job, cache).exists()

    await wait_until(ask)
    assert len(warnings) == 1


async def test_during_a_pause_nothing_is_taken(
    client: CompressionClient, make_job: MakeJob, warnings: list[str]
) -> None:
    client.request(make_job("a.txt"))
    client._pause(module.Report(outcome=module.Outcome.READ_ONLY, text="EROFS"))
    client.request(make_job("b.txt"))
    statistics = client.statistics()
    assert statistics.paused
    assert (statistics.queued, statistics.dropped) == (0, 2)
    assert len(warnings) == 1


@slow
async def test_cancelling_leaves_no_process(
    client: CompressionClient, make_job: MakeJob, cache: Path, files_below: Find
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        client.request(make_job(octets=NOISE, coding=b"br"))
        await wait_until(lambda: client.statistics().helper)
        pid = client.statistics().helper
        assert pid is not None
        await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert not is_alive(pid)
    assert client.statistics().helper is None
    assert files_below(cache) == []


async def test_switched_off_it_takes_nothing_and_starts_nothing(
    cache: Path, make_job: MakeJob, warnings: list[str]
) -> None:
    client = CompressionClient(Compression(enabled=False), cache, warnings.append)
    client.request(make_job())
    await client.run()
    assert client.statistics().queued == 0
    assert not cache.exists()
