"""The package, built once, and a Debian to install it on, booted once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.conftest import lack, need
from tests.box.machine.debian import TOOLS, Debian, booted, build_package, make_bare_tree


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this tree, or the one that EDGEBOX_PACKAGE names."""
    if built := os.environ.get("EDGEBOX_PACKAGE"):
        return Path(built)
    need("dpkg-deb", "dpkg")
    if not Path("/usr/bin/python3.11").exists():
        lack("needs Debian's own Python: apt-get install python3.11-venv")
    return build_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """A bare Debian, running."""
    if os.geteuid() != 0:
        lack("needs root, for a container")
    for tool, package in TOOLS.items():
        need(tool, package)
    with booted(make_bare_tree(), tmp_path_factory.mktemp("machine")) as system:
        yield system


@pytest.fixture(scope="module")
def installed(debian: Debian, package: Path) -> Debian:
    """A Debian on which the package was installed."""
    (debian.tree / "root" / "edgebox.deb").write_bytes(package.read_bytes())
    debian.run("dpkg", "--install", "/root/edgebox.deb")
    return debian
