"""Promises of the facts' file: complete, exact both ways, and strict."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgebox.plan.facts import Facts, FactsError, Link, Memory, Network, decode, encode


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_saved_is_read_back_equal(
    data: st.DataObject, anything: Callable[[Any], st.SearchStrategy[Any]]
) -> None:
    facts = data.draw(anything(Facts))
    assert decode(encode(facts)) == facts
    assert encode(decode(encode(facts))) == encode(facts)


def test_unknowns_are_written_as_null_so_that_a_file_shows_what_could_be_known() -> None:
    saved = json.loads(encode(Facts()))
    assert saved["memory"]["available"] is None
    assert saved["network"]["tcp_wmem"] is None
    assert saved["format"] == 1


def test_a_file_may_leave_out_what_it_does_not_know() -> None:
    assert decode(b'{"memory": {"total": 1024}}') == Facts(memory=Memory(total=1024))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"memory": {"totl": 1}}', "$.memory"),
        (b'{"memory": {"total": -1}}', "$.memory.total"),
        (b'{"memory": {"total": "1G"}}', "$.memory.total"),
        (b'{"network": {"links": [{"name": "a", "kind": "teapot"}]}}', "$.network.links[0].kind"),
        (b'{"format": 2}', "$.format"),
        (b"{", "truncated"),
    ],
)
def test_what_is_no_fact_is_refused_with_its_place(text: bytes, place: str) -> None:
    with pytest.raises(FactsError) as refused:
        decode(text)
    assert place in str(refused.value)


def test_facts_cannot_be_changed_after_they_were_gathered() -> None:
    facts = Facts(network=Network(links=(Link(name="eth0"),)))
    with pytest.raises(AttributeError):
        facts.network.links[0].speed = 1  # type: ignore[misc]
