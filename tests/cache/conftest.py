"""Requests, answers and stored responses in a line each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.rules import CacheRules
from edgebox.cache.storing import may_store
from edgebox.http.dates import format_date
from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import Target

DEFAULTS = CacheRules()
WALL, STEADY = 1_900_000_000.0, 5_000.0


def _headers(lines: tuple[str, ...]) -> Headers:
    return Headers(
        (name.encode("latin-1"), value.strip().encode("latin-1"))
        for name, _, value in (line.partition(":") for line in lines)
    )


@pytest.fixture(scope="session")
def headers() -> Callable[..., Headers]:
    """headers("Name: value", …)."""
    return lambda *lines: _headers(lines)


@pytest.fixture(scope="session")
def date() -> Callable[[int], str]:
    """An HTTP-date so many seconds from the moment at which answers arrive."""
    return lambda offset: format_date(int(WALL) + offset).decode()


@pytest.fixture(scope="session")
def later() -> Callable[[float], Instant]:
    """The instant so many seconds after answers arrive, on both clocks."""
    return lambda seconds=0.0: Instant(WALL + seconds, STEADY + seconds)


@pytest.fixture(scope="session")
def ask() -> Callable[..., Request]:
    """ask("Name: value", …, method=b"GET", target=b"/page")."""

    def build(*lines: str, method: bytes = b"GET", target: bytes = b"/page") -> Request:
        path, mark, query = target.partition(b"?")
        taken_apart = Target(target, path, path, query if mark else None)
        return Request(method, taken_apart, b"example.com", _headers(("Host: example.com", *lines)))

    return build


@pytest.fixture(scope="session")
def answer() -> Callable[..., Answer]:
    """answer("Name: value", …, status=200, took=0.0, at=0.0); its Date is added if not given."""

    def build(*lines: str, status: int = 200, took: float = 0.0, at: float = 0.0) -> Answer:
        received = Instant(WALL + at, STEADY + at)
        if not any(line.lower().startswith("date:") for line in lines):
            lines = (f"Date: {format_date(int(received.wall)).decode()}", *lines)
        sent = Instant(received.wall - took, received.steady - took)
        return Answer(status, _headers(lines), sent, received)

    return build


@pytest.fixture(scope="session")
def keep(
    ask: Callable[..., Request], answer: Callable[..., Answer]
) -> Callable[..., StoredResponse]:
    """The record of a response with these fields; refuses what policy refuses."""

    def build(
        *lines: str, asked: tuple[str, ...] = (), rules: CacheRules = DEFAULTS, **more: object
    ) -> StoredResponse:
        request, got = ask(*asked), answer(*lines, **more)
        decision = may_store(request, got, rules)
        assert decision.stores, decision.reason
        return describe(request.headers, got, decision.freshness, rules)

    return build
