"""Promises of resizing: at once, within the ledger, and refused where it makes no sense."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from edgebox.config.schema import Config, Files, Limits
from edgebox.listen.admission import Admission
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet
from edgebox.ops.control.wire import Refused
from edgebox.ops.sizing.resizing import Resizer
from edgebox.ops.sizing.sizes import sizes

MIB = 1024 * 1024


@pytest.fixture
def resizer() -> Iterator[Resizer]:
    working_set = WorkingSet(10 * MIB, Ledger(12 * MIB))
    for number in range(10):
        working_set.put(number, object(), MIB)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Resizer(Admission(100), working_set, [listener])


async def test_what_is_too_much_is_given_up_at_once(resizer: Resizer) -> None:
    told = await resizer.resize({"connections": 50, "working_set": 3 * MIB})
    assert told == {"connections": 50, "working_set": 3 * MIB, "given_up": 7 * MIB}
    assert resizer.admission.limit == 50
    assert resizer.working_set.statistics().held == 3 * MIB
    assert resizer.working_set.ledger.budget == 5 * MIB


async def test_what_grew_can_be_filled(resizer: Resizer) -> None:
    await resizer.resize({"working_set": 20 * MIB})
    for number in range(10, 20):
        assert resizer.working_set.put(number, object(), MIB)
    assert resizer.working_set.statistics().objects == 20
    assert resizer.admission.limit == 100


@pytest.mark.parametrize(
    "nonsense",
    [{"connections": 0}, {"connections": "many"}, {"working_set": -1}, {"working_set": True},
     {"connections": 5, "working_set": 1.5}],
)  # fmt: skip
async def test_what_is_no_size_changes_nothing(
    resizer: Resizer, nonsense: dict[str, object]
) -> None:
    with pytest.raises(Refused):
        await resizer.resize(nonsense)
    assert resizer.admission.limit == 100
    assert resizer.working_set.statistics().capacity == 10 * MIB


async def test_new_connections_get_the_new_bound_of_what_is_unsent(resizer: Resizer) -> None:
    await resizer.resize({"send_buffer": 20_000})
    (listener,) = resizer.listeners
    with socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            bound = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
    assert bound == 20_000


async def test_what_the_supervisor_tells_is_what_a_worker_understands(resizer: Resizer) -> None:
    config = Config(
        limits=Limits(connections=7, send_buffer=65536), files=Files(working_set=2 * MIB)
    )
    told = await resizer.resize(dict(sizes(config)))
    assert (told["connections"], told["working_set"]) == (7, 2 * MIB)
