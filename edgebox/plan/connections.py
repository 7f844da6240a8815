"""How many workers, connections and descriptors, and what hangs on their number.

Pure. Numbers are for the whole box; a worker gets its share of them. None of them falls
when memory or the link grows, which is why each is the least of fixed parts.
"""

from __future__ import annotations

import math

from edgebox.plan import assumptions
from edgebox.plan.assumptions import HELPER, SUPERVISOR, WORKER
from edgebox.plan.basis import Basis
from edgebox.plan.descriptors import fitting, taken
from edgebox.plan.facts import Record
from edgebox.plan.figures import Input, Number, Origin, Resource, chosen, whole
from edgebox.plan.quantity import count, many, rate, seconds, significant, size
from edgebox.plan.shares import Shares
from edgebox.plan.throughput import answers, busy_cores, lane_microseconds

MOST_WORKERS = 32  # that the supervisor manages, so that a reload may have twice as many
OPEN_FILES = 4096  # of one worker; more large files than these are not hot at once


def workers(basis: Basis, shares: Shares | None) -> Number:
    """Enough to fill the link even if no request took the express lane; one a core at most.

    Fewer workers hold fewer copies of the working set, so none is started for show.
    """
    cores = min(basis.whole_cores, MOST_WORKERS)
    room = cores if shares is None else max(1, (shares.processes - SUPERVISOR) // WORKER)
    carried = answers(basis)
    if carried is None:
        value, text = min(cores, room), f"min({many(cores, 'core')}; {room} fit in memory)"
        reason = "one a core, because the link's speed is unknown"
    else:
        each = basis.costs.task + basis.costs.byte / 1000 * basis.object_size
        demand = carried * each / 1e6
        value = max(1, min(math.ceil(demand), cores, room))
        text = (
            f"{count(carried)}/s × {significant(each)} µs = {significant(demand)} cores;"
            f" min({math.ceil(demand):,}; {many(cores, 'core')}; {room} fit in memory)"
        )
        reason = "enough to fill the link even if every request took the slow path"
    planned = Number(
        key="server.workers",
        value=value,
        reason=reason,
        sum=f"{text} = {value}",
        inputs=basis.cite("cores", "cores allowed", "cpu quota", "µs a request in a task",
                          "ns a byte", "mean object", "nic.speed"),
    )  # fmt: skip
    return chosen(planned, basis.workers)


def helpers(basis: Basis, shares: Shares | None, running: Number) -> Number:
    """Compression helpers are niced, so one does no harm; idle cores allow more."""
    if not basis.config.compression.enabled:
        return Number(key="compression.helpers", value=0, reason="compression is switched off")
    idle = max(0, basis.whole_cores - whole(running))
    wanted = max(1, min(4, idle // 2))
    taken = SUPERVISOR + whole(running) * WORKER
    room = wanted if shares is None else max(0, shares.processes - taken) // HELPER
    value = min(wanted, room)
    return Number(
        key="compression.helpers",
        value=value,
        reason="niced, so they take what workers leave; more than one where cores are idle"
        if value
        else f"no room for one, which takes {size(HELPER)}: only ready-made variants are served",
        sum=f"min({many(idle, 'idle core')} ÷ 2, from 1 to 4: {wanted};"
        f" {room} fit in memory) = {value}",
        inputs=basis.cite("cores", "cores allowed", "cpu quota"),
    )


def open_files(basis: Basis, running: Number) -> Number:
    """Descriptors kept for files too large for the working set."""
    each = min(OPEN_FILES, basis.descriptors // 8)
    value = whole(running) * each
    planned = Number(
        key="files.open_files",
        value=value,
        reason="large files kept open for sendfile: an eighth of the descriptors, in all workers",
        sum=f"{count(whole(running))} × min({OPEN_FILES:,}; {basis.descriptors:,} ÷ 8) = {value:,}",
        inputs=basis.cite("descriptors a process"),
    )
    return chosen(planned, basis.config.files.open_files)


class Slots(Record, frozen=True, kw_only=True):
    """Connections that each resource allows; None where it sets no limit, or an unknown one."""

    memory: int | None
    descriptors: int
    fitted: str  # how a worker's descriptors are shared out, as the end of a sum
    system: int | None
    link: int | None
    kept: int  # descriptors of a worker that are not for connections
    files: int


def slots(basis: Basis, shares: Shares | None, running: Number, kept_open: Number) -> Slots:
    """What memory, descriptors and the link allow."""
    count_of_workers = max(1, whole(running))
    kept = min(basis.demand.kept, basis.descriptors // 4)
    files = math.ceil(whole(kept_open) / count_of_workers)
    slowest = basis.config.limits.send_rate
    room = max(0, basis.descriptors - kept - files)
    each, fitted = fitting(room, basis.demand, count_of_workers)
    return Slots(
        memory=None if shares is None else shares.connections // basis.connection_size,
        descriptors=count_of_workers * each,
        fitted=fitted,
        system=None if basis.file_max is None else basis.file_max // 2,
        link=None if basis.goodput is None or not slowest else int(basis.goodput / slowest),
        kept=kept,
        files=files,
    )


def connections(basis: Basis, shares: Shares | None, running: Number, allowed: Slots) -> Number:
    """The most connections at once."""
    lines = [
        f"descriptors: {whole(running)} × ({basis.descriptors:,} − {allowed.kept} −"
        f" {allowed.files:,} files{allowed.fitted} = {allowed.descriptors:,}"
    ]
    if allowed.system is not None:
        lines.append(f"fs.file-max: {basis.file_max:,} ÷ 2 = {allowed.system:,}")
    if allowed.link is not None and basis.goodput is not None:
        lines.append(
            f"link: {rate(basis.goodput)} ÷ send_rate {rate(basis.config.limits.send_rate)}"
            f" = {allowed.link:,}"
        )
    known: dict[str, int] = {"the descriptors": allowed.descriptors}
    if allowed.system is not None:
        known["fs.file-max"] = allowed.system
    if allowed.link is not None:
        known["the link, which would give each less than limits.send_rate"] = allowed.link
    origin: Origin = "planned"
    if shares is not None and allowed.memory is not None:
        known["memory"] = allowed.memory
        lines.insert(
            0,
            f"memory: {size(shares.rest)} ÷ 4 ÷ {size(basis.connection_size)} = {allowed.memory:,}",
        )
    else:
        origin, known["caution, for memory is unknown"] = "assumed", assumptions.CONNECTIONS
        lines.insert(0, f"memory unknown: {assumptions.CONNECTIONS:,}")
    limit = min(known, key=lambda name: known[name])
    value = max(1, known[limit])
    planned = Number(
        key="limits.connections",
        value=value,
        origin=origin,
        reason=f"limited by {limit}",
        sum="\n".join([*lines, f"the least of these = {value:,}"]),
        inputs=basis.cite("memory.available", "cgroup limit", "a connection",
                          "descriptors a process", "connections upstream", "fs.file-max",
                          "nic.speed", "limits.send_rate"),
    )  # fmt: skip
    return chosen(planned, basis.config.limits.connections)


def slot_ceilings(basis: Basis, allowed: Slots) -> dict[Resource, int]:
    """What of it can run out under load; a limit set by the operator is one more."""
    found: dict[Resource, int] = {"descriptors": allowed.descriptors}
    if allowed.memory is not None:
        found["memory for connections"] = allowed.memory
    if basis.config.limits.connections is not None:
        found["connection limit"] = basis.config.limits.connections
    return found


def dependents(
    basis: Basis, shares: Shares | None, running: Number, most: Number, allowed: Slots
) -> tuple[Number, ...]:
    """What hangs on the number of connections and workers."""
    return (
        _descriptors(basis, running, most, allowed),
        _backlog(basis),
        _send_buffer(basis, shares),
        _keep_alive(basis, running, most),
        _watches(basis, running),
        _ports(basis),
    )


def _descriptors(basis: Basis, running: Number, most: Number, allowed: Slots) -> Number:
    """REUSEPORT spreads by hash, so that a worker may get more than its share: all of them."""
    number = whole(most)
    others = taken(number, basis.demand, max(1, whole(running))) - number
    value = min(basis.descriptors, allowed.kept + allowed.files + number + others)
    return Number(
        key="server.descriptors",
        value=value,
        reason="each worker raises its own soft limit to this, which needs no privilege",
        sum=f"min(hard limit {basis.descriptors:,}; {allowed.kept} + {allowed.files:,} files"
        f" + {number:,} connections{f' + {others:,} upstream and on disk' if others else ''})"
        f" = {value:,}",
        inputs=basis.cite("descriptors a process", "connections upstream"),
    )


def _backlog(basis: Basis) -> Number:
    """Not bounded by the connections: who is one too many is to hear so, at once, and for that
    he must get in."""
    busy = assumptions.BACKLOG * assumptions.CONNECT_MICROSECONDS / 1e6
    value = max(1, min(basis.somaxconn, assumptions.BACKLOG))
    planned = Number(
        key="server.backlog",
        value=value,
        reason=f"connections that may wait while a worker is busy; {assumptions.BACKLOG:,} take"
        f" {seconds(busy)} to accept and answer",
        sum=f"min(somaxconn {basis.somaxconn:,}; {assumptions.BACKLOG:,}) = {value:,}",
        inputs=(
            *basis.cite("somaxconn"),
            Input(name="a connection's work", value=assumptions.CONNECT_MICROSECONDS, unit="µs",
                  source="measured on a prototype, 2026-11-30"),
        ),
    )  # fmt: skip
    return chosen(planned, basis.config.server.backlog)


def _send_buffer(basis: Basis, shares: Shares | None) -> Number:
    """What is on its way to a client the kernel bounds by itself; this is what waits to be sent."""
    turn = assumptions.SENDING_TURN
    parts = [f"tcp_wmem {size(basis.tcp_wmem)}"]
    bounds = [basis.tcp_wmem]
    if basis.goodput is not None:
        lasting = math.ceil(basis.goodput * turn)
        parts.insert(0, f"{rate(basis.goodput)} × {seconds(turn)} = {size(lasting)}")
    else:
        lasting = assumptions.SEND_BUFFER
        parts.insert(0, f"{size(lasting)} for a link of unknown speed")
    bounds.append(lasting)
    if shares is not None:
        stalled = shares.rest // 8 // assumptions.STALLED
        parts.append(
            f"an eighth of memory {size(shares.rest // 8)} ÷ {assumptions.STALLED:,} clients that"
            f" stopped reading = {size(stalled)}"
        )
        bounds.append(stalled)
    value = max(assumptions.LEAST_SEND_BUFFER, min(bounds))
    planned = Number(
        key="limits.send_buffer",
        value=value,
        unit="bytes",
        reason=f"of an answer, in the kernel and not yet sent: what a full link sends in"
        f" {seconds(turn)}, while a worker is busy with others",
        sum=f"min({'; '.join(parts)}), at least {size(assumptions.LEAST_SEND_BUFFER)}"
        f" = {size(value)}",
        inputs=basis.cite("nic.speed", "tcp_wmem", "memory.available", "cgroup limit"),
    )
    return chosen(planned, basis.config.limits.send_buffer)


def _keep_alive(basis: Basis, running: Number, most: Number) -> Number:
    """At the highest rate of newcomers, places must come free as fast as they are taken."""
    cores = busy_cores(basis, whole(running))
    served = cores * 1e6 / lane_microseconds(basis, basis.object_size)
    carried = answers(basis)
    arriving = served if carried is None else min(served, carried)
    idle = basis.config.limits.keep_alive_idle
    lasting = whole(most) / arriving
    value = round(min(idle, max(1.0, lasting)), 1)
    return Number(
        key="limits.keep_alive_pressure",
        value=value,
        unit="s",
        reason="how long an idle connection may stay when places run short: newcomers at the"
        " highest rate then find one",
        sum=f"{whole(most):,} ÷ {count(arriving)}/s = {seconds(round(lasting, 3))};"
        f" between 1 s and keep_alive_idle {seconds(idle)} = {seconds(value)}",
        inputs=basis.cite("limits.keep_alive_idle", "mean object", "nic.speed", "µs a request"),
    )


def _watches(basis: Basis, running: Number) -> Number:
    value = basis.watches // 4
    shared = f", among {whole(running)} workers" if whole(running) > 1 else ""
    planned = Number(
        key="files.watches",
        value=value,
        reason=f"a quarter of what the user may have: others watch too{shared}",
        sum=f"{basis.watches:,} ÷ 4 = {value:,}",
        inputs=basis.cite("max_user_watches"),
    )
    return chosen(planned, basis.config.files.watches)


def _ports(basis: Basis) -> Number:
    return Number(
        key="upstream.connections",
        value=basis.ports,
        origin="assumed" if basis.ports is None else "planned",
        reason="to one app server's address at once: a local port each",
        sum="" if basis.ports is None else f"ip_local_port_range holds {basis.ports:,}",
        inputs=basis.cite("local ports"),
    )
