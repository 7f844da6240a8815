"""A store on a real directory, answers whose octets tell what they are, and small disks."""

from __future__ import annotations

import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import shake_128
from pathlib import Path

import pytest

from edgebox.cache.answer import Instant
from edgebox.cache.disk import caretaker
from edgebox.cache.disk.caretaker import Caretaker
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.layout import OBJECTS, Place, label_of, name_of
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.store import Settings, Store
from edgebox.cache.disk.syncing import Syncing
from edgebox.cache.entry import StoredResponse

KEY = b"http://example.com/page"
Keep = Callable[..., StoredResponse]


def body_of(key: bytes, serial: int, size: int) -> bytes:
    """`size` octets that only this key and serial have."""
    return shake_128(b"%s %d" % (key, serial)).digest(size)


def read(filed: Filed) -> bytes:
    """The body as a response would send it."""
    octets = os.pread(filed.file.fileno(), filed.size, filed.offset)
    assert filed.content is None or filed.content == octets
    return octets


@dataclass
class Rig:
    """A store, its directory, and an answer maker with a clock that stands where it is set."""

    directory: Path
    settings: Settings
    keep_record: Keep
    now: Instant
    warnings: list[str] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    caretakers: list[Caretaker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = self.open()

    def open(self, **keys: object) -> Store:
        """Another store on the directory: another worker's, or that after a restart."""
        store = Store(self.settings, self.warnings.append, **keys)  # type: ignore[arg-type]
        self.stores.append(store)
        return store

    def caretaker(self) -> Caretaker:
        directory = os.fsencode(self.directory)
        self.caretakers.append(Caretaker(directory, self.settings.limit, lambda: None))
        return self.caretakers[-1]

    def entry(self, *lines: str, after: float = 0.0, **more: object) -> StoredResponse:
        """The record of an answer that stays fresh for an hour."""
        return self.keep_record("Cache-Control: max-age=3600", *lines, at=after, **more)

    def keep(
        self, body: bytes, *lines: str, key: bytes = KEY, store: Store | None = None, **more: object
    ) -> Outcome:
        store = store or self.store
        return store.keep(key, self.entry(*lines, **more), body, store.mark())

    def vary(self, language: str, body: bytes, *lines: str, **more: object) -> Outcome:
        """Store the variant of a page in one language."""
        asked = (f"X-Language: {language}",)
        return self.keep(body, "Vary: X-Language", *lines, asked=asked, **more)

    def bodies(self, key: bytes = KEY, store: Store | None = None) -> list[bytes]:
        """What is found, in no order."""
        found = (store or self.store).find(key, self.now)
        bodies = sorted(read(filed) for filed in found)
        for filed in found:
            filed.release()
        return bodies

    def path(self, key: bytes = KEY, entry: StoredResponse | None = None) -> Path:
        """The file of a key, or of one of its variants."""
        place = Place(name_of(key), label_of(entry.variant) if entry else b"")
        return Path(os.fsdecode(os.fsencode(self.directory) + b"/" + OBJECTS + place.path))

    def files(self) -> list[Path]:
        return sorted(p for p in (self.directory / "objects").rglob("*") if not p.is_dir())

    def close(self) -> None:
        for opened in (*self.stores, *self.caretakers):
            opened.close()


MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(tmp_path: Path, keep: Keep, later: Callable[..., Instant]) -> Iterator[MakeRig]:
    """Rigs; keywords are settings of the store, `at` another directory."""
    rigs: list[Rig] = []

    def make(at: Path | None = None, **settings: int) -> Rig:
        directory = at or tmp_path / "cache"
        whole = Settings(os.fsencode(directory), **({"limit": 1 << 24} | settings))
        rigs.append(Rig(directory, whole, keep, later()))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig()


@pytest.fixture(autouse=True)
def quick_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for all that the machine has to write; one does, test_syncing."""

    def sync(path: bytes) -> None:
        assert os.path.isdir(path)

    monkeypatch.setattr(caretaker, "Syncing", partial(Syncing, sync=sync))


Fork = Callable[[Callable[[], object]], int]


@pytest.fixture
def fork() -> Iterator[Fork]:
    """fork(work) runs `work` in a child, whose exit status it is if it is a number.

    Whoever is left when the test ends, however it does, is killed.
    """
    children: list[int] = []

    def start(work: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            try:
                status = work()
                os._exit(status if isinstance(status, int) else 0)
            except BaseException:
                traceback.print_exc()
            os._exit(250)
        children.append(child)
        return child

    yield start
    for child in children:
        with suppress(ChildProcessError):  # the test has waited for it already
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                kill(child)


def kill(child: int) -> None:
    """kill -9, which must be what it dies of."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """As many descriptors are open after the test as before."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    left = {fd for fd in set(os.listdir("/proc/self/fd")) - before if os.path.lexists(_path(fd))}
    assert not {fd: os.readlink(_path(fd)) for fd in left}


def _path(fd: str) -> str:
    return f"/proc/self/fd/{fd}"


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
