"""reload, upgrade, status, stats, ban, upstream, log: what they ask, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from edgebox.cli.main import main

Told = Callable[..., dict[str, Any]]


def test_reload_tells_when_it_is_done(served: Any) -> None:
    served.answers["reload"] = {"ok": True, "generation": 7}
    result = served.run("reload")
    assert (result.exit_code, result.output) == (0, "reloaded: generation 7 serves\n")
    served.answers["reload"] = {"ok": True}
    assert served.run("reload").output == "reloaded\n"


def test_reload_fails_with_the_reasons_where_they_are(served: Any) -> None:
    why = "box.toml:3: server.listen: is empty\nbox.toml:9: log: unknown key"
    served.answers["reload"] = {"ok": False, "error": why}
    result = served.run("reload")
    assert result.exit_code == 1
    assert result.output == (f"{why}\nError: nothing was reloaded: the server goes on as it was\n")


def test_upgrade(served: Any) -> None:
    served.answers["upgrade"] = {"ok": True, "pid": 77}
    assert served.run("upgrade").output == "upgraded: process 77 serves\n"
    served.answers["upgrade"] = {"ok": False, "error": "it does not start"}
    result = served.run("upgrade")
    assert result.exit_code == 1
    assert "it does not start\nError: nothing was upgraded" in result.output


def test_ban_asks_all_and_counts(served: Any) -> None:
    served.answers["ban"] = {"ok": True, "purged": 3}
    rule = "host = x and path ~ ^/news/"
    result = served.run("ban", rule)
    assert result.output == "3 banned in RAM; on disk, each as it is found\n"
    assert served.heard == [{"verb": "ban", "rule": rule, "soft": False}]


def test_a_ban_that_is_none_is_told_before_anybody_is_asked(served: Any) -> None:
    result = served.run("ban", "age = 5")
    assert result.exit_code == 2
    assert 'there is no field "age"' in result.output
    assert not served.heard


SERVERS = [
    {"pool": "app", "server": "http://a", "standings": {"up": 2}, "active": 1, "answered": 12_345},
    {"pool": "app", "server": "http://b", "standings": {"up": 1, "down": 1}, "active": 0},
]


def test_upstream_list(served: Any) -> None:
    served.answers["upstream"] = {"ok": True, "servers": SERVERS}
    header, first, second = served.run("upstream", "list").output.splitlines()
    assert header.split()[:4] == ["pool", "server", "standing", "active"]
    assert first.split()[:3] == ["app", "http://a", "up"]
    assert "12.3 k" in first
    assert "down (1), up (1)" in second
    told = json.loads(served.run("upstream", "list", "--json").output)
    assert told == SERVERS
    served.answers["upstream"] = {"ok": True, "servers": []}
    assert "no route" in served.run("upstream", "list").output


@pytest.mark.parametrize(
    ("action", "output"),
    [("drain", "http://a gets nothing new\n"), ("up", "http://a is asked again\n")],
)
def test_upstream_drain_and_up(served: Any, action: str, output: str) -> None:
    served.answers["upstream"] = {"ok": True, "servers": []}
    assert served.run("upstream", action, "http://a", "--pool", "app").output == output
    assert served.heard == [
        {"verb": "upstream", "action": action, "server": "http://a", "pool": "app"}
    ]
    served.run("upstream", action, "http://a")
    assert "pool" not in served.heard[1]


def test_stats_are_a_line_each(served: Any) -> None:
    latency = {"count": 1, "p50": 0.001, "p95": 0.002, "p99": 0.0123456}
    served.answers["stats"] = {
        "ok": True,
        "counters": {"requests": 1000, "shed": 2},
        "gauges": {"connections": 3},
        "rates": {"requests": 12.5},
        "latency": {"hit_total": latency, "miss_total": {"count": 0}},
    }
    lines = [line.split() for line in served.run("stats", "-1").output.splitlines()]
    assert lines == [
        ["requests", "1000", "12.50"],
        ["shed", "2", "."],
        ["connections", "3", "."],
        ["hit_total_p50", "0.001000", "."],
        ["hit_total_p95", "0.002000", "."],
        ["hit_total_p99", "0.012346", "."],
    ]
    told = json.loads(served.run("stats", "--json").output)
    assert told["counters"]["requests"] == 1000
    assert "ok" not in told


RECORD = {
    "at": 0, "peer": "::1", "status": 502, "time": 0.0123, "bytes": 45, "method": "GET",
    "host": "x", "path": "/a\x1b[2J", "cache": "miss", "reason": "stale", "upstream": "http://a",
}  # fmt: skip


def test_log_shows_what_a_query_means(served: Any) -> None:
    served.answers["log"] = [
        {"ok": True, "more": True, "records": [], "left_out": 0},
        {"ok": True, "more": True, "records": [RECORD, RECORD], "left_out": 5},
        {"ok": True},
    ]
    result = served.run("log", "-f", "-q", "status>=500 and host=x")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.endswith(" ::1 502 12.3ms 45B GET x/a�[2J [miss stale] http://a")
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "edgebox: 5 lines left out: too many to show\n"
    assert served.heard == [{"verb": "log", "query": "status>=500 and host=x"}]


def test_log_ends_after_so_many_lines_and_speaks_json(served: Any) -> None:
    served.answers["log"] = [{"ok": True, "more": True, "records": [RECORD] * 3, "left_out": 0}]
    result = served.run("log", "-n", "1", "--json")
    assert json.loads(result.output) == RECORD


def test_a_query_that_is_none_is_pointed_at(served: Any) -> None:
    result = served.run("log", "-q", "status >= high")
    assert result.exit_code == 2
    assert "  status >= high\n            ^" in result.output
    assert not served.heard


WIDE = "\N{CJK UNIFIED IDEOGRAPH-65E5}"  # two columns


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (f"host =\t{WIDE} and x = 1", f"  host = {WIDE} and x = 1\n{' ' * 16}^"),
        ("status = 200\n and x = 1", f"  status = 200  and x = 1\n{' ' * 20}^"),
    ],
    ids=["wide characters and tabs", "several lines"],
)
def test_the_mark_stands_under_the_mistake_whatever_is_before_it(
    served: Any, query: str, shown: str
) -> None:
    assert shown in served.run("log", "-q", query).output


def test_who_is_starting_serves_nobody_yet(served: Any, told: Told) -> None:
    stages = ["ready", "starting", "draining"]
    workers = [{"slot": slot, "stage": stage} for slot, stage in enumerate(stages)]
    generations = [{"generation": 2, "workers": workers}]
    served.answers["status"] = told(supervisor={"generations": generations})
    output = served.run("status").output
    assert " 1 worker · generation 2 " in output
    for stage in ("serving", "starting", "draining"):
        assert stage in output
    assert "nobody serves" not in output


def test_a_box_where_nobody_serves_says_so(served: Any, told: Told) -> None:
    served.answers["status"] = {**told(), "workers": []}
    output = served.run("status").output
    assert "0 workers · http" in output
    assert "trouble   nobody serves: see the error log, or reload" in output


def test_status_for_people(served: Any, told: Told) -> None:
    served.answers["status"] = told()
    result = served.run("status")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == (
        "edgebox 9.9 · up 1 d 1 h · 2 workers · generation 2 · http://127.0.0.1:8080/"
    )
    assert "50.0 % of 944 Mbit/s (eth0)" in result.output
    assert "1.20 k/s, 75.0 % in the express lane" in result.output
    assert "hits 90.0 % (75.0 % of bytes) · in all 75.0 % (- of bytes) · stale 0/s" in result.output
    assert "1.00 ms/20.0 ms/1.50 s" in result.output
    assert "http://b:1 of app is down" in result.output
    assert "64.0 MiB of 256 MiB, 1.23 k objects" in result.output
    assert "upstream http://b:1 is down" in result.output


def test_status_for_programs_is_all_there_is(served: Any, told: Told) -> None:
    served.answers["status"] = told()
    assert json.loads(served.run("status", "--json").output) == {
        name: value for name, value in told().items() if name != "ok"
    }


def test_status_of_a_box_that_does_nothing(served: Any, told: Told) -> None:
    idle = told(
        rates=dict.fromkeys(told()["rates"], 0.0),
        totals=dict.fromkeys(told()["totals"], 0),
        latency={kind: {"total": {"count": 0}} for kind in ("all", "hit")},
        gauges={"ram_budget": 0, "connections_limit": 0, "lag_us": 400_000},
        sheet={"hot": [], "ram": [], "upstreams": [], "errors": []},
        board={"plan": None},
        silent={"1": 12.0},
    )
    served.answers["status"] = idle | {"workers": [], "curves": {"requests": [], "octets": []}}
    result = served.run("status")
    assert result.exit_code == 0, result.output
    assert "its speed is not known" in result.output
    assert "nothing was asked" in result.output
    assert "worker 1 has shown no sign of life for 12 s" in result.output
    assert "a worker's loop is 400 ms late" in result.output


@pytest.mark.parametrize(
    "verb", ["status", "top", "stats", "log", "reload", "upgrade", "upstream", "ban"]
)
def test_every_verb_explains_itself(verb: str) -> None:
    result = CliRunner().invoke(main, [verb, "--help"])
    assert result.exit_code == 0
    assert verb in CliRunner().invoke(main, ["--help"]).output
