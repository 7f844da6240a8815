"""Sources, decoders and a file system that is soon full."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import brotli
import pytest

from edgebox.files.compression.jobs import Job, Settings
from edgebox.files.entry import Identity

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b"%d bottles of beer on the wall\n" % n for n in range(400))


@pytest.fixture
def text() -> bytes:
    """12 kB that every coding makes much smaller."""
    return TEXT


@pytest.fixture
def docroot(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache directory that nobody has made yet."""
    return tmp_path / "cache"


@pytest.fixture
def make_job(docroot: Path) -> Callable[..., Job]:
    """Write `octets` to `name` in the docroot, and return the job that compresses it."""

    def make(name: str = "a.txt", octets: bytes | None = TEXT, coding: bytes = b"gzip") -> Job:
        path = docroot / name
        if octets is not None:
            path.write_bytes(octets)
        return Job(
            root=os.fsencode(docroot),
            path=b"/" + os.fsencode(name),
            symlinks="within-root",
            identity=Identity.of(path.stat()),
            coding=coding,
        )

    return make


@pytest.fixture
def settings(cache: Path) -> Settings:
    return Settings(os.fsencode(cache), 1 << 20, {b"br": 5, b"zstd": 3, b"gzip": 6})


@pytest.fixture
def decode() -> Callable[[bytes, bytes], bytes]:
    """decode(coding, octets)"""
    decoders: dict[bytes, Callable[[bytes], bytes]] = {
        b"gzip": gzip.decompress,
        b"br": brotli.decompress,
        b"zstd": zstd.decompress,
    }
    return lambda coding, octets: decoders[coding](octets)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """mounted(options) gives an empty tmpfs; skipped where mounting is not allowed."""
    points: list[Path] = []

    def mount(options: str) -> Path:
        point = tmp_path / f"mount{len(points)}"
        point.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"mounting a tmpfs needs root and CAP_SYS_ADMIN: {error}")
        points.append(point)
        return point

    yield mount
    for point in points:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


@pytest.fixture
def files_below() -> Callable[[Path], list[Path]]:
    """Every regular file below a directory but the sweep's own sum."""

    def find(directory: Path) -> list[Path]:
        return sorted(p for p in directory.rglob("*") if p.is_file() and p.name != ".sum")

    return find
