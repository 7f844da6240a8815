"""The run as text: GIGABIT.md for people, gigabit.json for programs. Pure.

Verdicts first, then the figures that they were worked out from, then what it takes to do it
again. The JSON has every second of every course besides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from perf.gigabit.mixed import CLIENTS, PAUSE, SIZE
from perf.gigabit.network import RATE
from perf.gigabit.objects import CONNECTIONS, FULL, Probe
from perf.gigabit.results import Outcome, Phase, Verdict, verdicts
from perf.gigabit.sample import Second
from perf.gigabit.servers import BELOW, LINK
from perf.report import fenced, folded, table

METHOD = f"""\
A French test of static gigabit serving, done again: one sparse file of 10 GB, downloaded by
crowds of clients at once, with a rest between. Server and clients are in two network namespaces
joined by a veth pair; the server's end is shaped to a gigabit. The servers take their turns in one
run, each alone on its core; the clients, one C program that throws away what comes, have
another.

Once a second: what the shaper let pass, as octets on Ethernet, headers included; CPU time of the
server's processes in user and kernel mode (/proc/PID/stat), and softirqs of its core, where
the kernel does much of its share; the server's anonymous and shared memory
(smaps_rollup); the kernel memory of its connections' sockets, from ss(8) in the server's own
namespace, which has none of the clients'; the memory in use on the whole system, clients
included and page cache apart. A connection's memory is the server's beyond what it held before
its first client, plus its socket's. Pages that sendfile lends to a socket from the page
cache count as the socket's, although they are no copies. kB are 1000 octets.

edgebox takes two turns. As `edgebox` it has `limits.server_rate = "{LINK}"`, a little less than
the link carries: `edgebox plan` advises to set it so where it knows the link's speed. As
`edgebox-default` it has no such limit, and neither have the others. For small objects and the
page, edgebox has none either.
"""


MECHANISM = f"""\
One kept connection asks for {SIZE:,} octets every {1e3 * PAUSE:.0f} ms, first alone, then while
{CLIENTS} clients download. `edgebox` sends within `limits.server_rate`, here {BELOW}, some less
than the link carries: what is long waits for its turn in edgebox, in pieces, with
TCP_NOTSENT_LOWAT keeping each connection's share of the kernel's buffers small; what is short
goes at once and finds the shaper's queue all but empty. The others, `edgebox-default` among
them, fill that queue, which is first in, first out.
"""


@dataclass(frozen=True)
class Run:
    """Everything that a report tells; `outcomes` by server, in the order of their turns."""

    generated: str
    commit: str
    seconds: float
    rest: float
    cores: str
    machine: Mapping[str, str]
    network: Mapping[str, str]
    missing: tuple[str, ...]
    outcomes: Mapping[str, Outcome]


def markdown(run: Run) -> str:
    """GIGABIT.md, whole."""
    source = f", edgebox at `{run.commit}`" if run.commit else ""
    told = (
        f"{run.generated}{source}, `make gigabit PHASE={run.seconds:g}`: {run.seconds:g} s a "
        f"crowd, {run.rest:g} s of rest. {run.cores}"
    )
    parts = ["# The gigabit", told, "![Throughput, memory and CPU over time](gigabit.svg)"]
    parts += [METHOD.strip(), "## Against what is wanted", verdict_table(verdicts(run.outcomes))]
    if any(outcome.phases for outcome in run.outcomes.values()):
        parts += ["## Crowd by crowd", phase_table(run.outcomes)]
        parts += ["## Memory before and after", memory_table(run.outcomes)]
    if any(outcome.beside for outcome in run.outcomes.values()):
        parts += ["## A small object beside bulk downloads", mixed_table(run.outcomes)]
    if any(outcome.probes for outcome in run.outcomes.values()):
        parts += ["## The smallest object that fills the link", object_table(run.outcomes)]
    if any(outcome.page or outcome.page_looked_at for outcome in run.outcomes.values()):
        parts += ["## The page of 26,890 octets", page_table(run.outcomes)]
    if spoilt := faults(run):
        parts += ["## Missing or spoilt", "\n".join(f"- {line}" for line in spoilt)]
    facts = {**run.machine, **run.network, **{n: o.version for n, o in run.outcomes.items()}}
    parts += ["## Machine, network and versions", table(["", ""], list(facts.items()), "ll")]
    parts += [
        folded(f"{name}: configuration", fenced(outcome.config))
        for name, outcome in run.outcomes.items()
    ]
    return "\n\n".join(parts) + "\n"


def verdict_table(found: Sequence[Verdict]) -> str:
    """Everything wanted, after a line that counts."""
    if not found:
        return "Nothing was measured that anything is wanted of."
    reached, missed, unknown = (
        sum(verdict.reached is state for verdict in found) for state in (True, False, None)
    )
    count = f"Of {len(found)}: {reached} reached, {missed} not reached"
    count += f", {unknown} not measured." if unknown else "."
    words = {True: "reached", False: "**not reached**", None: "not measured"}
    rows = [[v.what, v.wanted, v.measured, words[v.reached]] for v in found]
    return count + "\n\n" + table(["", "wanted", "measured", "verdict"], rows, "llrl")


def phase_table(outcomes: Mapping[str, Outcome]) -> str:
    """Every crowd with every server, crowds together."""
    crowds = sorted({clients for outcome in outcomes.values() for clients in outcome.phases})
    rows = [
        phase_row(name, outcome.phases[clients])
        for clients in crowds
        for name, outcome in outcomes.items()
        if clients in outcome.phases
    ]
    heads = [
        "clients", "server", "link MB/s", "bodies MB/s", "user CPU", "kernel CPU",
        "softirq, core idle", "kB a connection", "its process, its socket", "link, memory drift",
        "got some each second", "all there after",
    ]  # fmt: skip
    return table(heads, rows, "rl" + "r" * (len(heads) - 2))


def phase_row(name: str, it: Phase) -> list[str]:
    return [
        f"{it.clients:,}",
        name,
        f"{it.mb_per_s:.1f}",
        f"{it.payload_mb_per_s:.1f}",
        f"{it.user_cpu:.1%}",
        f"{it.kernel_cpu:.1%}",
        f"{it.softirq_cpu:.0%}, {it.idle_cpu:.0%}",
        f"{it.kb_per_connection:,.1f}",
        f"{it.own_kb_per_connection:,.1f}, {it.sockets_kb_per_connection:,.1f}",
        f"{it.link_drift:+.1%}, {it.memory_drift:+.1%}",
        f"{it.moving:.1%}",
        f"{it.whole_after:.0f} s",
    ]


def memory_table(outcomes: Mapping[str, Outcome]) -> str:
    """What each server held before its first crowd, and what after the last."""
    rows = [
        [name, f"{o.base / 1e6:.1f}", f"{o.left / 1e6:.1f}", f"{o.left / o.base:.2f} ×"]
        for name, o in outcomes.items()
        if o.base and o.left is not None
    ]
    return table(["server", "before, MB", "after a rest, MB", ""], rows, "lrrr")


def mixed_table(outcomes: Mapping[str, Outcome]) -> str:
    """What a small object takes alone and beside downloads."""
    rows = [
        [
            name,
            f"{1e3 * alone.median:.2f}, {1e3 * alone.p99:.2f}",
            f"{1e3 * beside.median:.2f}, {1e3 * beside.p99:.2f}",
            f"{beside.p99 / alone.p99:.1f} ×",
            f"{beside.wire / 1e6:.1f}",
        ]
        for name, outcome in outcomes.items()
        if (alone := outcome.alone) is not None and (beside := outcome.beside) is not None
    ]
    heads = [
        "server",
        "alone: median, p99 in ms",
        f"beside {CLIENTS}: the same",
        "p99",
        "link MB/s",
    ]
    return MECHANISM.strip() + "\n\n" + table(heads, rows, "lrrrr")


def object_table(outcomes: Mapping[str, Outcome]) -> str:
    """The smallest size for each server, and what was left over when it was a little smaller."""
    rows = []
    for name, outcome in outcomes.items():
        full = min((p for p in outcome.probes if p.full), key=lambda p: p.size, default=None)
        below = [p for p in outcome.probes if not p.full and (not full or p.size < full.size)]
        nearest = max(below, key=lambda p: (p.size, p.wire), default=None)
        if full is not None:
            cells = [f"{full.size:,}", f"{full.wire / 1e6:.1f}", f"{full.cpu / 1000:.1f}"]
        elif nearest is not None:
            cells = [f"more than {nearest.size:,}", "–", "–"]
        else:
            continue
        if nearest is not None:
            cells += [f"{nearest.size:,}", f"{nearest.wire / 1e6:.1f}", f"{nearest.idle:.0%}"]
        rows.append([name, *cells, *["–"] * (6 - len(cells))])
    said = f"One core, {CONNECTIONS} kept connections, access log on; full is {FULL:.0%} of "
    said += f"{RATE / 1e6:.0f} MB/s as the shaper counts. Where the server's core had time left "
    said += "and the link was not full, the load tool was the limit."
    heads = ["server", "octets", "link MB/s", "CPU µs a request"]
    heads += ["not full at", "link MB/s", "core idle"]
    return said + "\n\n" + table(heads, rows, "l" + "r" * 6)


def page_table(outcomes: Mapping[str, Outcome]) -> str:
    """The page as it is usually served, and with one stat a request."""
    rows = [
        page_row(name, how, probe)
        for how, pick in (("remembered", "page"), ("a stat a request", "page_looked_at"))
        for name, outcome in outcomes.items()
        if (probe := getattr(outcome, pick)) is not None
    ]
    heads = ["file", "server", "link MB/s", "requests", "CPU µs a request"]
    heads += ["context switches a request", "octets read from disk"]
    return table(heads, rows, "ll" + "r" * 5)


def page_row(name: str, how: str, it: Probe) -> list[str]:
    return [
        how,
        name,
        f"{it.wire / 1e6:.1f}" if not it.fault else "invalid",
        f"{it.requests:,}",
        f"{it.cpu / 1000:.1f}",
        f"{it.switches:.3f}",
        f"{it.disk:,}",
    ]


def faults(run: Run) -> list[str]:
    """What was missing, and what went wrong with whom."""
    lines = list(run.missing)
    for name, outcome in run.outcomes.items():
        lines += [f"{name}: {fault}" for fault in outcome.faults]
        for probe in (outcome.page, outcome.page_looked_at):
            if probe is not None and probe.fault:
                lines.append(f"{name}, page: {probe.fault}")
    return lines


def as_json(run: Run) -> str:
    """gigabit.json: servers → phases → figures, and each course as a list for each column."""
    whole = {
        "generated": run.generated,
        "commit": run.commit,
        "phase_seconds": run.seconds,
        "rest_seconds": run.rest,
        "cores": run.cores,
        "machine": dict(run.machine),
        "network": dict(run.network),
        "missing": run.missing,
        "servers": {name: server_json(outcome) for name, outcome in run.outcomes.items()},
        "verdicts": [asdict(verdict) for verdict in verdicts(run.outcomes)],
    }
    return json.dumps(rounded(whole), indent=1, ensure_ascii=False) + "\n"


def server_json(outcome: Outcome) -> dict[str, object]:
    """One server: its figures, and every second in columns."""
    base, left = outcome.base, outcome.left
    return {
        "version": outcome.version,
        "config": outcome.config,
        "phases": {
            str(clients): {**asdict(it), "kb_per_connection": it.kb_per_connection}
            for clients, it in outcome.phases.items()
        },
        "memory": {"before": base, "after": left, "ratio": left / base if base and left else None},
        "small_object_alone": asdict(outcome.alone) if outcome.alone else None,
        "small_object_beside_bulk": asdict(outcome.beside) if outcome.beside else None,
        "smallest_object": outcome.smallest,
        "objects": [asdict(probe) for probe in outcome.probes],
        "page": asdict(outcome.page) if outcome.page else None,
        "page_a_stat_a_request": asdict(outcome.page_looked_at) if outcome.page_looked_at else None,
        "faults": outcome.faults,
        "seconds": {
            column.name: [getattr(second, column.name) for second in outcome.seconds]
            for column in fields(Second)
        },
    }


def rounded(value: object) -> object:
    """The same with fractions cut to what was measured: four significant places or so."""
    if isinstance(value, float):
        return round(value, 4) if abs(value) < 1000 else round(value)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value
