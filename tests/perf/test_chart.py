"""The picture is well-formed, true to scale, and lies within its frame."""

from __future__ import annotations

from xml.etree import ElementTree

from perf.chart import WIDTH, chart
from perf.report import Run

SVG = "{http://www.w3.org/2000/svg}"


def drawn(run: Run) -> ElementTree.Element:
    return ElementTree.fromstring(chart(run.results, list(run.versions)))


def test_one_bar_for_each_figure_in_µs_and_none_for_what_is_invalid(made_up_run: Run) -> None:
    picture = drawn(made_up_run)
    texts = [text.text for text in picture.iter(SVG + "text")]
    assert len(list(picture.iter(SVG + "rect"))) == 3
    for told in ("edgebox", "nginx", "floor", "8.0", "10.0", "6.0"):
        assert told in texts
    assert "lighttpd" not in texts
    assert "1600.0" not in texts


def test_lengths_are_in_proportion_and_within_the_frame(made_up_run: Run) -> None:
    picture = drawn(made_up_run)
    bars = [(float(r.attrib["x"]), float(r.attrib["width"])) for r in picture.iter(SVG + "rect")]
    lengths = [round(length / bars[1][1], 2) for _, length in bars]
    assert lengths == [0.8, 1.0, 0.6]
    assert all(left > 0 and left + length < WIDTH for left, length in bars)
    height = float(picture.attrib["height"])
    assert all(float(t.attrib["y"]) < height for t in picture.iter(SVG + "text"))


def test_an_empty_run_is_still_a_picture() -> None:
    assert ElementTree.fromstring(chart([], [])).tag == SVG + "svg"
