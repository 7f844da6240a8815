"""A helper process from its parent's side: asked, killed, stopped, ended."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from edgebox.files.compression.jobs import Job, Outcome, Settings
from edgebox.files.compression.process import HelperDied, HelperRefused, open_helper

pytestmark = pytest.mark.slow

MakeJob = Callable[..., Job]
PATIENCE = 30.0
NOISE = random.Random(5).randbytes(8_000_000)


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_one_job_after_the_other(settings: Settings, make_job: MakeJob) -> None:
    with trio.fail_after(PATIENCE):
        async with open_helper(settings) as helper:
            for coding in [b"gzip", b"br"]:
                assert (await helper.perform(make_job(coding=coding))).outcome is Outcome.KEPT
        assert not is_alive(helper.pid)


async def test_it_leaves_no_descriptor_behind(settings: Settings, make_job: MakeJob) -> None:
    async with open_helper(settings) as helper:
        assert is_alive(helper.pid)
    before = descriptors()
    async with open_helper(settings) as helper:
        await helper.perform(make_job())
    assert descriptors() == before


async def test_a_killed_helper_is_noticed_and_says_of_what_it_died(
    settings: Settings, make_job: MakeJob
) -> None:
    slow = Settings(settings.directory, 1 << 30, {b"br": 11})
    with trio.fail_after(PATIENCE):
        async with open_helper(slow) as helper, trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(HelperDied, match="signal 9"):
                    await helper.perform(make_job(octets=NOISE, coding=b"br"))

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(helper.pid, signal.SIGKILL)
        with pytest.raises(HelperDied):
            async with open_helper(slow) as helper:
                os.kill(helper.pid, signal.SIGKILL)
                await helper.perform(make_job())


async def test_a_directory_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    bad = Settings(os.fsencode(tmp_path / "file" / "cache"), 1 << 20, {})
    with pytest.raises(HelperRefused, match="Not a directory") as refusal:
        async with open_helper(bad):
            pytest.fail("opened")
    assert refusal.value.report.outcome is Outcome.FAILED


async def test_a_program_that_is_no_helper_is_not_taken_for_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgebox.files.compression.process.MODULE", "this")
    with trio.fail_after(PATIENCE), pytest.raises(HelperDied, match="no report"):
        async with open_helper(settings):
            pytest.fail("opened")


@pytest.mark.parametrize("state", ["idle", "busy", "stopped"])
async def test_cancelling_ends_the_helper_whatever_it_does(
    state: str, settings: Settings, make_job: MakeJob
) -> None:
    slow = Settings(settings.directory, 1 << 30, {b"br": 11})
    pid = 0
    with trio.fail_after(PATIENCE), trio.CancelScope() as scope:
        async with open_helper(slow) as helper, trio.open_nursery() as nursery:
            pid = helper.pid
            if state == "stopped":
                os.kill(pid, signal.SIGSTOP)
            elif state == "busy":
                nursery.start_soon(helper.perform, make_job(octets=NOISE, coding=b"br"))
            await trio.testing.wait_all_tasks_blocked(0.05)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert pid
    assert not is_alive(pid)


async def test_nothing_of_the_current_directory_is_imported(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    async with open_helper(settings):
        pass
