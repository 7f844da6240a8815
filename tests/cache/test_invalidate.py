"""An unsafe request that succeeds takes its URL out of use, and only its own origin's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebox.cache.answer import Answer
from edgebox.cache.invalidate import Invalidation, find_invalidated, is_safe
from edgebox.cache.rules import KeyRules
from edgebox.http.message import Request

Ask = Callable[..., Request]
Answers = Callable[..., Answer]
RULES = KeyRules()
PAGE = b"http://example.com/page"


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"M-SEARCH", b"get"])
@pytest.mark.parametrize("status", [200, 201, 204, 303])
def test_the_target_goes(ask: Ask, answer: Answers, method: bytes, status: int) -> None:
    assert not is_safe(method)
    found = find_invalidated(ask(method=method), answer(status=status), RULES)
    assert found == Invalidation((PAGE,))
    assert found


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_failure_changes_nothing(ask: Ask, answer: Answers, status: int) -> None:
    assert not find_invalidated(ask(method=b"POST"), answer(status=status), RULES)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS", b"PROPFIND", b"QUERY"])
def test_safe_methods_change_nothing(ask: Ask, answer: Answers, method: bytes) -> None:
    got = answer("Location: /x", 'Cache-Group-Invalidation: "g"')
    assert not find_invalidated(ask(method=method), got, RULES)


def test_location_and_content_location_go_too_but_never_another_origins(
    ask: Ask, answer: Answers
) -> None:
    own = answer("Location: /new", "Content-Location: http://example.com/page", status=201)
    assert find_invalidated(ask(method=b"POST"), own, RULES).keys == (
        PAGE,
        b"http://example.com/new",
    )
    foreign = answer("Location: http://other.example/new", "Content-Location: //other.example/x")
    assert find_invalidated(ask(method=b"POST"), foreign, RULES).keys == (PAGE,)


def test_groups_go_that_the_response_names(ask: Ask, answer: Answers) -> None:
    got = answer('Cache-Group-Invalidation: "a", "b";x')
    assert find_invalidated(ask(method=b"POST"), got, RULES).groups == (b"a", b"b")
