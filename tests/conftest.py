"""Fixtures that several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("fast"), max_examples=2000)
settings.load_profile("fast")

HELLO = b"<!doctype html><title>hello</title><p>hello\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A docroot with an index, a text, a directory and a file of a megabyte and a half."""
    docroot = tmp_path / "www"
    (docroot / "sub").mkdir(parents=True)
    (docroot / "index.html").write_bytes(HELLO)
    (docroot / "a.txt").write_bytes(b"0123456789" * 10)
    (docroot / "empty.txt").write_bytes(b"")
    (docroot / "sub" / "index.html").write_bytes(b"sub")
    (docroot / "big.bin").write_bytes(bytes(range(256)) * 6144)
    (docroot / ".secret").write_bytes(b"secret")
    return docroot
