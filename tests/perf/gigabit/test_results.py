"""Figures are those of the steady seconds, and verdicts say what was reached and what not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from perf.gigabit.objects import Probe
from perf.gigabit.results import Outcome, drift, phase, verdicts
from perf.gigabit.sample import Second

Course = Callable[..., tuple[Second, ...]]

PAGE = Probe(26_890, 124.5e6, 30_000, 40_000.0, 0.1, 0, 0.5)


def test_a_phase_is_made_of_its_steady_seconds_only(course: Course) -> None:
    found = phase(course(), 10, 10_000_000)
    assert found is not None
    assert found.mb_per_s == pytest.approx(125.0)
    assert found.payload_mb_per_s == pytest.approx(118.0)
    assert found.user_cpu == pytest.approx(0.02)
    assert found.kernel_cpu == pytest.approx(0.2)
    assert found.seconds == pytest.approx(6.0)
    assert found.whole_after == pytest.approx(1.0)


def test_rates_weigh_by_the_time_that_passed(busy: Second) -> None:
    seconds = [replace(busy, wire=100.0), replace(busy, wire=200.0, seconds=3.0)]
    found = phase(seconds, 10, 0)
    assert found is not None
    assert found.mb_per_s * 1e6 == pytest.approx(175.0)


def test_a_connection_is_charged_for_process_and_socket_beyond_the_start(course: Course) -> None:
    found = phase(course(), 10, 10_000_000)
    assert found is not None
    assert found.own_kb_per_connection == pytest.approx(5.0)
    assert found.sockets_kb_per_connection == pytest.approx(15.0)
    assert found.kb_per_connection == pytest.approx(20.0)


def test_without_a_steady_second_there_is_no_phase(rest: Second, busy: Second) -> None:
    assert phase([rest, replace(busy, steady=False)], 10, 0) is None
    assert phase([], 10, 0) is None


def test_memory_before_and_after_is_that_of_the_rests(course: Course, rest: Second) -> None:
    seconds = (*course(), replace(rest, memory=11_500_000))
    outcome = Outcome("", "", seconds, (10,))
    assert (outcome.base, outcome.left) == (10_000_000, 11_500_000)
    (back,) = [v for v in verdicts({"edgebox": outcome}) if "after" in v.what]
    assert back.reached is False
    assert "1.15 ×" in back.measured


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100.0, 100.0, 100.0], 0.0),
        ([100.0, 500.0, 110.0], 0.1),
        ([100.0, 100.0, 5.0, 5.0, 90.0, 90.0], -0.1),
        ([1.0, 2.0], 0.0),
        ([0.0, 1.0, 2.0], 0.0),
        ([], 0.0),
    ],
)
def test_drift_compares_the_last_third_with_the_first(values: list[float], expected: float) -> None:
    assert drift(values) == pytest.approx(expected)


def test_all_is_reached_by_a_server_that_does_all(outcomes: dict[str, Outcome]) -> None:
    found = verdicts(outcomes)
    assert [verdict.reached for verdict in found] == [True] * 6
    assert "20.0 against 45.0" in [verdict.measured for verdict in found]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"wire": 122e6}, "link ≥ 99% of nginx's"),
        ({"user": 0.051}, "user CPU ≤ 5% of a core"),
        ({"sockets": 200_000}, "≤ 24 kB a connection"),
        ({"sockets": 500_000}, "kB a connection ≤ nginx's"),
    ],
)
def test_each_shortcoming_is_its_own_verdict(
    outcomes: dict[str, Outcome], change: dict[str, float], wanted: str
) -> None:
    own = outcomes["edgebox"]
    worse = tuple(replace(s, **change) if s.steady else s for s in own.seconds)  # type: ignore[arg-type]
    found = verdicts({**outcomes, "edgebox": replace(own, seconds=worse)})
    assert wanted in [verdict.wanted for verdict in found if verdict.reached is False]


def test_a_link_or_a_memory_that_moves_is_drift(outcomes: dict[str, Outcome]) -> None:
    own = outcomes["edgebox"]
    growing = tuple(
        replace(s, sockets=s.sockets + 200_000 * at) if s.steady else s
        for at, s in enumerate(own.seconds)
    )
    found = verdicts({**outcomes, "edgebox": replace(own, seconds=growing)})
    assert [v.reached for v in found if v.wanted.startswith("no drift")] == [False]


def test_edgebox_without_a_limit_is_held_to_the_same(outcomes: dict[str, Outcome]) -> None:
    alone = verdicts(outcomes)
    both = verdicts({**outcomes, "edgebox-default": outcomes["edgebox"]})
    own = [v for v in both if v.what.startswith("edgebox-default, ")]
    assert len(both) == len(alone) + len(own)
    assert {v.wanted for v in own} == {v.wanted for v in alone if v.what.startswith("edgebox, ")}


def test_without_nginx_what_is_held_against_it_is_not_measured(
    outcomes: dict[str, Outcome],
) -> None:
    del outcomes["nginx"]
    found = {verdict.wanted: verdict.reached for verdict in verdicts(outcomes)}
    assert found["link ≥ 99% of nginx's"] is None
    assert found["user CPU ≤ 5% of a core"] is True


def test_the_page_wants_a_full_link_no_disk_and_few_switches(outcomes: dict[str, Outcome]) -> None:
    outcomes["nginx"] = replace(outcomes["nginx"], page_looked_at=PAGE)

    def judged(probe: Probe) -> list[bool | None]:
        own = replace(outcomes["edgebox"], page_looked_at=probe)
        return [
            verdict.reached
            for verdict in verdicts({**outcomes, "edgebox": own})
            if verdict.what.startswith("26,890 B")
        ]

    assert judged(PAGE) == [True, True, True]
    assert judged(replace(PAGE, wire=100e6, disk=4096, switches=0.2)) == [False] * 3
    assert judged(replace(PAGE, fault="socket errors: read 3")) == [None]
