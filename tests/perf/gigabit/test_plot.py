"""The picture is well-formed and has every server, crowd and line, whatever it is given."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from perf.gigabit.plot import PANELS, bands, plot, round_up
from perf.gigabit.results import Outcome
from perf.gigabit.sample import Second

SVG = "{http://www.w3.org/2000/svg}"


def test_every_server_crowd_and_fact_is_named(outcomes: dict[str, Outcome]) -> None:
    tree = ElementTree.fromstring(plot(outcomes, ["2 cores < 4", "kernel 6"]))
    words = [element.text for element in tree.iter(f"{SVG}text")]
    for told in ("edgebox", "nginx", "10", "2 cores < 4", "kernel 6", "its sockets"):
        assert told in words


def test_three_panels_for_each_server_with_a_line_for_each_figure(
    outcomes: dict[str, Outcome],
) -> None:
    tree = ElementTree.fromstring(plot(outcomes, []))
    lines = sum(len(panel.lines) for panel in PANELS)
    assert len(PANELS) == 3
    assert len(list(tree.iter(f"{SVG}polyline"))) == 2 * lines


def test_no_point_lies_outside_the_picture(outcomes: dict[str, Outcome]) -> None:
    tree = ElementTree.fromstring(plot(outcomes, []))
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    for line in tree.iter(f"{SVG}polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


def test_a_rush_from_the_buffers_does_not_flatten_the_link(
    outcomes: dict[str, Outcome],
) -> None:
    own = outcomes["edgebox"]
    rush = (*own.seconds[:-1], replace(own.seconds[-1], payload=1e9))
    tree = ElementTree.fromstring(plot({"edgebox": replace(own, seconds=rush)}, []))
    words = [element.text for element in tree.iter(f"{SVG}text")]
    assert "160" in words
    assert "1,000" not in words


def test_a_server_that_never_ran_takes_no_room(outcomes: dict[str, Outcome]) -> None:
    outcomes["lighttpd"] = Outcome("1.4", "", faults=("downloads: not ready",))
    assert "lighttpd" not in plot(outcomes, [])
    assert plot({}, []).startswith("<svg")


def test_a_band_lasts_from_a_crowds_first_second_to_its_last(rest: Second, busy: Second) -> None:
    seconds = [rest, replace(busy, at=2.5, seconds=1.5), replace(busy, at=3.5), rest]
    assert bands(seconds) == {10: (1.0, 3.5)}


@given(st.floats(0.001, 1e9))
@settings(max_examples=60)
def test_a_scale_is_never_passed_and_never_much_too_large(value: float) -> None:
    assert value * 0.99999 <= round_up(value) <= value * 1.7
