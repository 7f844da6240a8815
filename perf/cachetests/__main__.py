"""`python -m perf.cachetests`: runs the suite and writes perf/CACHE_TESTS.md.

EDGEBOX_CACHE_TESTS=/path takes a checkout of the suite instead of the copy on npm.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf.cachetests.suite import SuiteError, obtain
from perf.cachetests.table import render

PAGE = Path(__file__).parent.parent / "CACHE_TESTS.md"
WAIVERS = PAGE.parent.parent / "tests" / "box" / "cache_suite" / "waivers.toml"


@contextmanager
def edgebox(upstream: str, cwd: str) -> Iterator[str]:
    """The URL of `edgebox serve --upstream`, with nothing else said to it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgebox", "serve", "--listen", "127.0.0.1:0",
         "--upstream", upstream], cwd=cwd, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        ready = re.search(r"ready on (http://\S+?)/", process.stdout.readline())
        if ready is None:
            raise SuiteError("edgebox does not start")
        yield ready[1]
    finally:
        process.terminate()
        process.wait(10)


def main() -> None:
    waivers = tomllib.loads(WAIVERS.read_text())["waivers"]
    with tempfile.TemporaryDirectory() as work:
        suite = obtain(Path(work))
        with suite.origin() as origin, edgebox(origin, work) as base:
            results = suite.run(base)
        PAGE.write_text(render(suite.list(), results, waivers, suite.version))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    try:
        main()
    except SuiteError as problem:
        sys.exit(f"cachetests: {problem}")
