"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from edgebox.files.statcache import TICK

# Where this is set (it is in many containers), each of the hundreds of servers that tests start
# would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs us in the background has us ignore it, and whoever we start: some of them are
# to be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "fast",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("fast"), max_examples=2000)
settings.load_profile("fast")


def pytest_collection_finish() -> None:
    """What pytest and the tests consist of stays: no collection need go through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where EDGEBOX_NO_SKIP is set, a test that skips itself has failed."""
    report = yield
    if report.skipped and os.environ.get("EDGEBOX_NO_SKIP") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report


HELLO = b"<!doctype html><title>hello</title><p>hello\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A docroot with an index, a text, a directory and a file of a megabyte and a half."""
    docroot = tmp_path / "www"
    (docroot / "sub").mkdir(parents=True)
    (docroot / "index.html").write_bytes(HELLO)
    (docroot / "a.txt").write_bytes(b"0123456789" * 10)
    (docroot / "empty.txt").write_bytes(b"")
    (docroot / "sub" / "index.html").write_bytes(b"sub")
    (docroot / "big.bin").write_bytes(bytes(range(256)) * 6144)
    (docroot / ".secret").write_bytes(b"secret")
    return docroot


@pytest.fixture
def settled_root(root: Path) -> Path:
    """`root`, its files so old that their times cannot hide a change: until then their tags vary.

    For whoever compares the tags of two looks, or sends one back.
    """
    time.sleep(2 * TICK)
    return root
