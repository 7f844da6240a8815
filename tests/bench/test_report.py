from __future__ import annotations

import re

from edgebox.bench.figures import make_figures
from edgebox.bench.load import Load, parse_target
from edgebox.bench.report import gnuplot, percentages_csv, text
from edgebox.bench.samples import Failure, Samples

LOAD = Load(
    target=parse_target("http://box/a"), octets=b"", requests=3, concurrency=1, seconds=None,
    keep_alive=True, timeout=1.0, same_length=True,
)  # fmt: skip


def measured() -> Samples:
    samples = Samples()
    for total in (0.3, 0.1, 0.2):
        samples.add(begun=1.0, connecting=0.0, waiting=total, total=total)
    samples.seconds, samples.length, samples.server = 1.0, 7, "nginx/1"
    return samples


def test_the_report_says_what_was_measured() -> None:
    found = text(LOAD, make_figures(LOAD, measured()))
    assert "Server Software:        nginx/1\n" in found
    assert "Document Length:        7 bytes\n" in found
    assert "Complete requests:      3\n" in found
    assert "Requests per second:    3.00 [#/sec] (mean)\n" in found
    assert re.search(r"^ +50% +200\.00$", found, re.MULTILINE)
    assert found.endswith("100%   300.00 (longest request)\n")
    assert "Connect: 0, Receive" not in found


def test_the_report_names_the_kinds_of_failure_as_ab_does() -> None:
    samples = measured()
    samples.failures.update({Failure.TIMEOUT: 2, Failure.MALFORMED: 1, Failure.LENGTH: 4})
    found = text(LOAD, make_figures(LOAD, samples))
    assert "Failed requests:        7\n" in found
    assert "   (Connect: 0, Receive: 0, Length: 4, Exceptions: 3)\n" in found


def test_a_run_without_an_answer_can_be_reported() -> None:
    assert "Complete requests:      0\n" in text(LOAD, make_figures(LOAD, Samples()))
    assert percentages_csv(Samples()) == "Percentage served,Time in ms\n"
    assert gnuplot(Samples(), 0.0).count("\n") == 1


def test_the_csv_has_each_percentage() -> None:
    lines = percentages_csv(measured()).splitlines()
    assert len(lines) == 102
    assert lines[1] == "0,100.000"
    assert lines[101] == "100,300.000"


def test_the_gnuplot_file_has_each_request_the_quickest_first() -> None:
    header, *lines = gnuplot(measured(), 1000.0).splitlines()
    assert header.split("\t") == ["starttime", "seconds", "ctime", "dtime", "ttime", "wait"]
    assert [line.split("\t")[4] for line in lines] == ["100.000", "200.000", "300.000"]
    assert lines[0].split("\t")[1] == "1001"
