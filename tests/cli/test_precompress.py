"""`edgebox precompress`: fills the cache, and says what it did."""

from __future__ import annotations

import gzip
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgebox.cli import precompress as module
from edgebox.cli.precompress import precompress
from edgebox.files import seal
from edgebox.files.compression.variants import SIDECAR_SUFFIXES, variant_name
from edgebox.files.entry import Identity

pytestmark = pytest.mark.slow

PATIENCE = 30.0
PROGRAM = "from edgebox.cli.main import main; main()"
TEXT = b"".join(b"line %d\n" % n for n in range(500))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def config(tmp_path: Path, root: Path, cache: Path) -> Path:
    path = tmp_path / "edgebox.toml"
    path.write_text(
        f'[compression]\ndir = "{cache}"\nbr_level = 5\nzstd_level = 3\n[[site]]\nroot = "{root}"\n'
    )
    return path


@pytest.fixture
def run(config: Path) -> Callable[[], Result]:
    return lambda: CliRunner().invoke(precompress, ["-c", str(config)])


def variant_of(path: Path, coding: bytes, cache: Path) -> Path:
    return cache / os.fsdecode(variant_name(Identity.of(path.stat()), coding))


def test_every_eligible_file_gets_every_coding(
    root: Path, cache: Path, run: Callable[[], Result]
) -> None:
    (root / "sub").mkdir()
    files = [root / "a.html", root / "sub" / "b.css"]
    for path in files:
        path.write_bytes(TEXT)
    (root / "c.png").write_bytes(TEXT)
    (root / ".secret.html").write_bytes(TEXT)
    (root / "out.html").symlink_to("/etc/passwd")
    result = run()
    assert result.exit_code == 0, result.output
    for path in files:
        for coding in SIDECAR_SUFFIXES:
            assert variant_of(path, coding, cache).stat().st_size
        assert gzip.decompress(variant_of(path, b"gzip", cache).read_bytes()[: -seal.SIZE]) == TEXT
    assert sum(path.is_file() for path in cache.rglob("??*/*")) == 6
    assert f"2 files, {2 * len(TEXT):,} octets" in result.stdout
    for line in [
        "passed over: 1 type not listed",
        "passed over: 1 dotfile",
        "passed over: 1 symlink not to be followed",
    ]:
        assert line in result.stdout.splitlines()
    for coding in ["br", "zstd", "gzip"]:
        assert f"{coding}: 2 kept, {2 * len(TEXT):,} → " in result.stdout
    assert result.stderr == ""


def test_a_second_run_makes_nothing_and_finds_markers_too(
    root: Path, run: Callable[[], Result]
) -> None:
    (root / "a.html").write_bytes(TEXT)
    (root / "noise.html").write_bytes(random.Random(1).randbytes(2000))
    first = run()
    assert "gzip: " in first.stdout
    assert "1 does not get smaller" in first.stdout
    second = run()
    assert second.exit_code == 0
    assert "gzip: 2 already there" in second.stdout


def test_what_cannot_be_done_is_named_and_the_rest_is_done(
    root: Path, cache: Path, config: Path, run: Callable[[], Result]
) -> None:
    config.write_text(config.read_text().replace("br_level", 'dir_size = "12 KiB"\nbr_level'))
    (root / "a.html").write_bytes(TEXT)
    (root / "large.html").write_bytes(random.Random(1).randbytes(20_000).hex().encode())
    result = run()
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [f"{root}/large.html: larger than dir_size"]
    assert variant_of(root / "a.html", b"gzip", cache).exists()


def test_a_cache_that_cannot_be_made_is_told_once_and_ends_it(
    root: Path, cache: Path, run: Callable[[], Result]
) -> None:
    cache.write_bytes(b"in the way")
    for number in range(20):
        (root / f"{number}.html").write_bytes(TEXT)
    result = run()
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert str(cache) in result.stderr


def test_a_small_cache_stays_small_and_says_what_it_lost(
    root: Path, cache: Path, config: Path, run: Callable[[], Result]
) -> None:
    config.write_text(config.read_text().replace("br_level", 'dir_size = "32 KiB"\nbr_level'))
    for number in range(10):
        (root / f"{number}.html").write_bytes(TEXT)
    result = run()
    assert result.exit_code == 0
    assert "removed to stay within compression.dir_size: " in result.stdout
    assert sum(path.is_file() for path in cache.rglob("??*/*")) <= 8


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(
    root: Path, run: Callable[[], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILES_PER_LINE", 2)
    for number in range(5):
        (root / f"{number}.html").write_bytes(TEXT)
    lines = run().stdout.splitlines()
    assert "2 of 5 files" in lines
    assert "4 of 5 files" in lines


def test_a_terminal_gets_a_bar(root: Path, config: Path) -> None:
    (root / "a.html").write_bytes(TEXT)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "precompress", "-c", str(config)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # EIO: the other side is closed
        pass
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert "━".encode() in shown
    assert b"100%" in shown


def test_switched_off_there_is_nothing_to_do(config: Path, run: Callable[[], Result]) -> None:
    config.write_text("[compression]\nenabled = false\n")
    result = run()
    assert result.exit_code == 0
    assert "compression is off" in result.stdout


def test_a_wrong_configuration_is_told_with_its_line(
    config: Path, run: Callable[[], Result]
) -> None:
    config.write_text("[compression]\nbr_levl = 3\n")
    result = run()
    assert result.exit_code == 1
    assert f"{config}:2: compression.br_levl" in result.stderr


def test_an_interrupt_ends_it_and_its_helpers(root: Path, config: Path, cache: Path) -> None:
    config.write_text(config.read_text().replace("br_level = 5", "br_level = 11"))
    noise = random.Random(5).randbytes(1000) * 10
    for number in range(2000):
        (root / f"{number}.html").write_bytes(noise + b"%d" % number)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "precompress", "-c", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + PATIENCE
    while not any(cache.rglob("*.gz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [child for task in tasks for child in task.read_text().split()]
    assert children
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"Aborted" in errors
    assert b"Traceback" not in errors
    assert not any(Path(f"/proc/{child}").exists() for child in children)
