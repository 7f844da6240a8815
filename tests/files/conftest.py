"""A file store on a real directory, and what its tests need around it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from edgebox.config.schema import Files
from edgebox.files.entry import Docroot, FileEntry, Found
from edgebox.files.store import FileStore
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """As many descriptors are open after the test as before."""
    before = _descriptors()
    yield
    deadline = time.monotonic() + 2  # a thread that was given up may still be at it
    while _descriptors().keys() - before.keys() and time.monotonic() < deadline:
        time.sleep(0.01)
    after = _descriptors()
    assert not {fd: after[fd] for fd in after.keys() - before.keys()}


def _descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # listdir's own
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.fixture
def descriptors_to_spare() -> Callable[[int], AbstractContextManager[None]]:
    """A context in which so many descriptors can be opened, and no more."""

    @contextmanager
    def spare(number: int) -> Iterator[None]:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        filled: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, _descriptors())) + 9, limits[1]))
        try:
            with suppress(OSError):
                while True:
                    filled.append(os.dup(0))
            for _ in range(number):
                os.close(filled.pop())
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in filled:
                os.close(fd)

    return spare


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Poll for a condition; the five seconds are for slow machines, not a promise."""

    async def wait(condition: Callable[[], bool]) -> None:
        with trio.fail_after(5):
            while not condition():
                await trio.sleep(0.002)

    return wait


@dataclass
class Rig:
    """A store, the directory it serves, and what it told."""

    root: Path
    store: FileStore
    ledger: Ledger
    changes: list[None]
    said: list[tuple[str, str]]
    docroot: Docroot = field(init=False)
    now: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.docroot = Docroot(os.fsencode(self.root))

    def write(self, name: str, content: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    async def find(self, path: bytes, after: float = 0.0, docroot: Docroot | None = None) -> Found:
        """What the store finds `after` seconds; the clock stands still otherwise."""
        where = docroot or self.docroot
        found = self.store.find_nowait(where, path, self.now + after)
        return await self.store.find(where, path, self.now + after) if found is None else found

    async def read(self, path: bytes, after: float = 0.0) -> bytes | Found:
        """The content if `path` is a small file; else what was found."""
        found = await self.find(path, after)
        if isinstance(found, FileEntry) and found.content is not None:
            return found.content
        return found

    async def wait_read(self, path: bytes, expected: object) -> None:
        """Until `path` gives `expected`, with the clock standing still: by events alone."""
        found = None
        with trio.move_on_after(5):
            while (found := await self.read(path)) != expected:
                await trio.sleep(0.002)
        assert found == expected

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.store.run)
            yield
            nursery.cancel_scope.cancel()


MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Rigs on one directory; keywords are keys of [files], `budget` is the ledger's."""
    rigs: list[Rig] = []
    root = tmp_path / "www"
    root.mkdir()

    def make(budget: int = 1 << 30, **keys: object) -> Rig:
        defaults = {"working_set": 1 << 20, "open_files": 16, "watches": 100, "stale_bound": 2.0}
        config = Files(**(defaults | {"object_size": 4096} | keys))  # type: ignore[arg-type]
        ledger = Ledger(budget)
        changes: list[None] = []
        said: list[tuple[str, str]] = []
        store = FileStore(
            config,
            WorkingSet(config.working_set or 0, ledger),
            lambda: changes.append(None),
            lambda level, text: said.append((level, text)),
        )
        rigs.append(Rig(root, store, ledger, changes, said))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.store.close()
        assert rig.ledger.held == 0


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    """One store whose bound is so far away that only events can make it look again."""
    return make_rig(stale_bound=3600.0)
