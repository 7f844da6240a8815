"""The smallest object that fills a link is found by bisection, to within a few per cent."""

from __future__ import annotations

import pytest

from perf.gigabit.network import RATE
from perf.gigabit.objects import CLOSE, Probe, object_name, smallest


@pytest.mark.parametrize("bound", [128, 129, 449, 2_000, 26_890, 32_768])
def test_it_is_found_wherever_it_lies_with_few_loads(bound: int) -> None:
    asked: list[int] = []

    def fills(size: int) -> bool:
        asked.append(size)
        return size >= bound

    found = smallest(fills, 128, 32_768)
    assert found is not None
    assert bound <= found <= max(bound * CLOSE, bound + 1)
    assert len(asked) <= 10


def test_a_server_that_never_fills_the_link_has_none() -> None:
    assert smallest(lambda size: False, 128, 32_768) is None


def test_a_load_with_a_fault_never_counts_as_full() -> None:
    probe = Probe(1000, RATE * 1.0, 10, 1.0, 0.0, 0, 0.0)
    assert probe.full
    assert not Probe(1000, RATE * 1.0, 10, 1.0, 0.0, 0, 0.0, fault="3 answers were not 2xx").full
    assert not Probe(1000, RATE * 0.98, 10, 1.0, 0.0, 0, 0.0).full


def test_objects_have_names_of_their_own() -> None:
    assert object_name(26_890) == "page.html"
    assert object_name(1000) != object_name(1001)
