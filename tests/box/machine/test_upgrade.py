"""A newer package over one that serves: nobody notices, and what was configured stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.machine.debian import Debian

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def restored(installed: Debian, package: Path) -> Iterator[None]:
    """The other tests find the version that they came with."""
    yield
    installed.install(package)
    installed.systemctl("restart", "edgebox.service")


def version(system: Debian) -> object:
    """What runs, whatever is installed."""
    return json.loads(system.run("edgebox", "status", "--json").stdout)["version"]


def test_a_newer_package_takes_over_without_a_pause(installed: Debian, newer: Path) -> None:
    main, before = installed.shown("MainPID"), version(installed)
    with installed.load("-k") as figures:
        installed.install(newer)
        assert installed.state() == "active"
        assert installed.shown("MainPID") not in (main, "0")
        assert version(installed) == "9.9" != before
    assert figures["failed"] == 0, figures
    assert figures["complete"] > 100
    installed.systemctl("restart", "edgebox.service")  # systemd knows whom to stop
    assert installed.fetch()[""] == "200"


def test_connections_that_come_meanwhile_are_answered(installed: Debian, newer: Path) -> None:
    with installed.load() as figures:
        installed.install(newer)
    assert figures["failed"] == 0, figures
    assert figures["complete"] > 100


def test_what_was_configured_stays_without_a_question(installed: Debian, newer: Path) -> None:
    directory = installed.tree / "etc" / "edgebox"
    with installed.configured('name = "edgebox"', 'name = "renamed"'):
        mine = (directory / "edgebox.toml").read_text()
        installed.install(newer)
        assert (directory / "edgebox.toml").read_text() == mine
        assert installed.fetch()["server"] == "renamed"
        assert [path.name for path in directory.iterdir()] == ["edgebox.toml"]
