"""Fetches the suite, lists its tests, and runs its client against a cache before its origin."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

PACKAGE = "http-cache-tests@0.4.5"
CHECKOUT = "EDGEBOX_CACHE_TESTS"  # the environment variable that names another copy
HERE = Path(__file__).parent
START = 30.0  # seconds that the origin may take to listen
LONGEST = 600.0  # seconds for all tests: many pause for three


class SuiteError(Exception):
    """The suite cannot be had, or does not run; the message says why."""


class Case(msgspec.Struct, frozen=True):
    """One test. `kind` is required, optimal or check; `cdn`: for RFC 9213 only."""

    id: str
    kind: str
    group: str
    cdn: bool


class Published(msgspec.Struct, frozen=True):
    """What the suite's authors found of another cache; `passed` are ids."""

    name: str
    type: str
    version: str
    passed: list[str]


class Listing(msgspec.Struct, frozen=True):
    tests: list[Case]
    published: list[Published]


class Suite:
    """A copy of the suite that runs. `version` says which, in words."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        # The copy on npm has at its top what was moved into a directory later.
        self._engine = root / "test-engine" if (root / "test-engine").is_dir() else root

    def list(self) -> Listing:
        """The tests that apply to anything but a browser, and what is published."""
        listed = _run(["node", str(HERE / "listing.mjs"), str(self.root)], self.root)
        return msgspec.json.decode(listed, type=Listing)

    @contextmanager
    def origin(self) -> Iterator[str]:
        """The suite's own server, on a port that the kernel chose; its URL."""
        script = self._engine / "server" / "server.mjs"
        process = subprocess.Popen(
            ["node", str(HERE / "origin.mjs"), str(script)],
            cwd=self.root, env=_settings(port="0", pidfile=os.devnull),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"Listening on (http://\S+?)/", line)
            if found is None:
                raise SuiteError(f"its origin does not listen: {line!r}")
            yield found[1]
        finally:
            process.kill()
            process.communicate()

    def run(self, base: str) -> dict[str, object]:
        """Run every test against the cache at `base`: True, or what went wrong, by id."""
        client = ["node", "--no-warnings", str(self._engine / "cli.mjs")]
        output = _run(client, self.root, _settings(base=base, id=""))
        results: dict[str, object] = json.loads(output)
        return results


def obtain(work: Path) -> Suite:
    """A copy below `work`: of what the environment names, else the one on npm.

    Raises SuiteError, without node above all.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise SuiteError("needs node and npm: apt-get install nodejs npm")
    named = os.environ.get(CHECKOUT)
    if named:
        return _copy(Path(named), work)
    _install(work, PACKAGE)
    return Suite(work / "node_modules" / PACKAGE.partition("@")[0], PACKAGE)


def _copy(source: Path, work: Path) -> Suite:
    root = work / "suite"
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(".git", "node_modules"))
    package = json.loads((root / "package.json").read_text())
    needed = package["dependencies"].get("undici")
    if needed is not None:  # all that its client imports
        _install(work, f"undici@{needed}")
    version = f"http-cache-tests {package['version']}"
    if (source / ".git").exists():
        told = _run(["git", "log", "-1", "--format=%h of %cs"], source)
        version = f"http-tests/cache-tests at {told.strip()}"
    return Suite(root, version)


def _install(work: Path, package: str) -> None:
    options = ["--prefix", str(work), "--ignore-scripts", "--no-audit", "--no-fund"]
    _run(["npm", "install", *options, package], work)


def _settings(**values: str) -> Mapping[str, str]:
    """The environment in which the suite's programs find what npm would tell them."""
    told = {f"npm_config_{name}": value for name, value in values.items() if value}
    blank = {f"npm_package_config_{name}": "" for name in ("id", "base")}
    return os.environ | {"npm_config_protocol": "http"} | blank | told


def _run(command: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, timeout=LONGEST, check=True
        )
    except subprocess.CalledProcessError as failed:
        raise SuiteError(f"{command[0]} failed: {failed.stderr[-2000:]}") from failed
    except subprocess.TimeoutExpired as late:
        raise SuiteError(f"{command[0]} took more than {LONGEST:.0f} s") from late
    return done.stdout
