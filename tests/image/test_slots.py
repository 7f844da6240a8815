"""A slot holds a whole system or none, and only what may be tried is put on trial."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

SYSTEM = b"hsqs" + bytes(range(256)) * 8192  # more than one chunk


@pytest.fixture
def appliance(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """`appliance` on a box that runs from slot a; the slots are files, the variables a dict."""
    module = script("usr/sbin/appliance")
    values: dict[str, str] = {"good": "a", "trial": "", "tries": "0"}

    @contextmanager
    def environment() -> Iterator[dict[str, str]]:
        yield values

    for number in "34":
        (tmp_path / number).write_bytes(b"old" * 1000)
    monkeypatch.setattr(module, "environment", environment)
    monkeypatch.setattr(module, "running", lambda: "a")
    monkeypatch.setattr(module, "device", lambda number: tmp_path / number)
    return module


def variables(appliance: ModuleType) -> dict[str, str]:
    with appliance.environment() as values:
        return dict(values)


def test_an_upgrade_goes_into_the_other_slot_and_is_tried_three_times(
    appliance: ModuleType, tmp_path: Path
) -> None:
    appliance.upgrade(io.BytesIO(SYSTEM))
    assert (tmp_path / "4").read_bytes() == SYSTEM
    assert (tmp_path / "3").read_bytes() == b"old" * 1000
    assert variables(appliance) == {"good": "a", "trial": "b", "tries": "3"}


def test_what_is_no_system_is_not_written(appliance: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no system"):
        appliance.upgrade(io.BytesIO(b"<html>"))
    assert (tmp_path / "4").read_bytes() == b"old" * 1000
    assert not variables(appliance)["trial"]


def test_an_upgrade_that_ends_in_the_middle_leaves_nothing_that_could_be_mounted(
    appliance: ModuleType, tmp_path: Path
) -> None:
    class Cut(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise ConnectionResetError
            return super().read(size)

    with pytest.raises(ConnectionResetError):
        appliance.upgrade(Cut(SYSTEM))
    assert (tmp_path / "4").read_bytes()[:4] == bytes(4)
    assert not variables(appliance)["trial"]


def test_what_the_check_refuses_is_not_tried_and_cannot_be_mounted(
    appliance: ModuleType, tmp_path: Path
) -> None:
    seen = []

    def check(contents: Iterator[bytes]) -> None:
        seen.append(b"".join(contents))
        raise SystemExit("refused")

    with pytest.raises(SystemExit, match="refused"):
        appliance.fill(io.BytesIO(SYSTEM), check)
    assert seen == [SYSTEM]
    assert (tmp_path / "4").read_bytes()[:4] == bytes(4)
    assert not variables(appliance)["trial"]


def test_while_a_system_is_on_trial_no_other_is_taken(appliance: ModuleType) -> None:
    appliance.upgrade(io.BytesIO(SYSTEM))
    with pytest.raises(SystemExit, match="on trial"):
        appliance.upgrade(io.BytesIO(SYSTEM))
