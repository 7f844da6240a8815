"""The package on a bare Debian 12: what it brings, and that it takes all of it away again."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.box.conftest import wait_until
from tests.box.machine.debian import START, Debian, build_package

pytestmark = pytest.mark.slow

# What dpkg and systemd themselves write when anything is installed or started.
NOT_OURS = {"/var/log/dpkg.log", "/var/lib/systemd/deb-systemd-helper-enabled",
            "/var/lib/systemd/deb-systemd-helper-masked", "/var/lib/systemd/timers"}  # fmt: skip
ACCOUNTS = ("passwd", "shadow", "group", "gshadow")
UNITS = ("edgebox.service", "edgebox.socket", "edgebox-precompress.service",
         "edgebox-precompress.timer")  # fmt: skip


def accounts(system: Debian) -> dict[str, str]:
    return {name: (system.tree / "etc" / name).read_text() for name in ACCOUNTS}


def test_a_commit_gives_the_same_octets_each_time(package: Path, tmp_path: Path) -> None:
    again = build_package(tmp_path)
    first, second = (hashlib.sha256(p.read_bytes()).hexdigest() for p in (package, again))
    assert first == second


def test_it_names_no_path_of_where_it_was_built(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tmp_path)], check=True)
    here = os.fsencode(Path(__file__).parents[3])
    found = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and not path.is_symlink() and here in path.read_bytes()
    ]
    assert not found


def test_it_comes_up_by_itself_and_goes_without_a_trace(debian: Debian, package: Path) -> None:
    before, known = debian.files(), accounts(debian)
    debian.install(package)
    wait_until(lambda: debian.state() == "active", START)
    assert debian.fetch()[""] == "200"
    assert debian.run("edgebox", "--version").stdout.startswith("edgebox ")
    assert "edgebox:" in (debian.tree / "etc" / "passwd").read_text()
    # An administrator goes by the guide and has these, too.
    debian.systemctl("enable", "--now", "edgebox-precompress.timer")
    debian.systemctl("stop", "edgebox.service")
    debian.systemctl("enable", "--now", "edgebox.socket")
    debian.systemctl("start", "edgebox.service")
    pids = debian.pids()

    debian.run("dpkg", "--remove", "edgebox")
    assert debian.run("ss", "--tcp", "--listening", "--no-header").stdout == ""
    assert debian.run("ls", "-d", *(f"/proc/{pid}" for pid in pids), check=False).stdout == ""
    kept = {"/etc/edgebox", "/etc/edgebox/edgebox.toml", "/etc/logrotate.d/edgebox",
            "/var/log/edgebox"}  # fmt: skip
    assert debian.files() - before - NOT_OURS == kept

    debian.run("dpkg", "--purge", "edgebox")
    assert debian.files() - before - NOT_OURS == set()
    assert before - debian.files() == set()
    assert accounts(debian) == known
    assert {unit: debian.shown("LoadState", unit) for unit in UNITS} == dict.fromkeys(
        UNITS, "not-found"
    )
    assert debian.run("systemctl", "is-system-running", check=False).stdout != "degraded\n"
    assert not (debian.tree / "run" / "edgebox").exists()


def test_an_administrators_file_outlives_it(debian: Debian, package: Path) -> None:
    debian.install(package)
    own = debian.tree / "etc" / "edgebox" / "key.pem"
    own.write_text("secret")
    debian.run("dpkg", "--purge", "edgebox")
    assert own.read_text() == "secret"
    own.unlink()
    own.parent.rmdir()


def test_a_service_that_was_disabled_stays_so_at_an_upgrade(debian: Debian, package: Path) -> None:
    debian.install(package)
    debian.systemctl("disable", "--now", "edgebox.service")
    debian.install(package)
    enabled = debian.run("systemctl", "is-enabled", "edgebox.service", check=False)
    assert enabled.stdout.strip() == "disabled"
    debian.run("dpkg", "--purge", "edgebox")
