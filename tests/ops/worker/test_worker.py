"""Promises of a worker's process before its loop runs."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.observe.pages import Pages
from edgebox.ops.worker import worker
from edgebox.ops.worker.worker import Post, run_worker
from tests.wire import configure


@pytest.fixture
def no_collector() -> Iterator[None]:
    """As the process is while it loads its modules."""
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_garbage_is_collected_while_it_serves(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collecting: list[bool] = []
    monkeypatch.setattr(worker.trio, "run", lambda *_: collecting.append(gc.isenabled()))
    pages = Pages.create()
    with socket.socket() as wire:
        run_worker(configure(root), [], Post(wire, b"", pages, slot=0, warm=-1))
    pages.close()
    assert collecting == [True]
