"""What wrk 4.1 and ab 2.3 print is read rightly, and no error goes unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perf import loads
from perf.rows import PAGE, PATHS, Load

CLEAN_WRK = """\
Running 4s test @ http://127.0.0.1:40383/small.html
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   643.09us    4.77ms  48.95ms   91.30%
    Req/Sec    92.20k    14.88   120.00     80.00%
  Latency Distribution
     50%  550.00us
     75%  600.00us
     90%  700.00us
     99%    1.25ms
  368000 requests in 4.10s, 242.15MB read
Requests/sec:  89756.10
Transfer/sec:     59.06MB
"""
CLEAN_AB = """\
This is ApacheBench, Version 2.3 <$Revision$>
Server Software:        nginx/1.22.1
Document Path:          /small.html
Document Length:        449 bytes

Concurrency Level:      64
Time taken for tests:   2.188 seconds
Complete requests:      200000
Failed requests:        0
Keep-Alive requests:    199990
Total transferred:      140000000 bytes
HTML transferred:       89800000 bytes
Requests per second:    91407.68 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%      1
  98%      2
  99%      7
 100%      9 (longest request)
"""
AB = Load(tool="ab", requests=200_000)


def test_a_clean_wrk_report_gives_requests_seconds_and_p99() -> None:
    outcome = loads.read(Load(), CLEAN_WRK)
    assert (outcome.requests, outcome.seconds, outcome.faults) == (368_000, 4.1, ())
    assert outcome.p99 == pytest.approx(0.00125)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  Non-2xx or 3xx responses: 1098\n", "1098 answers were not"),
        ("  Socket errors: connect 0, read 11910, write 0, timeout 0\n", "read 11910"),
    ],
)
def test_errors_that_wrk_counted_are_faults(line: str, told: str) -> None:
    spoilt = CLEAN_WRK.replace("Requests/sec", line + "Requests/sec")
    assert any(told in fault for fault in loads.read(Load(), spoilt).faults)


def test_bodies_of_the_wrong_length_are_a_fault_though_wrk_does_not_mind() -> None:
    assert loads.read(Load(size=PAGE), CLEAN_WRK).faults
    assert loads.read(Load(), CLEAN_WRK.replace("242.15MB", "24.15MB")).faults


def test_no_answer_at_all_is_a_fault() -> None:
    text = CLEAN_WRK.replace("368000 requests in 4.10s, 242.15MB", "0 requests in 1.00s, 0.00B")
    assert loads.read(Load(), text).faults == ("no answer at all",)


def test_a_clean_ab_report_gives_requests_seconds_and_p99() -> None:
    outcome = loads.read(AB, CLEAN_AB)
    assert outcome == loads.Outcome(200_000, 2.188, 0.007, ())


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("Failed requests:        0", "Failed requests:        2"),
        ("Total transferred", "Non-2xx responses:      200\nTotal transferred"),
        ("Document Length:        449", "Document Length:        448"),
        ("Complete requests:      200000", "Complete requests:      199999"),
        ("Keep-Alive requests:    199990", "Keep-Alive requests:    100"),
        ("Keep-Alive requests:    199990\n", ""),
    ],
)
def test_whatever_spoils_an_ab_run_is_a_fault(was: str, becomes: str) -> None:
    assert was in CLEAN_AB
    assert len(loads.read(AB, CLEAN_AB.replace(was, becomes)).faults) == 1


def test_connections_need_not_be_kept_where_each_request_has_its_own() -> None:
    text = CLEAN_AB.replace("Keep-Alive requests:    199990\n", "")
    assert loads.read(replace(AB, keep_alive=False), text).faults == ()


@pytest.mark.parametrize("tool", ["wrk", "ab"])
def test_a_report_without_a_result_is_refused(tool: str) -> None:
    with pytest.raises(ValueError, match="gave no result"):
        loads.read(Load(tool=tool), "unable to connect to 127.0.0.1:1 Connection refused")


def test_commands_say_what_the_load_says() -> None:
    origin = "http://127.0.0.1:1"
    connect = Load(tool="ab", connections=1000, requests=100_000, keep_alive=False)
    assert " ".join(loads.command(connect, origin)) == (
        "ab -q -n 100000 -c 1000 http://127.0.0.1:1/small.html"
    )
    assert "-k" in loads.command(AB, origin)
    words = loads.command(Load(heads="unique"), origin, "77")
    assert words[-3:] == ["--", "unique", "77"]
    assert loads.command(Load(heads="distinct"), origin, "78")[-2:] == ["distinct", "78"]
    assert str(loads.HEADS) in words


def test_the_script_asks_for_as_many_paths_as_the_docroot_has() -> None:
    assert f"PATHS = 500, {PATHS}\n" in Path(loads.HEADS).read_text()
