"""How memory is shared out.

Pure. First the processes, reserved as if every core had a worker, so that the true number of
workers moves no other share. Of the rest a half goes to objects, at most a quarter to
connections, at most an eighth to the kernel's socket buffers, and whatever those leave is
page cache. Each share is a fixed part, so more memory never makes any of them smaller, and
the link's speed touches only the buffers.
"""

from __future__ import annotations

from edgebox.plan.assumptions import HELPER, MIB, SUPERVISOR, WORKER, WORKING_SET
from edgebox.plan.basis import Basis
from edgebox.plan.facts import Record
from edgebox.plan.figures import Number, chosen, whole
from edgebox.plan.quantity import seconds, size, written

LEAST = SUPERVISOR + WORKER  # less than this, and edgebox itself does not fit


class Shares(Record, frozen=True, kw_only=True):
    """Bytes at most for each purpose; their sum is at most `budget` where LEAST fits in it."""

    budget: int
    processes: int
    objects: int
    connections: int
    buffers: int

    @property
    def rest(self) -> int:
        """What the processes leave."""
        return self.budget - self.processes


def share(basis: Basis) -> Shares | None:
    """The shares, or None where memory is unknown."""
    if basis.memory is None:
        return None
    wanted = SUPERVISOR + WORKER * basis.whole_cores + HELPER
    processes = min(basis.memory, max(min(wanted, basis.memory * 2 // 5), LEAST))
    rest = basis.memory - processes
    return Shares(
        budget=basis.memory,
        processes=processes,
        objects=rest // 2 // MIB * MIB,
        connections=rest // 4,
        buffers=min((rest // 8, *_useful_buffers(basis))),
    )


def _useful_buffers(basis: Basis) -> tuple[int, ...]:
    """More than these the kernel would not use: twice the link's pipe, and tcp_mem."""
    pipe = () if basis.goodput is None else (int(2 * basis.goodput * basis.round_trip),)
    return (*pipe, *(() if basis.tcp_mem is None else (basis.tcp_mem,)))


def memory_numbers(
    basis: Basis, shares: Shares | None, workers: Number, helpers: Number, connections: Number
) -> tuple[Number, ...]:
    """The table's rows about memory."""
    processes = SUPERVISOR + whole(workers) * WORKER + whole(helpers) * HELPER
    counted = Number(
        key="memory.processes",
        value=processes,
        unit="bytes",
        reason="the supervisor, the workers and the compression helpers themselves",
        sum=f"{size(SUPERVISOR)} + {whole(workers)} × {size(WORKER)}"
        f" + {whole(helpers)} × {size(HELPER)} = {size(processes)}",
    )
    if shares is None:
        return (_unknown_budget(), counted, _unknown_working_set(basis))
    objects = _objects(basis, shares)
    working_set = chosen(_working_set(shares, whole(workers)), basis.config.files.working_set)
    held = whole(connections) * basis.connection_size
    return (
        Number(
            key="memory.budget",
            value=shares.budget,
            unit="bytes",
            reason="what edgebox may use without pushing anyone out",
            sum=basis.memory_sum,
            inputs=basis.cite(
                "memory.available", "memory.total", "cgroup limit", "cgroup used", "plan.memory"
            ),
        ),
        counted,
        objects,
        working_set,
        Number(
            key="memory.connections",
            value=held,
            unit="bytes",
            reason="kept back for connections, kernel memory included",
            sum=f"{whole(connections):,} × {size(basis.connection_size)} = {size(held)}",
            inputs=basis.cite("a connection"),
        ),
        _buffers(basis, shares),
        _page_cache(shares, processes, whole(working_set), held),
    )


def _objects(basis: Basis, shares: Shares) -> Number:
    return Number(
        key="memory.objects",
        value=shares.objects,
        unit="bytes",
        reason="one ledger for the working set and the cache: half of what processes leave;"
        " a limit, for what it does not hold is page cache",
        sum=f"({size(shares.budget)} − {size(shares.processes)} for a worker on every core) ÷ 2"
        f" = {size(shares.objects)}",
        inputs=basis.cite("memory.available", "memory.total", "cgroup limit", "cores"),
    )


def _working_set(shares: Shares, workers: int) -> Number:
    each = f"; each of {workers} workers holds its part of it" if workers > 1 else ""
    return Number(
        key="files.working_set",
        value=shares.objects,
        unit="bytes",
        reason=f"hot files and answers, given without the disk: all of memory.objects{each}",
        sum=f"memory.objects = {size(shares.objects)}",
    )


def _buffers(basis: Basis, shares: Shares) -> Number:
    parts = [f"{size(shares.rest)} ÷ 8 = {size(shares.rest // 8)}"]
    if basis.goodput is not None:
        pipe = int(2 * basis.goodput * basis.round_trip)
        parts.append(
            f"2 × {written(basis.goodput, 'bytes/s')} × {seconds(basis.round_trip)} = {size(pipe)}"
        )
    if basis.tcp_mem is not None:
        parts.append(f"tcp_mem {size(basis.tcp_mem)}")
    return Number(
        key="memory.kernel_buffers",
        value=shares.buffers,
        unit="bytes",
        reason="bytes on their way to clients: the link's pipe twice over, an eighth at most",
        sum=f"min({'; '.join(parts)}) = {size(shares.buffers)}",
        inputs=basis.cite("nic.speed", "round trip", "tcp_mem"),
    )


def _page_cache(shares: Shares, processes: int, working_set: int, held: int) -> Number:
    left = max(0, shares.budget - processes - working_set - held - shares.buffers)
    return Number(
        key="memory.page_cache",
        value=left,
        unit="bytes",
        reason="what is left: the kernel keeps large files in it, for sendfile",
        sum=f"{size(shares.budget)} − {size(processes)} − {size(working_set)} − {size(held)}"
        f" − {size(shares.buffers)} = {size(left)}",
    )


def _unknown_budget() -> Number:
    return Number(
        key="memory.budget",
        value=None,
        unit="bytes",
        origin="assumed",
        reason="neither /proc/meminfo nor a control group tells: the numbers are cautious",
    )


def _unknown_working_set(basis: Basis) -> Number:
    planned = Number(
        key="files.working_set",
        value=WORKING_SET,
        unit="bytes",
        origin="assumed",
        reason="memory is unknown: little enough for any box that can run edgebox",
    )
    return chosen(planned, basis.config.files.working_set)
