"""How large the server is made: the machine's facts, the plan, and what each worker gets of it.

The facts come from a short-lived child, for pyroute2 has no business in a process that stays;
while it looks around, the planner is imported. Where it fails or takes too long, /proc and
/sys tell less, and the server starts all the same. Knows neither sockets nor workers: it
turns a configuration into one in which nothing is left to decide.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from edgebox.config.schema import Config
from edgebox.config.settle import look_at_machine, settle
from edgebox.config.upstreams import Upstream
from edgebox.plan.facts import Facts, FactsError
from edgebox.plan.family import resident
from edgebox.plan.gather import Subject, gather
from edgebox.plan.gathering import Gathering

if TYPE_CHECKING:
    from edgebox.plan.assumptions import Overrides
    from edgebox.plan.figures import Plan

PATIENCE = 2.0  # seconds for the child; it needs 0.4


@dataclass(frozen=True, slots=True)
class Sized:
    """A plan and what it makes of a configuration."""

    asked: Config  # as the operator wrote it
    plan: Plan
    facts: Facts
    whole: Config  # nothing left to decide, for the whole box
    worker: Config  # one worker's share of it
    reasons: Mapping[tuple[str, str], str]  # why each key that was auto is what it is

    @property
    def workers(self) -> int:
        return self.whole.server.workers or 1

    def summary(self) -> str:
        """One line for the log."""
        from edgebox.plan.report import brief

        return brief(self.plan)


def size(config: Config, facts: Facts | None = None, overrides: Overrides | None = None) -> Sized:
    """`config` fitted to the machine, or to the one that `facts` tell of.

    `overrides` are measurements, which go before what the file says.
    """
    looking = None if facts is not None else _look(config)
    # Here, not above: 40 ms in which the child is already at work.
    from edgebox.plan.planner import NO_OVERRIDES, apply, plan, reasons

    if facts is None:
        facts = with_ours(_finish(looking, config), resident(os.getpid()))
    found = plan(facts, config, overrides or NO_OVERRIDES)
    whole = settle(apply(found, config), look_at_machine())
    why = reasons(found, config)
    return Sized(config, found, facts, whole, share(whole, whole.server.workers or 1), why)


def subject(config: Config) -> Subject:
    """What the machine is looked at for."""
    return Subject(
        listen=config.server.listen,
        roots=tuple(dict.fromkeys(site.root for site in config.site if site.root)),
        cache=config.cache.dir or config.compression.dir or look_at_machine().cache,
        interface=config.nic.interface,
    )


def with_ours(facts: Facts, held: int) -> Facts:
    """Memory that our own processes hold counts as available: the plan is for them, too.

    Without this, a server that has filled its RAM would be planned smaller at each reload.
    """
    memory = facts.memory
    available, used = memory.available, memory.cgroup_used
    if available is not None:
        most = available + held
        available = most if memory.total is None else min(most, memory.total)
    if used is not None:
        used = max(0, used - held)
    return replace(facts, memory=replace(memory, available=available, cgroup_used=used))


def share(whole: Config, workers: int) -> Config:
    """One worker's part of a settled configuration.

    What all workers together may have is divided, and never falls to nothing; what is said of
    one client, one answer or the one directory on disk is the same for each. A client address
    whose connections are spread over several workers may so get `client_rate` from each: to
    divide it would slow down the many that have a single connection.
    """

    def part(number: int | None) -> int | None:
        return number and max(1, number // workers)

    limits, files = whole.limits, whole.files
    return replace(
        whole,
        limits=replace(
            limits,
            connections=part(limits.connections),
            server_rate=part(limits.server_rate) or 0,
        ),
        files=replace(
            files,
            working_set=part(files.working_set),
            open_files=part(files.open_files),
            watches=part(files.watches),
        ),
        upstream={
            name: _share_of_upstream(upstream, workers) for name, upstream in whole.upstream.items()
        },
    )


def _share_of_upstream(upstream: Upstream, workers: int) -> Upstream:
    """Its servers bear so many connections, whoever opens them."""

    def part(number: int) -> int:
        return number and max(1, number // workers)

    return replace(
        upstream,
        connections=part(upstream.connections),
        queue=part(upstream.queue),
        keep_alive=part(upstream.keep_alive),
    )


def _look(config: Config) -> Gathering | None:
    """A child at work; None where the file leaves it nothing to find out, or none can be had."""
    if _all_said(config):
        return None
    try:
        return Gathering(subject(config))
    except OSError:
        return None


def _finish(looking: Gathering | None, config: Config) -> Facts:
    if looking is not None:
        try:
            return looking.finish(PATIENCE)
        except (OSError, subprocess.SubprocessError, FactsError):
            pass  # what it could not tell, the plan names as unknown
    return gather(subject(config), netlink=False)


def _all_said(config: Config) -> bool:
    """Whether no number hangs on what only netlink tells."""
    return None not in (
        config.server.workers,
        config.server.backlog,
        config.limits.connections,
        config.limits.send_buffer,
        config.files.working_set,
        config.files.open_files,
    )
