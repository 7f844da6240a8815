"""Who does not move is noticed, by the supervisor or by systemd, and replaced."""

from __future__ import annotations

import pytest

from tests.box.conftest import wait_until
from tests.box.machine.debian import START, Debian

pytestmark = pytest.mark.slow

SITE = "usr/lib/edgebox/lib/python3.11/site-packages"
IMPATIENT = ("[Service]", "WatchdogSec=8", "TimeoutAbortSec=2")


def test_a_supervisor_that_dies_is_replaced(installed: Debian) -> None:
    main = installed.shown("MainPID")
    installed.signal("KILL", int(main))
    installed.wait_replaced(main)
    assert installed.fetch()[""] == "200"


def test_a_supervisor_that_hangs_is_replaced(installed: Debian) -> None:
    with installed.overridden("edgebox.service", *IMPATIENT):
        installed.systemctl("restart", "edgebox.service")
        main = installed.shown("MainPID")
        wait_until_fed(installed)
        installed.signal("STOP", int(main))
        installed.wait_replaced(main)
        assert "watchdog" in installed.journal().lower()
    installed.systemctl("restart", "edgebox.service")


def test_a_worker_that_hangs_is_replaced_and_the_service_goes_on(installed: Debian) -> None:
    with installed.configured('hang = "30s"', 'hang = "5s"'):
        installed.systemctl("reload", "edgebox.service")
        main, workers = installed.shown("MainPID"), installed.workers()
        stopped = min(workers)
        installed.signal("STOP", stopped)
        wait_until(lambda: stopped not in (now := installed.workers()) and len(now) == len(workers),
                   START)  # fmt: skip
        assert installed.shown("MainPID") == main
        assert installed.fetch()[""] == "200"
        assert str(stopped) in installed.journal()
    installed.systemctl("reload", "edgebox.service")


def test_nobody_feeds_the_watchdog_while_no_worker_moves(installed: Debian) -> None:
    """Their replacements cannot start: only systemd can help, and does."""
    code = installed.tree / SITE / "edgebox" / "ops" / "processes" / "child.py"
    away = code.with_suffix(".away")
    with (
        installed.overridden("edgebox.service", *IMPATIENT),
        installed.configured('hang = "30s"', 'hang = "5s"'),
    ):
        installed.systemctl("restart", "edgebox.service")
        main = installed.shown("MainPID")
        wait_until_fed(installed)
        code.rename(away)
        try:
            installed.signal("STOP", *installed.workers())
            wait_until(lambda: installed.shown("MainPID") != main, START)
        finally:
            away.rename(code)
        assert "Watchdog timeout" in installed.journal()
        installed.wait_replaced(main)
        assert installed.fetch()[""] == "200"
    installed.systemctl("restart", "edgebox.service")


def wait_until_fed(system: Debian) -> None:
    """Until systemd has heard that all is well, once more than it has now."""
    heard = system.shown("WatchdogTimestampMonotonic")
    wait_until(lambda: system.shown("WatchdogTimestampMonotonic") != heard, START)
