"""How many connections there may be, and how many there are in tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class Admission:
    """Counts the connections of a worker against its limit."""

    __slots__ = ("_none", "limit", "tasks")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tasks = 0
        self._none = trio.Event()

    def full(self, idle: int) -> bool:
        """Whether one more would be too many, `idle` being those outside tasks."""
        return idle + self.tasks >= self.limit

    def start(
        self, nursery: trio.Nursery, run: Callable[..., Awaitable[None]], *arguments: object
    ) -> None:
        """Start a task that owns a connection. It counts from now, not from its first turn."""
        self.tasks += 1
        nursery.start_soon(self._run, run, arguments)

    async def _run(
        self, run: Callable[..., Awaitable[None]], arguments: tuple[object, ...]
    ) -> None:
        try:
            await run(*arguments)
        finally:
            self.tasks -= 1
            if not self.tasks:
                self._none.set()

    async def wait_none(self) -> None:
        """Until no task owns a connection."""
        while self.tasks:
            self._none = trio.Event()
            await self._none.wait()
