"""After rotation a log is opened again, or somebody hears that it could not be."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from edgebox.observe.sink import Sink


async def test_a_log_that_cannot_be_opened_again_says_why_and_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    sink = Sink(f"{directory}/access.log", 1, 1000)
    assert sink.reopen() == ""
    directory.rename(tmp_path / "moved")
    assert sink.reopen() == f"{directory}/access.log: No such file or directory"
    sink.add(b"a line\n")
    sink.close()
    assert (tmp_path / "moved" / "access.log").read_bytes() == b"a line\n"
    await trio.lowlevel.checkpoint()


async def test_what_is_no_file_has_nothing_to_open_again(tmp_path: Path) -> None:
    read, write = os.pipe()
    for target in ("-", "off"):
        sink = Sink(target, write, 1000)
        assert sink.reopen() == ""
        sink.close()
    os.close(read)
    os.close(write)
