"""The units under a real systemd, as an administrator works with them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.box.conftest import need, wait_until
from tests.box.machine.debian import PROJECT, Debian

pytestmark = pytest.mark.slow

UNITS = PROJECT / "systemd"
MOST_EXPOSED = 2.0
START = 60  # seconds, on a machine that does other things, too
NET_BIND_SERVICE = 1 << 10  # capabilities(7)


@pytest.fixture(autouse=True)
def up(request: pytest.FixtureRequest) -> None:
    """Each test finds the service as it was installed, and running."""
    if "installed" not in request.fixturenames:
        return
    system: Debian = request.getfixturevalue("installed")
    system.run("systemctl", "reset-failed", check=False)
    system.systemctl("start", "edgebox.service")
    wait_until(lambda: system.state() == "active", START)


def wait_replaced(system: Debian, main: str) -> None:
    """Until another main process than `main` is up."""
    wait_until(
        lambda: system.state() == "active" and system.shown("MainPID") not in (main, "0"), START
    )


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
    file = installed.tree / "etc" / "edgebox" / "edgebox.toml"
    before = file.read_text()
    main = installed.shown("MainPID")
    load = installed.start(
        "edgebox", "bench", "--json", "-l", "-k", "-c", "20", "-t", "15", "http://127.0.0.1/"
    )
    try:
        time.sleep(1)
        file.write_text(before.replace('name = "edgebox"', 'name = "renamed"', 1))
        installed.systemctl("reload", "edgebox.service")
        assert installed.fetch()["server"] == "renamed"
    finally:
        file.write_text(before)
    installed.systemctl("reload", "edgebox.service")
    assert installed.fetch()["server"] == "edgebox"
    assert installed.shown("MainPID") == main
    figures = json.loads(load.communicate(timeout=60)[0])
    assert figures["failed"] == 0
    assert figures["complete"] > 100


def test_reload_of_a_bad_file_fails_and_the_old_one_goes_on(installed: Debian) -> None:
    file = installed.tree / "etc" / "edgebox" / "edgebox.toml"
    before = file.read_text()
    try:
        file.write_text(before.replace('name = "edgebox"', "name = 7", 1))
        refused = installed.run("systemctl", "reload", "edgebox.service", check=False)
        assert refused.returncode != 0
        assert "server.name" in installed.journal()
    finally:
        file.write_text(before)
    assert installed.state() == "active"
    assert installed.fetch()["server"] == "edgebox"


def test_a_package_that_is_installed_anew_takes_over_without_a_pause(installed: Debian) -> None:
    main = installed.shown("MainPID")
    load = installed.start(
        "edgebox", "bench", "--json", "-l", "-k", "-c", "20", "-t", "25", "http://127.0.0.1/"
    )
    time.sleep(1)
    installed.run("dpkg", "--install", "/root/edgebox.deb")
    assert installed.state() == "active"
    assert installed.shown("MainPID") not in (main, "0")
    figures = json.loads(load.communicate(timeout=90)[0])
    assert figures["failed"] == 0
    assert figures["complete"] > 100
    installed.systemctl("restart", "edgebox.service")  # systemd knows whom to stop
    assert installed.fetch()[""] == "200"


def test_the_journal_has_levels(installed: Debian) -> None:
    installed.systemctl("restart", "edgebox.service")
    lines = installed.run(
        "journalctl", "--unit=edgebox.service", "--output=json", "--no-pager", "--lines=200"
    ).stdout.splitlines()
    ours = [json.loads(line) for line in lines]
    ours = [line for line in ours if line.get("_COMM") != "systemd"]
    assert ours
    assert not [line for line in ours if re.match(r"<\d>", str(line["MESSAGE"]))]


def test_a_supervisor_that_dies_is_replaced(installed: Debian) -> None:
    main = installed.shown("MainPID")
    installed.systemctl("kill", "--kill-who=main", "--signal=KILL", "edgebox.service")
    wait_replaced(installed, main)
    assert installed.fetch()[""] == "200"


def test_a_supervisor_that_hangs_is_replaced(installed: Debian) -> None:
    override = "/run/systemd/system/edgebox.service.d"
    text = r"[Service]\nWatchdogSec=4\nTimeoutAbortSec=2\n"
    installed.run("mkdir", "-p", override)
    installed.run("sh", "-c", f"printf '{text}' > {override}/watchdog.conf")
    try:
        installed.systemctl("daemon-reload")
        installed.systemctl("restart", "edgebox.service")
        main = installed.shown("MainPID")
        time.sleep(6)
        assert installed.shown("MainPID") == main  # it was fed
        installed.systemctl("kill", "--kill-who=main", "--signal=STOP", "edgebox.service")
        wait_replaced(installed, main)
        assert "watchdog" in installed.journal().lower()
    finally:
        installed.run("rm", "-r", override)
        installed.systemctl("daemon-reload")
        installed.systemctl("restart", "edgebox.service")


def test_a_restart_behind_the_socket_refuses_and_loses_nobody(installed: Debian) -> None:
    installed.systemctl("stop", "edgebox.service")
    installed.systemctl("start", "edgebox.socket")
    try:
        assert installed.fetch()[""] == "200"  # the first connection starts the service
        load = installed.start(
            "edgebox", "bench", "--json", "-l", "-c", "20", "-t", "20", "-s", "60",
            "http://127.0.0.1/",
        )  # fmt: skip
        for _ in range(3):
            time.sleep(1)
            installed.systemctl("restart", "edgebox.service")
        figures = json.loads(load.communicate(timeout=90)[0])
        assert figures["failures"] == dict.fromkeys(figures["failures"], 0)
        assert figures["complete"] > 100
    finally:
        installed.systemctl("stop", "edgebox.socket", "edgebox.service")


def test_variants_are_made_ahead_of_time(installed: Debian) -> None:
    installed.systemctl("stop", "edgebox.service")
    installed.run("find", "/var/cache/edgebox/compressed", "-type", "f", "-delete")
    page = installed.tree / "srv" / "page.html"
    page.write_text("<p>hello " * 1000)
    file = installed.tree / "etc" / "edgebox" / "edgebox.toml"
    before = file.read_text()
    try:
        file.write_text(before.replace('\nroot = ""', '\nroot = "/srv"', 1))
        installed.systemctl("start", "edgebox-precompress.service")
    finally:
        file.write_text(before)
    assert installed.shown("Result", "edgebox-precompress.service") == "success"
    made = list((installed.tree / "var" / "cache" / "edgebox" / "compressed").rglob("*"))
    assert sum(path.is_file() for path in made) >= 3  # br, zstd, gzip


def test_the_kernels_settings_are_ones_it_knows() -> None:
    for line in (UNITS / "sysctl.conf").read_text().splitlines():
        name, equals, _ = line.partition(" = ")
        if equals:
            path = "/proc/sys/" + name.lstrip("-").replace(".", "/")
            assert os.path.exists(path) or line.startswith("-"), path


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
