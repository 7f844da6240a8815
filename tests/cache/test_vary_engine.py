"""No stored message is ever served to a request that its Vary excludes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.origin import Call, age, proxied
from tests.wire import request

NAMES = ("X-A", "X-B", "Cookie", "Accept-Language", "Accept-Encoding")
VALUES = ("", "1", "2", "1,2", "1 , 2", "de", "de;q=0.5, fr", "gzip", "br;q=0.1", "*")

asks = st.fixed_dictionaries({}, optional={name: st.sampled_from(VALUES) for name in NAMES})
steps = st.lists(
    st.tuples(st.sampled_from(["/a", "/b"]), asks, st.sets(st.sampled_from(NAMES), max_size=3))
    | st.just("later"),
    min_size=2,
    max_size=12,
)


def same(name: str, one: str | None, other: str | None) -> bool:
    """Whether two values of a field mean the same: nothing may be left out or added."""
    if one is None or other is None:
        # No coding that the client would not take: no preference is none at all.
        return one is other or (name == "Accept-Encoding" and not _codings(one or other or ""))
    if name in ("X-A", "X-B", "Cookie"):
        return _members(one) == _members(other)
    if name == "Accept-Language":
        return sorted(_members(one.lower())) == sorted(_members(other.lower()))
    return _codings(one) == _codings(other)


def _members(value: str) -> list[str]:
    return [member.strip() for member in value.split(",") if member.strip()]


def _codings(value: str) -> set[str]:
    """The codings that a client prefers to none."""
    members = {member.partition(";")[0] for member in _members(value)}
    return {"br", "zstd", "gzip"} if "*" in members else members & {"br", "zstd", "gzip"}


@pytest.mark.slow
@settings(max_examples=25)
@given(steps)
async def test_each_request_gets_what_was_made_for_one_like_it(
    drawn: list[tuple[str, dict[str, str], set[str]] | str],
) -> None:
    varies: set[str] = set()

    async def app(call: Call) -> None:
        told = {name: call.headers.get(name.lower()) for name in NAMES}
        vary = [f"Vary: {', '.join(sorted(varies))}"] if varies else []
        body = json.dumps([told, sorted(varies)]).encode()
        await call.answer("Cache-Control: max-age=50", *vary, body=body)

    async with proxied(app) as (server, _), server.connect() as client:
        for step in drawn:
            if isinstance(step, str):
                age(server, 20)
                continue
            target, fields, varies = step
            for _ in range(2):  # by a task, then from the lane
                lines = [f"{name}: {value}" for name, value in fields.items()]
                await client.send(request(target, *lines))
                answer = await client.read_answer()
                made_for, named = json.loads(answer.body)
                for name in named:
                    assert same(name, fields.get(name), made_for[name]), (fields, made_for)
