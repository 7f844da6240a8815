"""The package's fragments: for the kernel's settings, directories, the night's work, logs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.box.conftest import wait_until
from tests.box.machine.debian import PROJECT, START, Debian

pytestmark = pytest.mark.slow

SYSCTL = PROJECT / "systemd" / "sysctl.conf"
DIRECTORIES = ("/run/edgebox", "/var/cache/edgebox", "/var/log/edgebox")
PRECOMPRESS = "edgebox-precompress"


def settings() -> Iterator[tuple[str, str, bool]]:
    """Name, value, and whether the kernel may lack it."""
    for line in SYSCTL.read_text().splitlines():
        name, equals, value = line.partition(" = ")
        if equals and not line.startswith("#"):
            yield name.lstrip("-").replace(".", "/"), value, name.startswith("-")


def test_the_kernels_settings_are_ones_it_knows() -> None:
    assert [name for name, *_ in settings()]
    for name, _, may_lack in settings():
        assert os.path.exists(f"/proc/sys/{name}") or may_lack, name


def test_the_kernel_takes_them_at_boot(installed: Debian) -> None:
    """Those of the container's own network; the others would be the whole machine's."""
    installed.run("/usr/lib/systemd/systemd-sysctl", "--prefix=/net/ipv4", "60-edgebox.conf",
                  check=False)  # fmt: skip
    checked = 0
    for name, wanted, may_lack in settings():
        if not name.startswith("net/ipv4/"):
            continue
        told = installed.run("cat", f"/proc/sys/{name}", check=False).stdout.split()
        assert told == wanted.split() or may_lack, name
        checked += told == wanted.split()
    assert checked


def test_the_directories_come_back(installed: Debian) -> None:
    installed.systemctl("stop", "edgebox.service")
    installed.run("rm", "-rf", *DIRECTORIES)
    installed.run("systemd-tmpfiles", "--create", "edgebox.conf")
    told = installed.run("stat", "--format=%n %U:%G %a", *DIRECTORIES).stdout.splitlines()
    assert told == [f"{directory} edgebox:edgebox 750" for directory in DIRECTORIES]


def test_variants_are_made_when_the_timer_says(installed: Debian) -> None:
    """At once instead of at four: the timer starts the service, which fills the cache."""
    made = installed.tree / "var" / "cache" / "edgebox" / "compressed"
    installed.systemctl("stop", "edgebox.service")
    installed.run("rm", "-rf", "/var/cache/edgebox/compressed")
    page = installed.tree / "srv" / "page.html"
    page.write_text("<p>hello " * 1000)
    soon = ("[Timer]", "OnCalendar=", "OnActiveSec=1s", "RandomizedDelaySec=0", "AccuracySec=1s")
    try:
        with (
            installed.configured('\nroot = ""', '\nroot = "/srv"'),
            installed.overridden(f"{PRECOMPRESS}.timer", *soon),
        ):
            installed.systemctl("start", f"{PRECOMPRESS}.timer")
            wait_until(lambda: installed.shown("ExecMainExitTimestamp", f"{PRECOMPRESS}.service"),
                       START)  # fmt: skip
    finally:
        installed.systemctl("stop", f"{PRECOMPRESS}.timer")
        page.unlink()
    assert installed.shown("Result", f"{PRECOMPRESS}.service") == "success"
    assert sum(path.is_file() for path in made.rglob("*")) >= 3  # br, zstd, gzip


def test_the_timer_comes_every_night(installed: Debian) -> None:
    installed.systemctl("start", f"{PRECOMPRESS}.timer")
    try:
        assert installed.shown("NextElapseUSecRealtime", f"{PRECOMPRESS}.timer")
        assert "04:00" in installed.shown("TimersCalendar", f"{PRECOMPRESS}.timer")
    finally:
        installed.systemctl("stop", f"{PRECOMPRESS}.timer")
