"""The import arrows that must never be: read from the source, not from running it."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "edgebox"
IMPURE = {"trio", "h11", "socket", "os", "time", "random", "select", "subprocess", "threading"}


@cache
def imports(path: Path) -> set[str]:
    """Full names of the modules that a file imports, deferred ones included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(*rooms: str) -> list[Path]:
    return [
        f
        for room in rooms
        for f in ([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
        if f.exists()
    ]


def reaches(found: set[str], *targets: str) -> set[str]:
    return {m for m in found for t in targets if m == t or m.startswith(t + ".")}


CACHE_POLICY = (
    "answer", "bans", "coding", "directives", "entry", "explain", "fields", "freshness",
    "invalidate", "key", "purges",
    "reasons", "revalidate", "rules", "serving", "status", "storing", "structured", "tags",
    "targeted", "vary",
)  # fmt: skip

PLANNING = (
    "planner", "facts", "figures", "quantity", "assumptions", "uplink", "basis", "shares",
    "throughput", "connections", "advice", "port_advice", "report", "rows", "whatif",
    "measured",
)  # fmt: skip

PURE = files(
    "http", "route", "express/recogniser.py",
    *(f"plan/{n}.py" for n in PLANNING),
    *(f"config/{n}.py" for n in ("schema", "units", "marks", "upstreams")),
    *(f"cache/{n}.py" for n in CACHE_POLICY),
    *(f"cache/disk/{n}.py" for n in ("layout", "format", "purge")),
    *(f"observe/{n}.py" for n in ("query", "outcome", "log_format")),
)  # fmt: skip


@pytest.mark.parametrize("path", PURE, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_pure_rooms_know_no_loop_clock_or_machine(path: Path) -> None:
    assert not reaches(imports(path), *IMPURE)


def everything_but(*rooms: str) -> list[Path]:
    kept = {f for room in rooms for f in files(room)}
    return [f for f in PACKAGE.rglob("*.py") if f not in kept]


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("edgebox.express", ["express", "ops/worker/worker.py"]),
        ("h11", ["session", "upstream", "send"]),
        ("edgebox.plan", ["plan", "ops", "cli"]),
        ("tomllib", ["config", "cli", "ops"]),
        ("pyroute2", ["plan/facts.py", "plan/link.py"]),
    ],
)
def test_only_named_rooms_import(target: str, allowed: list[str]) -> None:
    offenders = {
        str(f.relative_to(PACKAGE)) for f in everything_but(*allowed) if reaches(imports(f), target)
    }
    assert not offenders


def test_handlers_and_stores_know_no_socket() -> None:
    for f in files("handlers", "memory"):
        assert not reaches(imports(f), "socket", "h11", "edgebox.send"), f


def test_supervisor_imports_no_request_code() -> None:
    for f in files("ops/processes/supervisor.py"):
        assert not reaches(
            imports(f), "trio", "h11", "edgebox.session", "edgebox.handlers", "edgebox.express"
        )


SUPERVISOR_HAS_NOT = (
    "trio", "h11", "rich", "pyroute2", "cachetools",
    *(f"edgebox.{room}" for room in ("session", "handlers", "express", "send", "files", "memory")),
)  # fmt: skip


def test_the_supervisor_loads_no_request_code_on_whatever_way() -> None:
    """It stays for as long as the machine runs: what it never does takes none of its memory."""
    code = "import edgebox.cli.serve, edgebox.ops.processes.supervisor, sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not reaches(set(ran.stdout.split()), *SUPERVISOR_HAS_NOT)


def test_observe_is_a_sink() -> None:
    for f in files("observe"):
        assert not reaches(
            imports(f), "edgebox.session", "edgebox.handlers", "edgebox.express", "edgebox.ops"
        ), f
