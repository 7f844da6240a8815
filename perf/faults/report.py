"""The run as text: FAULTS.md for people, faults.json for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from perf.faults.outcome import Figure, Load, Outcome
from perf.report import table

TITLES = {
    "killing": "Each process killed at random",
    "disk": "The disk full, and free again",
    "descriptors": "No descriptors, then a flood of connections",
    "clock": "The wall clock set back, set forward, stopped",
    "logs": "The access log's pipe full",
    "reloads": "Reloads in a row",
    "upgrades": "Upgrades in a row",
    "scaling": "One worker, two workers",
}
ABOUT = {
    "killing": """\
SIGKILL to a worker, the housekeeper of the disk cache, a compression helper or the app, drawn by
lot, a pause of 1 to 4 seconds between; what has not recovered is not drawn again. A worker is
stopped for a moment before, to note whose connections it has. The supervisor replaces a worker
at once the first time; one that dies again before it has served for ten seconds waits 1, 2, 4,
then 8 seconds. Housekeeper and helper wait 1, 2, 4 … seconds. The app is started again half a
second after its death; what is added to that is what its upstream waits before it asks again.""",
    "disk": """\
Disk cache, compressed variants and logs lie on a tmpfs of 32 MB, which is filled to the last
octet and kept so, while answers expire and new files appear; then it is freed.""",
    "descriptors": """\
RLIMIT_NOFILE of both workers is set to what they have open, so that nothing more can be
opened, while clients come and go; then the limit is put back. After that, 1,500 connections at
once where 300 are let in.""",
    "clock": """\
CLOCK_REALTIME of all processes of the box is answered by a small preloaded library. A client asks
again and again for an answer that may be two seconds old; the app has put into it when it
was made, by CLOCK_BOOTTIME.""",
    "logs": """\
The access log is a named pipe of 4096 octets whose reader stops, then reads on; after that,
/dev/full. `log.backlog` is 64 KiB in the first case.""",
    "reloads": """\
`edgebox reload`, each as soon as the one before is done, under 200 kept connections that ask some
500 times a second.""",
    "upgrades": """\
`edgebox upgrade`, each as soon as the new supervisor has the control socket; the same load.""",
    "scaling": """\
wrk with 64 kept connections a core on a file of 442 octets, access log on. Each worker shares one
core with a wrk of its own, since two cores leave none for the load alone: so a worker has some half
of a core. The better of two rounds each.""",
}

RECOVERIES = ("until another", "goes on after", "is answered after")  # figures that tell of one


@dataclass(frozen=True)
class Run:
    """Everything that a report tells; `command` is what does it again, in `took` seconds."""

    generated: str
    commit: str
    command: str
    took: float
    shared: bool
    machine: Mapping[str, str]
    missing: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def markdown(run: Run) -> str:
    """FAULTS.md, whole."""
    source = f", edgebox at `{run.commit}`" if run.commit else ""
    told = f"{run.generated}{source}, `{run.command}`, which took {run.took / 60:.1f} minutes."
    if run.shared:
        told += (
            " **The machine was in use by others meanwhile**: what was sent, lost and wrong "
            "stands, times are longer than they would be alone."
        )
    method = (
        "A real `edgebox serve` of two workers, with a site of files and a cached app behind it. "
        "Clients on kept connections check every body octet for octet and count: right; a status "
        "that says whose fault it is (502, 503, 504); wrong, which is anything else; lost, which "
        "is a request that was sent and got no whole answer. Lost as it must be is what a killed "
        "process had in hand, and what met the closing of an idle connection on its way where "
        "room had to be made."
    )
    parts = ["# What edgebox does when something breaks", told, method, load_table(run.outcomes)]
    parts += ["## What is promised", promise_table(run.outcomes)]
    for outcome in run.outcomes:
        parts += [f"## {TITLES[outcome.key]}", ABOUT[outcome.key], figure_table(outcome.figures)]
        if outcome.load is not None and outcome.load.mishaps:
            parts.append("\n".join(f"- {line}" for line in outcome.load.mishaps))
    if run.missing:
        parts += ["## Missing", "\n".join(f"- {line}" for line in run.missing)]
    parts += ["## Machine", table(["", ""], list(run.machine.items()), "ll")]
    return "\n\n".join(parts) + "\n"


def summary(run: Run) -> str:
    """For RESULTS.md: what was sent and lost, and how soon all was well again."""
    source = f", edgebox at `{run.commit}`" if run.commit else ""
    told = f"{run.generated}{source}. [FAULTS.md](FAULTS.md) has what was done, and every promise."
    times = [
        [TITLES[it.key], figure.what, number(figure)]
        for it in run.outcomes
        for figure in it.figures
        if figure.unit == "s" and any(words in figure.what for words in RECOVERIES)
    ]
    heads = ["", "recovered", "s"]
    return "\n\n".join((told, load_table(run.outcomes), table(heads, times, "llr")))


def load_table(outcomes: Sequence[Outcome]) -> str:
    """The counts of every load."""
    heads = ["", "clients", "sent", "right", "named status", "lost", "of these as it must be",
             "wrong", "refused", "longest wait, s"]  # fmt: skip
    rows = [[TITLES[it.key], *load_row(it.load)] for it in outcomes if it.load is not None]
    return table(heads, rows, "l" + "r" * (len(heads) - 1))


def load_row(it: Load) -> list[str]:
    named = ", ".join(f"{count:,} × {status}" for status, count in it.named.items()) or "0"
    return [
        f"{it.clients:,}", f"{it.sent:,}", f"{it.right:,}", named, f"{it.lost:,}",
        f"{it.lost - it.unexplained:,}", f"{it.wrong:,}", f"{it.refused:,}", f"{it.longest_s:.2f}",
    ]  # fmt: skip


def promise_table(outcomes: Sequence[Outcome]) -> str:
    """Every promise, after a line that counts."""
    made = [(TITLES[it.key], promise) for it in outcomes for promise in it.promises]
    kept = sum(promise.kept for _, promise in made)
    rows = [
        [title, promise.what, promise.found, "kept" if promise.kept else "**broken**"]
        for title, promise in made
    ]
    count = f"Of {len(made)}: {kept} kept, {len(made) - kept} broken."
    return count + "\n\n" + table(["", "promise", "found", ""], rows, "lll" + "l")


def figure_table(figures: Sequence[Figure]) -> str:
    return table(["", "", ""], [[it.what, number(it), it.unit] for it in figures], "lrl")


def number(figure: Figure) -> str:
    """Counts whole, measures with two decimals unless they are large."""
    if not figure.unit or figure.value >= 1000:
        return f"{figure.value:,.0f}"
    return f"{figure.value:,.2f}"


def broken(outcomes: Sequence[Outcome]) -> list[str]:
    """The promises that were not kept, a line each."""
    return [
        f"{TITLES[it.key]}: {promise.what}: {promise.found}"
        for it in outcomes
        for promise in it.promises
        if not promise.kept
    ]


def as_json(run: Run) -> str:
    return json.dumps(asdict(run), indent=1, ensure_ascii=False) + "\n"
