"""What was seen becomes figures, and figures are held against what is wanted. Pure.

A phase's figures are those of its steady seconds. Memory of a connection is what server and
kernel hold beyond what the server held before its first client, by the number of clients;
so a server that keeps what it once took is charged for it. kB are 1000 octets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from perf.gigabit.mixed import CLIENTS, SIZE, Latency
from perf.gigabit.objects import FULL, Probe
from perf.gigabit.sample import Second
from perf.gigabit.servers import DEFAULT
from perf.targets import SUBJECT

PEER = "nginx"
USER_CPU = 0.05  # of a core
CONNECTION_KB = 24.0  # the French figure, and TARGETS'
MEMORY_BACK = 1.10  # × what it was
BESIDE_BULK = 3.0  # × what a small object takes alone
LINK_DRIFT = 0.01  # from the first third of a phase to its last
MEMORY_DRIFT = 0.05


@dataclass(frozen=True)
class Phase:
    """One crowd with one server. CPU in shares of a core, drifts as shares of the level."""

    clients: int
    seconds: float
    whole_after: float  # seconds until every client was being answered
    mb_per_s: float
    payload_mb_per_s: float
    drops_per_s: float
    user_cpu: float
    kernel_cpu: float
    softirq_cpu: float
    idle_cpu: float
    own_kb_per_connection: float
    sockets_kb_per_connection: float
    connections: int
    moving: float  # share of the clients that got something, in the worst second
    link_drift: float
    memory_drift: float

    @property
    def kb_per_connection(self) -> float:
        return self.own_kb_per_connection + self.sockets_kb_per_connection


@dataclass(frozen=True)
class Outcome:
    """All of one server; what was not measured is None or empty."""

    version: str
    config: str
    seconds: tuple[Second, ...] = ()
    crowds: tuple[int, ...] = ()
    alone: Latency | None = None
    beside: Latency | None = None
    smallest: int | None = None
    probes: tuple[Probe, ...] = ()
    page: Probe | None = None
    page_looked_at: Probe | None = None
    faults: tuple[str, ...] = ()

    @property
    def base(self) -> int | None:
        """Octets that the server held when it had rested, before its first crowd."""
        return next((s.memory for s in reversed(_rests(self.seconds, first=True))), None)

    @property
    def left(self) -> int | None:
        """The same after its last crowd and a rest."""
        return next((s.memory for s in reversed(_rests(self.seconds, first=False))), None)

    @property
    def phases(self) -> dict[int, Phase]:
        base = self.base
        if base is None:
            return {}
        found = {clients: phase(self.seconds, clients, base) for clients in self.crowds}
        return {clients: it for clients, it in found.items() if it is not None}


def _rests(seconds: Sequence[Second], first: bool) -> list[Second]:
    """The seconds of the rest that the course begins with, or of the one that it ends with."""
    found: list[Second] = []
    for second in seconds if first else reversed(seconds):
        if second.clients:
            break
        found.append(second)
    return found if first else found[::-1]


def phase(seconds: Sequence[Second], clients: int, base: int) -> Phase | None:
    """The figures of one crowd; None if it had no steady second."""
    own = [s for s in seconds if s.clients == clients]
    steady = [s for s in own if s.steady]
    if not steady:
        return None
    time = sum(s.seconds for s in steady)

    def rate(of: Callable[[Second], float]) -> float:
        return sum(of(s) * s.seconds for s in steady) / time

    return Phase(
        clients=clients,
        seconds=time,
        whole_after=sum(s.seconds for s in own if s.taking < clients),
        mb_per_s=rate(lambda s: s.wire) / 1e6,
        payload_mb_per_s=rate(lambda s: s.payload) / 1e6,
        drops_per_s=rate(lambda s: s.drops),
        user_cpu=rate(lambda s: s.user),
        kernel_cpu=rate(lambda s: s.kernel),
        softirq_cpu=rate(lambda s: s.softirq),
        idle_cpu=rate(lambda s: s.idle),
        own_kb_per_connection=(median(s.memory for s in steady) - base) / clients / 1000,
        sockets_kb_per_connection=median(s.sockets for s in steady) / clients / 1000,
        connections=min(s.connections for s in steady),
        moving=min(s.moving for s in steady) / clients,
        link_drift=drift([s.wire for s in steady]),
        memory_drift=drift([s.memory + s.sockets for s in steady]),
    )


def drift(values: Sequence[float]) -> float:
    """How far the last third lies from the first, as a share of the first; 0 if too short."""
    third = len(values) // 3
    if not third or not (first := fmean(values[:third])):
        return 0.0
    return fmean(values[-third:]) / first - 1


@dataclass(frozen=True)
class Verdict:
    """Something wanted of edgebox, held against the run; `reached` None: not measured."""

    what: str
    wanted: str
    measured: str
    reached: bool | None


def verdicts(outcomes: Mapping[str, Outcome]) -> list[Verdict]:
    """Everything that is wanted, in the order in which it is told."""
    own, peer = outcomes.get(SUBJECT), outcomes.get(PEER)
    found: list[Verdict] = []
    for name in (SUBJECT, DEFAULT):
        if name in outcomes:
            found += course_verdicts(name, outcomes[name], peer.phases if peer else {})
    if own is not None and own.alone is not None and own.beside is not None:
        found.append(_beside_bulk(own.alone, own.beside))
    if own is not None and own.page_looked_at is not None:
        found += page_verdicts(own.page_looked_at, peer.page_looked_at if peer else None)
    return found


def course_verdicts(name: str, own: Outcome, others: Mapping[int, Phase]) -> list[Verdict]:
    """Every crowd of one course, against the same of the peer."""
    found: list[Verdict] = []
    for clients, it in own.phases.items():
        found += phase_verdicts(f"{name}, {clients:,} clients", it, others.get(clients))
    if own.crowds:
        found.append(_memory_back(name, own))
    return found


def phase_verdicts(what: str, own: Phase, peer: Phase | None) -> list[Verdict]:
    """One phase against the same of the peer."""
    each = own.kb_per_connection
    return [
        _full(what, own.mb_per_s, peer.mb_per_s if peer else None),
        Verdict(
            what,
            f"user CPU ≤ {USER_CPU:.0%} of a core",
            f"{own.user_cpu:.1%}",
            own.user_cpu <= USER_CPU,
        ),
        Verdict(
            what,
            f"≤ {CONNECTION_KB:.0f} kB a connection",
            f"{each:,.1f} kB",
            each <= CONNECTION_KB,
        ),
        _at_most(what, "kB a connection", each, peer.kb_per_connection if peer else None, 1),
        Verdict(
            what,
            f"no drift: link within {LINK_DRIFT:.0%}, memory up by ≤ {MEMORY_DRIFT:.0%}",
            f"link {own.link_drift:+.1%}, memory {own.memory_drift:+.1%}",
            abs(own.link_drift) <= LINK_DRIFT and own.memory_drift <= MEMORY_DRIFT,
        ),
    ]


def page_verdicts(own: Probe, peer: Probe | None) -> list[Verdict]:
    """The page with one stat a request."""
    what = f"{own.size:,} B, a stat a request"
    if own.fault:
        return [Verdict(what, "answers without fault", own.fault, None)]
    return [
        _full(what, own.wire / 1e6, peer.wire / 1e6 if peer else None),
        Verdict(what, "no disk reads", f"{own.disk:,} octets", own.disk == 0),
        _at_most(
            what, "context switches a request", own.switches, peer.switches if peer else None, 3
        ),
    ]


def _memory_back(name: str, own: Outcome) -> Verdict:
    what, wanted = (
        f"{name}, after the last rest",
        f"memory ≤ {MEMORY_BACK:.2f} × that before the load",
    )
    if not own.base or own.left is None:
        return Verdict(what, wanted, "not measured", None)
    ratio = own.left / own.base
    measured = f"{ratio:.2f} × {own.base / 1e6:.1f} MB"
    return Verdict(what, wanted, measured, ratio <= MEMORY_BACK)


def _beside_bulk(alone: Latency, beside: Latency) -> Verdict:
    times = beside.p99 / alone.p99
    return Verdict(
        f"{SIZE:,} B beside {CLIENTS} downloads",
        f"p99 ≤ {BESIDE_BULK:.0f} × that alone",
        f"{1e3 * beside.p99:.2f} ms, {times:.1f} × {1e3 * alone.p99:.2f} ms",
        times <= BESIDE_BULK,
    )


def _full(what: str, own: float, peer: float | None) -> Verdict:
    wanted = f"link ≥ {FULL:.0%} of {PEER}'s"
    if not peer:
        return Verdict(what, wanted, f"{own:.1f} MB/s, no figure of {PEER}'s", None)
    measured = f"{own:.1f} MB/s, {own / peer:.1%}"
    return Verdict(what, wanted, measured, own >= FULL * peer)


def _at_most(what: str, of: str, own: float, peer: float | None, places: int) -> Verdict:
    wanted = f"{of} ≤ {PEER}'s"
    if peer is None:
        return Verdict(what, wanted, f"{own:,.{places}f}, no figure of {PEER}'s", None)
    return Verdict(what, wanted, f"{own:,.{places}f} against {peer:,.{places}f}", own <= peer)
