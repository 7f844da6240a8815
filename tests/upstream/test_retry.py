"""What is tried again, and what must not be."""

from __future__ import annotations

import pytest

from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.retry import Retry, judge


def failure(reason: Reason = Reason.RESET, **facts: bool) -> UpstreamError:
    return UpstreamError(reason, **{"unanswered": True, "resendable": True} | facts)


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS"])
def test_an_idempotent_request_goes_again_where_nothing_was_answered(method: bytes) -> None:
    assert judge(failure(), method, reused=True, left=1) is Retry.AGAIN
    assert judge(failure(), method, reused=False, left=1) is Retry.ELSEWHERE


@pytest.mark.parametrize("method", [b"POST", b"PATCH", b"FROB"])
def test_any_other_goes_again_only_if_not_an_octet_of_it_left(method: bytes) -> None:
    assert judge(failure(), method, reused=True, left=1) is Retry.GIVE_UP
    assert judge(failure(unsent=True), method, reused=True, left=1) is Retry.AGAIN


@pytest.mark.parametrize("facts", [{"unanswered": False}, {"resendable": False}])
def test_nothing_goes_again_once_an_answer_or_the_body_has_begun(facts: dict[str, bool]) -> None:
    assert judge(failure(**facts), b"GET", reused=True, left=1) is Retry.GIVE_UP


def test_nothing_goes_more_often_than_the_operator_allows() -> None:
    assert judge(failure(), b"GET", reused=True, left=0) is Retry.GIVE_UP


@pytest.mark.parametrize(
    "reason", [Reason.CONNECT_FAILED, Reason.CONNECT_TIMEOUT, Reason.TLS_FAILED]
)
def test_a_server_out_of_reach_is_passed_over_whatever_is_asked(reason: Reason) -> None:
    assert judge(failure(reason), b"POST", reused=False, left=0) is Retry.NEXT


@pytest.mark.parametrize(
    "reason",
    [
        Reason.HEAD_TIMEOUT,
        Reason.SEND_TIMEOUT,
        Reason.BAD_RESPONSE,
        Reason.REQUEST_BODY,
        Reason.NO_DESCRIPTORS,
        Reason.QUEUE_FULL,
    ],
)
def test_everything_else_is_told(reason: Reason) -> None:
    assert judge(failure(reason), b"GET", reused=False, left=1) is Retry.GIVE_UP
