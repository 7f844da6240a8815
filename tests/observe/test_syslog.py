"""Syslog messages as RFC 5424 has them, and receivers that are slow, gone, or back again."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgebox.observe.syslog
from edgebox.observe.syslog import (
    DEBUG,
    ERROR,
    INFO,
    MOST,
    WARNING,
    Receiver,
    Sender,
    SyslogTarget,
    is_path,
    is_syslog,
    local_sender,
    parse_receiver,
    render,
    severity_of,
)

SENDER = Sender("box", 42, "access")
# RFC 5424 §6, as far as we use it.
MESSAGE = re.compile(
    rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ([!-~]{1,255}) edgebox (\d+) ([!-~]+) - (.*)",
    re.DOTALL,
)


def test_a_message_as_the_rfc_has_it() -> None:
    assert render(b"a line", INFO, SENDER, 1_796_000_000) == (
        b"<30>1 2026-11-30T00:53:20Z box edgebox 42 access - a line"
    )


@given(st.binary(max_size=10_000), st.sampled_from([ERROR, WARNING, INFO, DEBUG]))
def test_every_line_makes_a_message(line: bytes, severity: int) -> None:
    message = render(line, severity, local_sender("error"), 0)
    parts = MESSAGE.fullmatch(message)
    assert parts is not None
    assert int(parts[1]) & 7 == severity
    assert int(parts[4]) == os.getpid()
    assert len(message) <= MOST
    assert line.startswith(parts[6])


@pytest.mark.parametrize(
    ("target", "receiver"),
    [
        ("syslog", Receiver(path="/dev/log")),
        ("syslog:/run/log", Receiver(path="/run/log")),
        ("syslog:192.0.2.1", Receiver(host="192.0.2.1", port=514)),
        ("syslog:192.0.2.1:1514", Receiver(host="192.0.2.1", port=1514)),
        ("syslog:[::1]", Receiver(host="::1", port=514)),
        ("syslog:[::1]:1514", Receiver(host="::1", port=1514)),
    ],
)
def test_receivers(target: str, receiver: Receiver) -> None:
    assert is_syslog(target)
    assert parse_receiver(target) == receiver


@pytest.mark.parametrize(
    "target",
    ["syslog:", "syslog:loghost", "syslog:192.0.2.1:0", "syslog:192.0.2.1:x", "syslog:[::1]:"],
)
def test_what_is_no_receiver(target: str) -> None:
    with pytest.raises(ValueError, match=r"write|port"):
        parse_receiver(target)


@pytest.mark.parametrize("target", ["-", "off", "/var/log/syslog", "syslog.log", "./syslog:x"])
def test_files_are_files(target: str) -> None:
    assert not is_syslog(target)
    assert is_path(target) is (target not in ("-", "off"))


def bound(path: Path) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(path))
    receiver.settimeout(5)
    return receiver


def test_the_error_log_tells_its_severity(tmp_path: Path) -> None:
    with bound(tmp_path / "log") as receiver:
        target = SyslogTarget(Receiver(path=str(tmp_path / "log")), SENDER, severity_of)
        assert target.write(b"2026-11-30T00:00:00+0000 warning: careful\nodd\n") == 0
        assert receiver.recv(1000).startswith(b"<28>1 ")
        assert receiver.recv(1000).startswith(b"<30>1 ")
        target.close()


def test_over_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        port = receiver.getsockname()[1]
        target = SyslogTarget(Receiver(host="127.0.0.1", port=port), SENDER, lambda line: INFO)
        assert target.write(b"hello\n") == 0
        assert receiver.recv(1000).endswith(b" access - hello")
        target.close()


def test_a_receiver_that_comes_late_or_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    target = SyslogTarget(Receiver(path=str(path)), SENDER, lambda line: INFO)
    assert target.write(b"one\ntwo\n") == 2
    assert target.problem == os.strerror(errno.ENOENT)
    for _ in range(2):
        with bound(path) as receiver:
            assert target.write(b"three\n") == 0
            assert target.problem == ""
            assert receiver.recv(1000).endswith(b"three")
        path.unlink()
    target.close()


def test_a_receiver_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edgebox.observe.syslog, "PATIENCE", 0.02)
    with bound(tmp_path / "log"):
        target = SyslogTarget(Receiver(path=str(tmp_path / "log")), SENDER, lambda line: INFO)
        lines = 10_000
        lost = target.write(b"x\n" * lines)
        assert 0 < lost < lines
        assert target.problem == "timed out"
        assert target.write_nowait(b"x\n") == 1
        target.close()
