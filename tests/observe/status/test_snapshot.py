from __future__ import annotations

from edgebox import __version__
from edgebox.observe.pages import Pages
from edgebox.observe.status.auto import auto
from tests.observe.conftest import COUNTED, Look


def test_it_is_of_all_workers(look: Look) -> None:
    told = look()
    assert (told.host, told.version) == ("box", __version__)
    assert told.totals["requests"] == 2 * COUNTED["requests"]
    assert [worker.slot for worker in told.workers] == [0, 7]
    assert told.uptime == 107
    assert told.gauges["connections"] == 14
    assert told.sheet.hot[0] == ("x/", 20, 2000)
    assert told.board["plan"]["interface"] == "eth0"  # type: ignore[index]


def test_what_they_share_or_suffer_each_is_not_added_up(look: Look) -> None:
    told = look()
    assert told.gauges["disk_held"] == 900
    assert told.gauges["lag_us"] == 8000


def test_the_box_is_as_old_as_its_supervisor(pages: Pages, look: Look) -> None:
    pages.board.publish({}, {}, b'{"started":%d}' % (look().time - 5000))
    assert look().uptime == 5000


def test_a_worker_that_ended_leaves_its_counts(pages: Pages, look: Look) -> None:
    before = look()
    pages.slot(7).release()
    after = look()
    assert after.totals["requests"] == before.totals["requests"]
    assert after.gauges["connections"] == 7
    assert [worker.slot for worker in after.workers] == [0]


def test_auto_has_the_lines_of_mod_status(look: Look) -> None:
    told = look()
    lines = dict(line.split(": ") for line in auto(told).decode().splitlines())
    assert lines["Total Accesses"] == str(told.totals["requests"])
    assert lines["Uptime"] == "107"
    assert lines["BusyServers"] == "14"
    assert lines["IdleServers"] == "186"
    assert lines["Scoreboard"] == "h" * 4 + "k" * 10 + "_" * 186


def test_what_went_wrong_with_processes_is_told_beside_what_workers_tell(
    pages: Pages, look: Look
) -> None:
    before = look()
    errors = b'[[1900000000,"error","a worker has ended: SIGKILL"]]'
    pages.board.publish({"errors": 3}, {}, b'{"plan":{},"errors":%s}' % errors)
    after = look()
    assert after.sheet.errors[0] == (1900000000, "error", "a worker has ended: SIGKILL")
    assert after.sheet.errors[1:] == before.sheet.errors
    assert after.totals["errors"] == before.totals["errors"] + 3
    assert after.board == {"plan": {}}
