"""The units under a real systemd, as an administrator works with them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.box.conftest import need
from tests.box.machine.debian import PROJECT, Debian

pytestmark = pytest.mark.slow

UNITS = PROJECT / "systemd"
MOST_EXPOSED = 2.0
START = 60  # seconds, on a machine that does other things, too
NET_BIND_SERVICE = 1 << 10  # capabilities(7)


@pytest.mark.parametrize("name", ["edgebox.service", "edgebox-precompress.service"])
def test_exposure_is_low(name: str) -> None:
    analyze = need("systemd-analyze", "systemd")
    command = [analyze, "security", "--offline=true", "--no-pager", str(UNITS / name)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    overall = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told)
    assert overall is not None
    assert float(overall[1]) <= MOST_EXPOSED


def test_units_hold_nothing_that_systemd_does_not_know(installed: Debian) -> None:
    names = [f"/usr/lib/systemd/system/{unit.name}" for unit in UNITS.glob("edgebox*")]
    told = installed.run("systemd-analyze", "verify", "--man=no", *names)
    assert "edgebox" not in told.stderr


def test_it_is_up_when_it_says_so(installed: Debian) -> None:
    installed.systemctl("restart", "edgebox.service")
    assert installed.fetch()[""] == "200"  # without waiting: restart came back when it was ready
    assert installed.shown("StatusText")


def test_every_process_is_confined(installed: Debian) -> None:
    pids = installed.pids()
    assert len(pids) > 1
    for pid in pids:
        status = installed.run("cat", f"/proc/{pid}/status", check=False).stdout
        if not status:  # a helper that has just ended
            continue
        fields = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
        assert fields["NoNewPrivs"] == "1"
        assert fields["Seccomp"] == "2"
        assert int(fields["CapBnd"], 16) | NET_BIND_SERVICE == NET_BIND_SERVICE
        assert int(fields["CapEff"], 16) | NET_BIND_SERVICE == NET_BIND_SERVICE
        assert fields["Uid"].split()[0] != "0"


def test_reload_takes_up_the_new_file_and_loses_nothing(installed: Debian) -> None:
    main = installed.shown("MainPID")
    with installed.load("-k") as figures:
        with installed.configured('name = "edgebox"', 'name = "renamed"'):
            installed.systemctl("reload", "edgebox.service")
            assert installed.fetch()["server"] == "renamed"
        installed.systemctl("reload", "edgebox.service")
        assert installed.fetch()["server"] == "edgebox"
    assert installed.shown("MainPID") == main
    assert figures["failed"] == 0, figures
    assert figures["complete"] > 100


def test_reload_of_a_bad_file_fails_and_the_old_one_goes_on(installed: Debian) -> None:
    with installed.configured('name = "edgebox"', "name = 7"):
        refused = installed.run("systemctl", "reload", "edgebox.service", check=False)
    assert refused.returncode != 0
    assert "server.name" in installed.journal()
    assert installed.state() == "active"
    assert installed.fetch()["server"] == "edgebox"


def test_systemd_is_told_of_a_reload_that_it_did_not_ask_for(installed: Debian) -> None:
    installed.systemctl("log-level", "debug")
    try:
        installed.run("edgebox", "reload")
    finally:
        installed.systemctl("log-level", "info")
    told = installed.journal()
    assert "RELOADING=1" in told
    assert "Changed running -> reload" in told
    assert "Changed reload -> running" in told


def test_the_journal_has_levels(installed: Debian) -> None:
    installed.systemctl("restart", "edgebox.service")
    with installed.configured('name = "edgebox"', "name = 7"):
        installed.run("edgebox", "reload", check=False)
    lines = installed.run(
        "journalctl", "--unit=edgebox.service", "--output=json", "--no-pager", "--lines=200"
    ).stdout.splitlines()
    told = {
        str(line["MESSAGE"]): line["PRIORITY"]
        for line in map(json.loads, lines)
        if line.get("_COMM") != "systemd"
    }
    assert not [text for text in told if re.match(r"<\d>", text)]
    assert {level for text, level in told.items() if "ready on" in text} == {"6"}
    assert {level for text, level in told.items() if "reload failed" in text} == {"3"}


def test_a_restart_behind_the_socket_refuses_and_loses_nobody(installed: Debian) -> None:
    installed.systemctl("stop", "edgebox.service")
    installed.systemctl("start", "edgebox.socket")
    try:
        assert installed.fetch()[""] == "200"  # the first connection starts the service
        with installed.load("-s", "60") as figures:
            for _ in range(3):
                installed.systemctl("restart", "edgebox.service")
                time.sleep(1)
        assert figures["failed"] == 0, figures
        assert figures["complete"] > 100
    finally:
        installed.systemctl("stop", "edgebox.socket", "edgebox.service")


def test_what_listens_is_told(installed: Debian) -> None:
    assert "ready on http://[::]:80/" in installed.journal()
    assert Path(installed.tree / "usr/share/doc/edgebox/install.md").exists()


def test_stopping_ends_every_process(installed: Debian) -> None:
    pids = installed.pids()
    began = time.monotonic()
    installed.systemctl("stop", "edgebox.service")
    assert time.monotonic() - began < 30  # nobody is connected: there is nothing to wait for
    assert installed.shown("Result") == "success"
    alive = installed.run("sh", "-c", f"kill -0 {' '.join(map(str, pids))}", check=False)
    assert alive.returncode != 0
