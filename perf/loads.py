"""wrk and ab: the command for a load, and what they said about it.

Parsing is pure. A load counts only if it was clean: every answer 200, no socket error, every
body of the right length, connections kept alive where that is what is measured. Otherwise an
outcome carries what was wrong, and its numbers are not to be quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from perf.rows import Load

HEADS = Path(__file__).with_name("heads.lua")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}  # wrk's are binary
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_HEAD = 1_500  # octets of an answer's head, above which a body's length is doubtful


@dataclass(frozen=True)
class Outcome:
    """What a load tool counted: seconds are wall clock; `faults` empty means clean."""

    requests: int
    seconds: float
    p99: float | None = None
    faults: tuple[str, ...] = ()


def command(load: Load, origin: str, salt: str = "0") -> list[str]:
    """The command line for `load` against `origin`, "http://127.0.0.1:PORT"."""
    url = origin + load.target
    if load.tool == "ab":
        keep = ["-k"] if load.keep_alive else []
        return ["ab", "-q", *keep, "-n", str(load.requests), "-c", str(load.connections), url]
    # wrk takes whole seconds only.
    seconds = max(1, round(load.seconds))
    basic = ["wrk", "-t", "1", "-c", str(load.connections), "-d", f"{seconds}s", "--latency"]
    if load.heads:
        return [*basic, "-s", str(HEADS), url, "--", load.heads, salt]
    return [*basic, url]


def read(load: Load, text: str) -> Outcome:
    """The outcome of the tool's standard output; ValueError if it holds no result."""
    return read_ab(load, text) if load.tool == "ab" else read_wrk(load, text)


def read_wrk(load: Load, text: str) -> Outcome:
    """wrk 4's report, printed with --latency."""
    total = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m|h), ([\d.]+)([KMGT]?)B read", text)
    if total is None:
        raise ValueError("wrk gave no result")
    requests = int(total[1])
    faults = []
    if wrong := re.search(r"Non-2xx or 3xx responses: (\d+)", text):
        faults.append(f"{wrong[1]} answers were not 2xx or 3xx")
    if broken := re.search(r"Socket errors: (.+)", text):
        faults.append(f"socket errors: {broken[1]}")
    if not requests:
        faults.append("no answer at all")
    else:
        each = float(total[4]) * UNITS[total[5]] / requests
        if not load.size * 0.98 <= each <= load.size * 1.02 + LONGEST_HEAD:
            faults.append(f"{each:.0f} octets an answer for a body of {load.size}")
    late = re.search(r"^\s+99%\s+([\d.]+)(us|ms|s|m)", text, re.M)
    p99 = float(late[1]) * TIMES[late[2]] if late else None
    return Outcome(requests, float(total[2]) * TIMES[total[3]], p99, tuple(faults))


def read_ab(load: Load, text: str) -> Outcome:
    """ab 2.3's report."""
    complete = _number(r"Complete requests:\s+(\d+)", text)
    seconds = re.search(r"Time taken for tests:\s+([\d.]+) seconds", text)
    if complete is None or seconds is None:
        raise ValueError("ab gave no result")
    faults = []
    if failed := _number(r"Failed requests:\s+(\d+)", text):
        faults.append(f"{failed} requests failed")
    if wrong := _number(r"Non-2xx responses:\s+(\d+)", text):
        faults.append(f"{wrong} answers were not 2xx")
    if (length := _number(r"Document Length:\s+(\d+)", text)) != load.size:
        faults.append(f"a body of {length} octets, not {load.size}")
    if complete != load.requests:
        faults.append(f"{complete} requests of {load.requests} completed")
    kept = _number(r"Keep-Alive requests:\s+(\d+)", text) or 0
    # A server may end a connection after its last allowed request: a few in a million.
    if load.keep_alive and kept < complete * 0.999:
        faults.append(f"only {kept} of {complete} answers kept the connection")
    late = _number(r"^\s+99%\s+(\d+)", text)  # milliseconds, whole
    p99 = None if late is None else late / 1000
    return Outcome(complete, float(seconds[1]), p99, tuple(faults))


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.M)
    return int(found[1]) if found else None
