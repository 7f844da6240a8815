"""Kernel lists of cores are read as sets; facts that cannot be read are left out."""

from __future__ import annotations

import os

import pytest

from perf import machine


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0\n", {0}), ("0-2,8", {0, 1, 2, 8}), ("0,4\n", {0, 4}), ("", set())],
)
def test_a_list_of_cores_is_a_set(text: str, cores: set[int]) -> None:
    assert machine.expand(text) == cores


def test_server_and_load_tool_get_different_cores_if_there_are_two() -> None:
    server, load = machine.choose_cores()
    if len(os.sched_getaffinity(0)) < 2:
        assert (server, load) == (None, None)
    else:
        assert server is not None
        assert server != load


def test_no_fact_is_empty() -> None:
    facts = machine.facts()
    assert "Python" in facts
    assert "kernel" in facts
    assert all(facts.values())
