"""How many connections there may be, and how many have an answer in hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class Admission:
    """Counts the connections of a worker against its limit.

    `tasks` have an answer in hand; of them, `carried` are on their way without a task.
    """

    __slots__ = ("_none", "carried", "limit", "tasks")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.tasks = 0
        self.carried = 0
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
            self._less()

    def carry(self) -> None:
        """One goes on without a task, before its task ends."""
        self.tasks += 1
        self.carried += 1

    def set_down(self) -> None:
        """One that was carried is not any more."""
        self.carried -= 1
        self._less()

    def _less(self) -> None:
        self.tasks -= 1
        if not self.tasks:
            self._none.set()

    async def wait_none(self) -> None:
        """Until no answer is in hand."""
        while self.tasks:
            self._none = trio.Event()
            await self._none.wait()
