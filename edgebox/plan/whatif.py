"""Another machine than the one there is: "nic=10G,ram=64G", before money is spent.

Pure. A change touches the facts that such a purchase would change, and no others: more RAM
keeps what others use of the old, and lifts a control group's limit only if it says so by
name. Numbers are written as on a price list: 10G of a card are bits a second, 64G of RAM
are GiB. The units of edgebox.toml ("10 Gbit/s", "64 GiB") are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import cast, get_args

import msgspec
from msgspec.structs import replace

from edgebox.config.units import LARGEST, parse_rate, parse_size, parse_time
from edgebox.plan.assumptions import Overrides
from edgebox.plan.facts import DiskKind, Facts

_SHORT = re.compile(r"(\d+(?:\.\d+)?)([kMGT]?)")
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"": 1, "k": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

World = tuple[Facts, Overrides]


class WhatIfError(ValueError):
    """A change that cannot be understood; the message says what can."""


def change(text: str, facts: Facts, overrides: Overrides) -> World:
    """Facts and overrides with every KEY=VALUE of a comma-separated list applied.

    Raises WhatIfError.
    """
    world = facts, overrides
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in CHANGES:
            near = get_close_matches(key, CHANGES, n=1)
            hint = f"; did you mean {near[0]}?" if near else f": there are {', '.join(CHANGES)}"
            raise WhatIfError(f"cannot change {key!r}{hint}")
        if not equals or not value:
            raise WhatIfError(f"{key} needs a value, as {key}={CHANGES[key].example}")
        try:
            world = CHANGES[key].apply(value, *world)
        except (ValueError, OverflowError) as problem:
            raise WhatIfError(f"{key}={value}: {problem}") from problem
    return world


def parse_speed(text: str) -> int:
    """Bits a second from "1G", "2.5G" or "1 Gbit/s". Raises ValueError."""
    short = _short(text, _DECIMAL)
    return _something(parse_rate(text) * 8) if short is None else short


def parse_memory(text: str) -> int:
    """Bytes from "64G" (GiB, as RAM is sold), "64 GiB" or "64 GB". Raises ValueError."""
    short = _short(text, _BINARY)
    return _something(parse_size(text)) if short is None else short


def parse_round_trip(text: str) -> float:
    """Seconds from "50ms". Raises ValueError."""
    value = parse_time(text)
    if not 0.001 <= value <= 3600:
        raise ValueError("a time from 1ms to an hour is wanted")
    return value


def parse_object_size(text: str) -> int:
    """Bytes from "100k", "100 kB" or "64 KiB". Raises ValueError."""
    short = _short(text, _DECIMAL)
    return _something(parse_size(text)) if short is None else short


def _short(text: str, worth: dict[str, int]) -> int | None:
    match = _SHORT.fullmatch(text)
    if match is None:
        return None
    whole, _, fraction = match[1].partition(".")
    value = int(whole + fraction) * worth[match[2]] // int("1" + "0" * len(fraction))
    return _something(value)


def _something(value: int) -> int:
    if not 0 < value <= LARGEST:
        raise ValueError(f"between 1 and {LARGEST:,}")
    return value


def _count(text: str) -> int:
    value = _short(text, _DECIMAL)
    if value is None:
        raise ValueError("a number is wanted, such as 8 or 64k")
    return value


class _Change(msgspec.Struct, frozen=True):
    example: str
    apply: Callable[[str, Facts, Overrides], World]


def _nic(text: str, facts: Facts, overrides: Overrides) -> World:
    return facts, replace(overrides, speed=parse_speed(text))


def _ram(text: str, facts: Facts, overrides: Overrides) -> World:
    """What others use stays in use. A machine with less RAM than that has none to spare."""
    total, memory = parse_memory(text), facts.memory
    used = 0
    if memory.total is not None and memory.available is not None:
        used = max(0, memory.total - memory.available)
    changed = replace(memory, total=total, available=max(0, total - used))
    return replace(facts, memory=changed), overrides


def _limit(text: str, facts: Facts, overrides: Overrides) -> World:
    return replace(facts, memory=replace(facts.memory, cgroup_limit=parse_memory(text))), overrides


def _cores(text: str, facts: Facts, overrides: Overrides) -> World:
    processor = replace(facts.processor, cores=_count(text), allowed=None, quota=None)
    return replace(facts, processor=processor), overrides


def _descriptors(text: str, facts: Facts, overrides: Overrides) -> World:
    number = _count(text)
    limits = replace(facts.descriptors, soft=number, hard=number, nr_open=None)
    return replace(facts, descriptors=limits), overrides


def _disk(text: str, facts: Facts, overrides: Overrides) -> World:
    if text not in get_args(DiskKind):
        raise ValueError(f"one of {', '.join(get_args(DiskKind))} is wanted")
    kind = cast(DiskKind, text)
    return replace(facts, disks=tuple(replace(disk, kind=kind) for disk in facts.disks)), overrides


def _round_trip(text: str, facts: Facts, overrides: Overrides) -> World:
    return facts, replace(overrides, round_trip=parse_round_trip(text))


def _object_size(text: str, facts: Facts, overrides: Overrides) -> World:
    return facts, replace(overrides, object_size=parse_object_size(text))


CHANGES: dict[str, _Change] = {
    "nic": _Change("10G", _nic),
    "ram": _Change("64G", _ram),
    "limit": _Change("2G", _limit),
    "cores": _Change("8", _cores),
    "descriptors": _Change("64k", _descriptors),
    "disk": _Change("nvme", _disk),
    "rtt": _Change("50ms", _round_trip),
    "object": _Change("100k", _object_size),
}
