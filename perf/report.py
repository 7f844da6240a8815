"""The run as text: RESULTS.md for people, results.json for programs. Pure.

A reader gets the verdicts first, then the tables that they were worked out from, then what
it takes to repeat them: machine, versions, commands, configurations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from perf import loads
from perf.results import Figure, Result, Verdict, best_peer, median_of
from perf.rows import Unit
from perf.targets import FLOOR, NOTHING, SUBJECT

METHOD = """\
CPU time of the server per request: nanoseconds on a CPU from the first field of
/proc/PID/task/\\*/schedstat of all the server's processes, before and after a fixed load,
divided by the requests that the load tool counted. Within each round all servers stand side by
side and take turns, each at work on one of four parts of the load at a time: a machine that is
shared with others changes its speed from minute to minute. Every
figure is the median of its clean rounds, and what is compared is the ratio of two
medians of this run. Every answer is 200 with the right body, checked before and after each
load; a load that saw an error counts for nothing. Unless a row says otherwise, all servers
write an access log in the combined format. The floor is a bare C epoll loop that sends
fixed octets without parsing, and keeps no log.

In the rows of upstream answers each server is a cache before one origin, a small C program on
the load tool's core whose time is not counted. The origin counts what it is asked: nothing at
all while the answer is hot, every request where all are misses. nginx is its proxy_cache
there, Varnish its two processes and varnishncsa, and what they keep lies in RAM or on tmpfs.
"""
HEADINGS = {
    Unit.MICROSECONDS: "CPU µs per request",
    Unit.OCTETS: "Memory, octets per connection",
    Unit.RATIO: "Latency, ×",
}


@dataclass(frozen=True)
class Run:
    """Everything that a report tells; `configs` and `versions` by peer, in table order."""

    generated: str
    commit: str
    rounds: int
    quick: bool
    cores: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    tools: Mapping[str, str]
    missing: tuple[str, ...]
    configs: Mapping[str, str]
    results: tuple[Result, ...]
    breakage: str = ""  # what `perf.faults` found last, for people


def markdown(run: Run) -> str:
    """RESULTS.md, whole."""
    title = "# What edgebox costs, beside its peers"
    source = f", edgebox at `{run.commit}`" if run.commit else ""
    kind = "a quick run, not to be quoted" if run.quick else "`make bench`"
    intro = f"{run.generated}{source}, {kind}, rounds: {run.rounds}. {run.cores}"
    parts = [title, intro, "![CPU time per request](results.svg)", METHOD.strip()]
    parts += ["## Against the targets", verdict_table(run.results)]
    for unit, heading in HEADINGS.items():
        rows = [result for result in run.results if result.row.unit is unit]
        if rows:
            parts += [f"## {heading}", figure_table(rows, list(run.versions), unit)]
    if run.breakage:
        parts += ["## When something breaks", run.breakage]
    if spoilt := faults(run):
        parts += ["## Missing or spoilt", "\n".join(f"- {line}" for line in spoilt)]
    parts += ["## Machine and versions", fact_table(run)]
    parts += [folded("Every round", round_table(run.results))]
    parts += [folded("The loads", load_table(run.results))]
    parts += [folded(f"{name}: configuration", fenced(run.configs[name])) for name in run.configs]
    return "\n\n".join(parts) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    """A Markdown table; `columns` has an "l" for each column of text, an "r" for figures."""
    rules = ["---:" if column == "r" else "---" for column in columns]
    lines = [heads, rules, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def fenced(text: str) -> str:
    return f"```\n{text.rstrip()}\n```"


def number(value: float | None, unit: Unit) -> str:
    """A figure in its unit's precision; a dash where there is none."""
    if value is None:
        return "–"
    if unit is Unit.OCTETS:
        return f"{value:,.0f}"
    return f"{value:.2f}" if unit is Unit.RATIO else f"{value:.1f}"


def bound(verdict: Verdict, unit: Unit) -> str:
    """How a target reads: "≤ 0.80 × nginx", "≤ 1,500 octets"."""
    target = verdict.target
    if target.against == NOTHING:
        return f"≤ {number(target.at_most, unit)} {unit.value}"
    named = target.against
    if verdict.against and verdict.against != named:
        named += f" ({verdict.against})"
    return f"≤ {target.at_most:.2f} × {named}"


def outcome(verdict: Verdict) -> str:
    """Reached or not, said plainly."""
    if verdict.reached is None:
        return f"not measured: {verdict.why_not}"
    return "reached" if verdict.reached else "**not reached**"


def verdict_table(results: Iterable[Result]) -> str:
    """Every target of the rows that ran, after a line that counts them."""
    rows: list[list[str]] = []
    verdicts: list[Verdict] = []
    for result in results:
        unit = result.row.unit
        for verdict in result.verdicts:
            shown = unit if verdict.target.against == NOTHING else Unit.RATIO
            measured = number(verdict.measured, shown)
            rows.append([result.row.title, bound(verdict, unit), measured, outcome(verdict)])
            verdicts.append(verdict)
    if not rows:
        return "None of the rows that ran has a target."
    reached, missed, unknown = (
        sum(verdict.reached is state for verdict in verdicts) for state in (True, False, None)
    )
    count = f"Of {len(verdicts)} targets: {reached} reached, {missed} not reached"
    count += f", {unknown} not measured." if unknown else "."
    return count + "\n\n" + table(["load", "target", "measured", "verdict"], rows, "llrl")


def figure_table(results: Iterable[Result], peers: list[str], unit: Unit) -> str:
    """Medians of every peer, then edgebox's ratios to nginx, the best peer and the floor."""
    rows = []
    for result in results:
        figures = result.figures
        cells = [_cell(figures.get(peer), unit) for peer in peers]
        own = median_of(figures, SUBJECT)
        for against in ("nginx", best_peer(figures), FLOOR):
            other = median_of(figures, against) if against else None
            cells.append(f"{own / other:.2f}" if own is not None and other else "–")
        rows.append([result.row.title, *cells])
    heads = ["load", *peers, "÷ nginx", "÷ best peer", "÷ floor"]
    return table(heads, rows, "l" + "r" * (len(heads) - 1))


def _cell(figure: Figure | None, unit: Unit) -> str:
    if figure is not None and figure.samples and figure.median is None:
        return "invalid"
    return number(None if figure is None else figure.median, unit)


def faults(run: Run) -> list[str]:
    """What was missing, and every fault of every row, with how many rounds it left."""
    lines = list(run.missing)
    for result in run.results:
        for figure in result.figures.values():
            rounds = f"{len(figure.clean)} of {len(figure.samples)} rounds clean"
            lines += [
                f"{result.row.key}, {figure.peer} ({rounds}): {fault}" for fault in figure.faults
            ]
    return lines


def fact_table(run: Run) -> str:
    """Machine facts, then the peers' and the load tools' versions."""
    return table(["", ""], list({**run.machine, **run.versions, **run.tools}.items()), "ll")


def round_table(results: Iterable[Result]) -> str:
    """Each round's figure; a struck-out one was spoilt. Rates are told and never compared."""
    rows: list[list[str]] = []
    for result in results:
        for figure in result.figures.values():
            values = [
                f"~~{number(s.value, result.row.unit)}~~"
                if s.fault
                else number(s.value, result.row.unit)
                for s in figure.samples
            ]
            switches = "–" if figure.switches is None else f"{figure.switches * 1000:.1f}"
            rate = "–" if figure.rate is None else f"{figure.rate:,.0f}"
            rows.append([result.row.key, figure.peer, " ".join(values), switches, rate])
    heads = ["row", "server", "rounds", "context switches per 1000 requests", "requests a second"]
    return table(heads, rows, "lllrr")


def load_table(results: Iterable[Result]) -> str:
    """The command of each row, or what the bench did itself."""
    rows = []
    for result in results:
        load = result.row.load
        if load.tool in ("wrk", "ab"):
            words = loads.command(load, "http://127.0.0.1:PORT", "SALT")
            done = "`" + " ".join(word.rpartition("/perf/")[2] for word in words) + "`"
        else:
            done = f"{load.connections} connections, {load.target}"
        rows.append([result.row.key, f"{done} ({result.row.method.value})"])
    return table(["row", "load"], rows, "ll")


def as_json(run: Run) -> str:
    """results.json: the same facts, every sample included."""
    rows = []
    for result in run.results:
        row = result.row
        figures = {
            name: {
                "median": figure.median,
                "low": min(figure.clean, default=None),
                "high": max(figure.clean, default=None),
                "context_switches_per_request": figure.switches,
                "requests_per_second": figure.rate,
                "faults": figure.faults,
                "rounds": [asdict(sample) for sample in figure.samples],
            }
            for name, figure in result.figures.items()
        }
        targets = [
            {
                "against": verdict.target.against or None,
                "peer": verdict.against or None,
                "at_most": verdict.target.at_most,
                "measured": verdict.measured,
                "reached": verdict.reached,
            }
            for verdict in result.verdicts
        ]
        rows.append(
            {
                "row": row.key,
                "title": row.title,
                "unit": row.unit.name.lower(),
                "log": row.log,
                "load": asdict(row.load),
                "figures": figures,
                "targets": targets,
            }
        )
    whole = {
        "generated": run.generated,
        "commit": run.commit,
        "rounds": run.rounds,
        "quick": run.quick,
        "cores": run.cores,
        "machine": dict(run.machine),
        "peers": {
            name: {"version": version, "config": run.configs.get(name, "")}
            for name, version in run.versions.items()
        },
        "tools": dict(run.tools),
        "missing": run.missing,
        "rows": rows,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
