"""Each command of docs/install.md, run as it stands on a machine that has the package."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.box.machine.debian import PROJECT, Debian

pytestmark = pytest.mark.slow

PAGE = (PROJECT / "docs" / "install.md").read_text()
# The first builds and installs the package, as the fixtures do.
BUILT, *BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def fresh(installed: Debian) -> Iterator[Debian]:
    """What the page switches on goes with the package."""
    yield installed
    installed.run("dpkg", "--purge", "edgebox")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0].split("  ")[0])
def test_it_works(fresh: Debian, block: str) -> None:
    done = fresh.run("bash", "-ec", block, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fresh.fetch()[""] == "200"
    for unit in re.findall(r"^systemctl (?:start|enable --now) (\S+)", block, re.MULTILINE):
        assert fresh.shown("Result", unit) == "success", unit


def test_no_block_is_passed_over() -> None:
    assert BUILT.splitlines()[0].startswith("make deb")
    assert len(BLOCKS) == 3
