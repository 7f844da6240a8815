"""A herd's table tells medians of clean rounds, and the most that the upstream was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf import herd
from perf.herd import Herd, Place, Round


def made_up() -> list[Herd]:
    rounds = (
        Round(2.0, 0.1, 2.2, 0.5, 1, 0.3),
        Round(2.1, 0.1, 2.4, 0.5, 2, 0.3),
        Round(2.2, 0.1, 2.5, 0.5, 1, 0.3),
        Round(9.0, 9.0, 9.0, 9.0, 1, 9.0, ("3 × ended early",)),
    )
    return [Herd("edgebox", "small", rounds), Herd("nginx", "small", (), "nginx is not installed")]


def test_the_table_tells_medians_and_the_worst_count() -> None:
    text = herd.markdown(made_up())
    assert "| small | edgebox | 2.10 | 0.10 | 2.40 | 1.14 | 0.50 | 2 | 0.30 |" in text
    assert "| small | nginx | – | – | – | – | – | – | – |" in text
    assert "- small, edgebox: 3 × ended early" in text
    assert "- small, nginx: nginx is not installed" in text


def test_json_holds_every_round() -> None:
    options = herd.parse(["--peers", "edgebox"])
    told = json.loads(herd.as_json(made_up(), options, {"cores": "2"}))
    assert told["herds"][0]["medians"]["together"] == 2.4
    assert len(told["herds"][0]["rounds"]) == 4
    assert told["herds"][1]["medians"]["together"] is None
    assert told["clients"] == 1000
    assert told["machine"] == {"cores": "2"}


def test_only_a_full_run_replaces_the_published_file() -> None:
    assert herd.parse([]).out == herd.HERE / "herd.json"
    for part in (["--quick"], ["--clients", "10"], ["--rounds", "1"], ["--peers", "edgebox"]):
        assert herd.parse(part).out is None
        assert herd.parse([*part, "--out", "x"]).out == Path("x")
    assert herd.parse(["--peers", "varnish,edgebox"]).servers == ("edgebox", "varnish")


def test_an_unknown_server_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        herd.parse(["--peers", "squid"])
    assert "unknown: squid" in capsys.readouterr().err


def test_the_answers_are_as_long_as_the_table_says(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path, None, 1000)
    bodies = herd.make_answers(place)
    for kind, path in zip(herd.KINDS, (place.small, place.big), strict=True):
        assert path.stat().st_size == kind.size == bodies[kind.path].size
