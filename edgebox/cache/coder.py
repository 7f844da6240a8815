"""Codes stored answers, one after another in a thread, while clients get them plain.

What was asked for once is likely to be asked for again, so it is coded once and kept beside
the original. One at a time: a burst of new objects must not take the cores from those who
answer. A wish that finds the queue full is forgotten; the next client will have it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import trio

from edgebox.cache.shelf import Kept
from edgebox.files.compression.coders import open_coder
from edgebox.files.compression.variants import Kept as Verdict
from edgebox.files.compression.variants import judge

MOST_WISHES = 64
# Moderate: what lies here may be gone in a minute. On 100 kB of source text they take a
# third to a thirteenth of the time that those for files take, for 1 to 7 % more octets
# (2026-11-30).
LEVELS: Mapping[bytes, int] = MappingProxyType({b"br": 5, b"zstd": 6, b"gzip": 6})


class _Wish(NamedTuple):
    key: bytes
    kept: Kept
    coding: bytes


class Coder:
    """`made(key, kept)` is called when `kept.coded` has grown."""

    def __init__(self, made: Callable[[bytes, Kept], None]) -> None:
        self._made = made
        self._wishes: deque[_Wish] = deque()
        self._wished = trio.Event()
        self._coded = 0
        self._saved = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fulfil wishes until cancelled."""
        task_status.started()
        while True:
            await self._wished.wait()
            await self._fulfil(self._wishes[0])
            self._wishes.popleft()
            if not self._wishes:
                self._wished = trio.Event()

    def wish_nowait(self, key: bytes, kept: Kept, coding: bytes) -> None:
        """Have the octets of `kept` in `coding` before long."""
        if len(self._wishes) < MOST_WISHES and not any(
            wish.kept.coded is kept.coded and wish.coding == coding for wish in self._wishes
        ):
            self._wishes.append(_Wish(key, kept, coding))
            self._wished.set()

    def statistics(self) -> dict[str, int]:
        return {"wishes": len(self._wishes), "coded": self._coded, "octets_saved": self._saved}

    async def _fulfil(self, wish: _Wish) -> None:
        content = wish.kept.content
        if content is None or wish.coding in wish.kept.coded:
            return
        octets = await trio.to_thread.run_sync(_encode, content, wish.coding)
        worth = judge(len(content), len(octets)) is Verdict.VARIANT
        wish.kept.coded[wish.coding] = octets if worth else None
        if worth:
            self._coded += 1
            self._saved += len(content) - len(octets)
        self._made(wish.key, wish.kept)


def _encode(content: bytes, coding: bytes) -> bytes:
    coder = open_coder(coding, LEVELS[coding], len(content))
    return coder.process(content) + coder.finish()
