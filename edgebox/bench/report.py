"""The report as ab writes it, line for line, and its files for spreadsheets and gnuplot. Pure.

What reads ab's report reads this one. Two things differ: times have hundredths of a
millisecond, where ab rounds a fast answer to 0; and there are failures that ab does not tell
apart, which go under Exceptions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from edgebox.bench.figures import Figures, Spread, Times, percentile
from edgebox.bench.load import Load
from edgebox.bench.samples import Samples


def text(load: Load, figures: Figures) -> str:
    """The report for people."""
    return "\n".join([*_lines(load, figures), ""])


def _lines(load: Load, figures: Figures) -> Iterator[str]:
    yield from ("", "")
    yield f"{'Server Software:':<24}{figures.server}"
    yield f"{'Server Hostname:':<24}{load.target.host}"
    yield f"{'Server Port:':<24}{load.target.port}"
    yield ""
    yield f"{'Document Path:':<24}{load.target.path}"
    length = f"{figures.document_length} bytes" if load.same_length else "Variable"
    yield f"{'Document Length:':<24}{length}"
    yield ""
    yield from _counts(load, figures)
    yield from _rates(load, figures)
    if figures.times_ms is not None:
        yield from _connection_times(figures.times_ms)
        yield from _percentages(figures.percentiles_ms)


def _counts(load: Load, figures: Figures) -> Iterator[str]:
    yield f"{'Concurrency Level:':<24}{figures.concurrency}"
    yield f"{'Time taken for tests:':<24}{figures.seconds:.3f} seconds"
    yield f"{'Complete requests:':<24}{figures.complete}"
    yield f"{'Failed requests:':<24}{figures.failed}"
    if figures.failed:
        of = figures.failures
        exceptions = of["timeout"] + of["malformed"]
        yield (
            f"   (Connect: {of['connect']}, Receive: {of['receive']}, Length: {of['length']},"
            f" Exceptions: {exceptions})"
        )
    if figures.non_2xx:
        yield f"{'Non-2xx responses:':<24}{figures.non_2xx}"
    if load.keep_alive:
        yield f"{'Keep-Alive requests:':<24}{figures.kept_alive}"
    yield f"{'Total transferred:':<24}{figures.received} bytes"
    if load.body_length:
        yield f"{'Total body sent:':<24}{figures.sent}"
    yield f"{'HTML transferred:':<24}{figures.content} bytes"


def _rates(load: Load, figures: Figures) -> Iterator[str]:
    rate = figures.requests_per_second
    yield f"{'Requests per second:':<24}{rate:.2f} [#/sec] (mean)"
    if rate:
        yield f"{'Time per request:':<24}{1000 * load.concurrency / rate:.3f} [ms] (mean)"
        across = "[ms] (mean, across all concurrent requests)"
        yield f"{'Time per request:':<24}{1000 / rate:.3f} {across}"
    received, sent = figures.receive_rate / 1024, figures.send_rate / 1024
    yield f"{'Transfer rate:':<24}{received:.2f} [Kbytes/sec] received"
    if load.body_length:
        yield f"{'':<24}{sent:.2f} kb/s sent"
        yield f"{'':<24}{received + sent:.2f} kb/s total"


def _connection_times(times: Times) -> Iterator[str]:
    yield ""
    yield "Connection Times (ms)"
    yield "              min  mean[+/-sd] median   max"
    yield _row("Connect:", times.connect)
    yield _row("Processing:", times.processing)
    yield _row("Waiting:", times.waiting)
    yield _row("Total:", times.total)


def _row(name: str, of: Spread) -> str:
    return f"{name:<11} {of.min:5.2f} {of.mean:5.2f} {of.sd:5.2f} {of.median:7.2f} {of.max:7.2f}"


def _percentages(percentiles: dict[str, float]) -> Iterator[str]:
    yield ""
    yield "Percentage of the requests served within a certain time (ms)"
    for percent, milliseconds in percentiles.items():
        longest = " (longest request)" if percent == "100" else ""
        yield f"{percent:>4}% {milliseconds:8.2f}{longest}"


def percentages_csv(samples: Samples) -> str:
    """-e: each percentage from 0 to 100 and the milliseconds that so many requests needed."""
    ordered = sorted(samples.total)
    rows = [f"{p},{1000 * percentile(ordered, p):.3f}" for p in range(101) if ordered]
    return "\n".join(["Percentage served,Time in ms", *rows, ""])


def gnuplot(samples: Samples, began: float) -> str:
    """-g: a line for each request, the quickest first. `began`: Unix time of the run."""
    rows = sorted(
        zip(samples.total, samples.begun, samples.connecting, samples.waiting, strict=True)
    )
    lines = ["starttime\tseconds\tctime\tdtime\tttime\twait"]
    for total, begun, connecting, waiting in rows:
        moment = began + begun
        milliseconds = (connecting, total - connecting, total, waiting)
        values = "\t".join(f"{1000 * value:.3f}" for value in milliseconds)
        lines.append(f"{time.ctime(moment)}\t{int(moment)}\t{values}")
    return "\n".join([*lines, ""])
