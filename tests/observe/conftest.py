"""Pages that some workers have published to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import NUMBERS, Pages
from edgebox.observe.status import snapshot
from edgebox.observe.status.history import History
from edgebox.observe.status.snapshot import Snapshot

NOW = 1_800_000_000
COUNTED = {name: 200 - at for at, name in enumerate(NUMBERS)}

Look = Callable[[], Snapshot]


@pytest.fixture
def pages() -> Iterator[Pages]:
    """Two workers, of which each counted as COUNTED says; and a plan."""
    made = Pages.create()
    gauges = {"idle": 5, "tasks": 2, "connections": 7, "connections_limit": 100, "ram_held": 2048}
    gauges |= {"ram_budget": 4096, "ram_capacity": 4000, "ram_objects": 3, "disk_held": 900}
    for slot in (0, 7):
        took = Histogram()
        took.record(0.02, 100)
        made.slot(slot).claim(4000 + slot, 1)
        sheet = {"hot": [["x/", 10, 1000], [f"only-{slot}/", 1, 10]]}
        told = gauges | {"started": NOW - 100 - slot, "lag_us": 1000 * (slot + 1)}
        made.slot(slot).publish(
            COUNTED | told, {"hit_first": took, "hit_total": took}, json.dumps(sheet).encode()
        )
    made.board.claim(1, 1)
    made.board.publish({}, {}, b'{"plan":{"goodput":117600000,"interface":"eth0"}}')
    yield made
    made.close()


@pytest.fixture
def look(pages: Pages) -> Look:
    history = History()
    history.add(0.0, pages.totals())
    return lambda: snapshot.take(pages, history, NOW, "box")
