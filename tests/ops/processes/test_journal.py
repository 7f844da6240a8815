"""The supervisor's lines: in the workers' form, never waited for."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from pathlib import Path

import pytest

from edgebox.config.schema import Log
from edgebox.ops.processes.journal import Journal


def test_lines_have_the_form_of_the_error_log(tmp_path: Path) -> None:
    journal = Journal()
    journal.use(Log(error=f"{tmp_path}/log"))
    journal("error", "two\nlines")
    journal("debug", "not told at this level")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} error: two \| lines\n",
        (tmp_path / "log").read_text(),
    )


def test_a_log_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    journal = Journal()
    journal.use(Log(error=f"{tmp_path}/log"))
    journal("info", "before")
    (tmp_path / "log").rename(tmp_path / "old")
    journal("info", "between")
    journal.reopen()
    journal("info", "after")
    assert (tmp_path / "old").read_text().count("\n") == 2
    assert (tmp_path / "log").read_text().endswith("after\n")


def test_a_stuck_pipe_loses_lines_and_no_time() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    saved = os.dup(2)
    os.dup2(writing, 2)
    try:
        journal = Journal()
        for _ in range(1000):
            journal("error", "x" * 100)
    finally:
        os.dup2(saved, 2)
        for fd in (saved, reading, writing):
            os.close(fd)
    assert journal.lost > 900


def test_root_does_not_follow_a_link_that_workers_could_have_put_there(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    journal = Journal()
    journal.use(Log(error=f"{tmp_path}/log"), follow=False)
    journal("error", "x")
    assert not (tmp_path / "elsewhere").exists()
    journal.use(Log(error=f"{tmp_path}/log"))
    journal("error", "x")
    assert (tmp_path / "elsewhere").exists()


def test_systemd_gets_a_priority_instead_of_a_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    Journal()("warning", "x")
    assert capfd.readouterr().err == "<4>x\n"


def test_syslog_gets_a_message_a_line_and_is_never_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "log"))
        receiver.settimeout(5)
        journal = Journal()
        journal.use(Log(error=f"syslog:{tmp_path}/log"))
        journal("error", "a worker died")
        message = receiver.recv(1000)
        assert message.startswith(b"<27>1 ")
        assert message.endswith(b" error: a worker died")
        for _ in range(5000):  # more than the receiver's queue takes
            journal("error", "a worker died")
        assert journal.lost > 0
        journal.use(Log(error="off"))
        journal("error", "unheard")


def test_warnings_and_errors_are_kept_and_counted_wherever_they_go() -> None:
    journal = Journal()
    journal.use(Log(error="off"))
    journal("info", "no news")
    for number in range(30):
        journal("warning", f"{number}\n" + "x" * 9999)
    journal("error", "the last")
    assert journal.counts == {"warning": 30, "error": 1}
    assert len(journal.recent) == 20
    assert [(level, text) for _, level, text in journal.recent][-1] == ("error", "the last")
    assert journal.recent[0][2].startswith("11 | xxx")
    assert len(journal.recent[0][2]) == 500
