"""The crowd: client.c compiled, started in the clients' namespace, and asked how it gets on.

Knows its six numbers and no server. One process, so that ten thousand clients leave the core
to the kernel, which has their side of TCP to do.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("client.c")
COMPILER = "gcc"
ANSWER_WITHIN = 20.0  # seconds: it may be busy, and shares its core


class ClientFailed(Exception):
    """It could not be built, or ended by itself; says what it said."""


@dataclass(frozen=True)
class Count:
    """What the crowd says: see client.c. `octets`, `answered` and `lost` only grow."""

    taking: int
    octets: int
    moving: int
    least: int
    answered: int
    lost: int


NOBODY = Count(0, 0, 0, 0, 0, 0)


def build(compiler: str, directory: Path) -> Path:
    """The program, in `directory`; ClientFailed if the compiler will not."""
    program = directory / "client"
    made = subprocess.run(
        [compiler, "-O2", "-o", str(program), str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(directory)},  # nothing stays elsewhere if it is killed
    )
    if made.returncode:
        raise ClientFailed(f"the compiler said: {made.stderr[-250:]}")
    return program


class Crowd:
    """A running crowd of `size` clients. `said`: why some were lost, known at the end."""

    def __init__(self, process: subprocess.Popen[str], size: int) -> None:
        self._process = process
        self.size = size
        self.said = ""

    def ask(self) -> Count:
        """How it gets on at this moment; ClientFailed if it no longer answers."""
        near, far = self._process.stdin, self._process.stdout
        assert near is not None
        assert far is not None
        try:
            near.write("\n")
            near.flush()
        except BrokenPipeError:
            raise ClientFailed(self._last_words()) from None
        if not select.select([far], [], [], ANSWER_WITHIN)[0]:
            raise ClientFailed(f"no word from the clients in {ANSWER_WITHIN:.0f} s")
        line = far.readline()
        if not line:
            raise ClientFailed(self._last_words())
        return Count(*map(int, line.split()))

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        return f"the clients ended: {self._process.stderr.read()[-250:].strip()}"


@contextlib.contextmanager
def downloading(program: Path, address: str, port: int, target: str, size: int) -> Iterator[Crowd]:
    """`size` clients fetch `target` until the block ends; started in this thread's namespace."""
    process = subprocess.Popen(
        [str(program), address, str(port), target, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # a few short lines: it never fills
        text=True,
        start_new_session=True,  # an interrupt at the terminal is ours to handle
    )
    crowd = Crowd(process, size)
    try:
        yield crowd
    finally:
        try:
            _, crowd.said = process.communicate(timeout=ANSWER_WITHIN)  # closes its input
        except (subprocess.TimeoutExpired, BrokenPipeError):
            process.kill()
            process.wait()
