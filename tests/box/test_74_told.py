"""An operator is told what is so: that the file is gone, what is wrong with it, that nobody serves.

The file that a server was started with is the one that it is asked to take up again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start, ask, wait_until
from tests.conftest import HELLO

pytestmark = pytest.mark.slow


@pytest.fixture
def box(start: Start, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    """One that has found its file by itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgebox.toml").write_text(f'[[site]]\nroot = "{root}"\n')
    return start(start_new_session=True)  # away from any terminal, for SIGWINCH


def edgebox(box: Box, verb: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgebox", verb, "--socket", box.control]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("verb", ["reload", "upgrade"])
def test_a_file_that_is_gone_is_a_mistake_and_not_the_defaults(
    box: Box, verb: str, tmp_path: Path
) -> None:
    os.rename(tmp_path / "edgebox.toml", tmp_path / "elsewhere.toml")
    done = edgebox(box, verb)
    assert done.returncode == 1
    assert done.stderr.startswith("edgebox.toml: cannot be read: No such file or directory\n")
    assert ask(box).body == HELLO


def test_an_upgrade_says_what_is_wrong_with_the_file(box: Box, tmp_path: Path) -> None:
    with open(tmp_path / "edgebox.toml", "a") as file:
        file.write('[server]\nwrokers = 2\nhang = "x"\n')
    done = edgebox(box, "upgrade")
    assert done.returncode == 1
    first, second, last = done.stderr.splitlines()
    assert first.startswith("edgebox.toml:4: server.wrokers: unknown key")
    assert second.startswith("edgebox.toml:5: server.hang: ")
    assert last == "Error: nothing was upgraded: the server goes on as it was"
    assert ask(box).body == HELLO


def test_that_nobody_serves_is_told_and_why(box: Box) -> None:
    box.signal(signal.SIGWINCH)
    wait_until(lambda: not box.workers)
    why = "workers were let go by SIGWINCH, until a reload"
    wait_until(lambda: why in edgebox(box, "status").stdout)
    told = edgebox(box, "status").stdout
    assert "0 workers" in told
    assert "nobody serves: see the error log, or reload" in told
    assert edgebox(box, "reload").returncode == 0
    told = edgebox(box, "status").stdout
    assert "1 worker · generation 2" in told
    assert "nobody serves: see" not in told


def test_a_worker_that_died_is_among_the_last_errors_and_counted(box: Box) -> None:
    before = box.worker
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: box.workers not in ([], [before]))
    wait_until(lambda: "a worker has ended: SIGKILL" in edgebox(box, "status").stdout)
    counters = edgebox(box, "stats").stdout.split()
    assert counters[counters.index("errors") + 1] == "1"
