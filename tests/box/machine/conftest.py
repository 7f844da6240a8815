"""The package, built once, and a Debian to install it on, booted once: boots take their time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.box.conftest import lack, need, wait_until
from tests.box.machine.debian import (
    START,
    TOOLS,
    Debian,
    NoContainers,
    booted,
    build_package,
    make_bare_tree,
    make_newer,
)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this tree, or the one that EDGEBOX_PACKAGE names."""
    if built := os.environ.get("EDGEBOX_PACKAGE"):
        return Path(built)
    need("dpkg-deb", "dpkg")
    if not Path("/usr/bin/python3.11").exists():
        lack("needs Debian's own Python: apt-get install python3.11-venv")
    return build_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package, but of version 9.9."""
    return make_newer(package, tmp_path_factory.mktemp("newer"), "9.9")


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    if os.geteuid() != 0:
        lack("needs root, for a container")
    for tool, package in TOOLS.items():
        need(tool, package)
    with ExitStack() as stack:
        try:
            where = tmp_path_factory.mktemp("machine")
            system = stack.enter_context(booted(make_bare_tree(), where))
        except NoContainers as problem:
            lack(f"needs containers: {problem}")
        yield system


@pytest.fixture
def debian(machine: Debian) -> Debian:
    """A bare Debian, running."""
    if machine.has_package():
        machine.run("dpkg", "--purge", "edgebox")
    return machine


@pytest.fixture
def installed(machine: Debian, package: Path) -> Debian:
    """A Debian on which the package was installed, and the service as it comes up by itself."""
    if not machine.has_package():
        machine.install(package)
    machine.run("systemctl", "reset-failed", check=False)
    machine.systemctl("start", "edgebox.service")
    wait_until(lambda: machine.state() == "active", START)
    return machine
