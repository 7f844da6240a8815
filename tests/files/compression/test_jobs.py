"""What goes over the pipes arrives as it was."""

from __future__ import annotations

import errno

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Compression
from edgebox.files.compression.jobs import (
    Job,
    Outcome,
    Report,
    Settings,
    outcome_of,
    read_job,
    read_report,
    read_settings,
    settings_for,
    write_line,
)
from edgebox.files.entry import Docroot, Identity

numbers = st.integers(min_value=0, max_value=2**64 - 1)
names = st.binary(max_size=40)


@given(names, names, st.builds(Identity, numbers, numbers, numbers, numbers, numbers))
def test_a_job_is_one_line_whatever_its_names(root: bytes, path: bytes, identity: Identity) -> None:
    job = Job(root=root, path=path, symlinks="never", identity=identity, coding=b"br")
    line = write_line(job)
    assert line.index(b"\n") == len(line) - 1
    assert read_job(line) == job
    assert isinstance(read_job(line).identity, Identity)


@given(st.sampled_from(Outcome), numbers, st.text())
def test_a_report_is_one_line_whatever_its_text(outcome: Outcome, after: int, text: str) -> None:
    report = Report(outcome=outcome, after=after, text=text)
    line = write_line(report)
    assert line.index(b"\n") == len(line) - 1
    assert read_report(line) == report


@pytest.mark.parametrize("line", [b"", b"{}", b'{"outcome":"splendid"}', b"\xff\n", b"[]"])
def test_what_is_no_report_is_not_taken_for_one(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_report(line)


def test_settings_survive_the_command_line() -> None:
    settings = settings_for(Compression(br_level=3, dir_size=77), "/var/cache/x y")
    assert read_settings(settings.arguments()) == settings
    assert settings == Settings(b"/var/cache/x y", 77, {b"br": 3, b"zstd": 15, b"gzip": 9})


def test_jobs_for_the_same_variant_have_the_same_key() -> None:
    identity = Identity(1, 2, 3, 4, 5)
    first = Job(root=b"/a", path=b"/x", symlinks="never", identity=identity, coding=b"br")
    link = Job(root=b"/b", path=b"/y", symlinks="follow", identity=identity, coding=b"br")
    other = Job(root=b"/a", path=b"/x", symlinks="never", identity=identity, coding=b"gzip")
    assert first.key == link.key != other.key
    assert link.docroot == Docroot(b"/b", "follow")


@pytest.mark.parametrize(
    ("number", "outcome", "stops"),
    [
        (errno.ENOSPC, Outcome.DISK_FULL, True),
        (errno.EDQUOT, Outcome.DISK_FULL, True),
        (errno.EROFS, Outcome.READ_ONLY, True),
        (errno.EACCES, Outcome.DENIED, True),
        (errno.EPERM, Outcome.DENIED, True),
        (errno.EIO, Outcome.FAILED, False),
    ],
)
def test_an_error_says_whether_the_next_job_would_meet_it(
    number: int, outcome: Outcome, stops: bool
) -> None:
    assert outcome_of(OSError(number, "")) is outcome
    assert outcome.stops_writing is stops
    assert outcome.is_error


def test_a_file_that_changes_is_no_error() -> None:
    assert not Outcome.CHANGED.is_error
    assert Outcome.SOURCE.is_error
