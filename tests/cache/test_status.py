"""Cache-Status says what was done and why, as a structured list (RFC 9211)."""

from __future__ import annotations

import http_sf
import pytest

from edgebox.cache.reasons import ServeReason, StoreReason
from edgebox.cache.status import Handling, add_cache_status, cache_status
from edgebox.http.headers import Headers


@pytest.mark.parametrize(
    ("handling", "member"),
    [
        (Handling(ServeReason.FRESH, remaining=9), b"edgebox; hit; ttl=9"),
        (
            Handling(ServeReason.WHILE_REVALIDATE, remaining=-3),
            b"edgebox; hit; ttl=-3; detail=while-revalidate",
        ),
        (
            Handling(ServeReason.NOTHING_STORED, forward_status=200, stored=True, remaining=60),
            b"edgebox; fwd=uri-miss; fwd-status=200; stored; ttl=60",
        ),
        (
            Handling(ServeReason.NO_VARIANT, forward_status=200, why=StoreReason.SET_COOKIE),
            b"edgebox; fwd=vary-miss; fwd-status=200; detail=set-cookie",
        ),
        (
            Handling(ServeReason.NOTHING_STORED, collapsed=True),
            b"edgebox; fwd=uri-miss; collapsed",
        ),
        (
            Handling(ServeReason.NOTHING_STORED, collapsed=False),
            b"edgebox; fwd=uri-miss; collapsed=?0",
        ),
        (
            Handling(ServeReason.STALE_IF_ERROR, forward_status=503, remaining=-1),
            b"edgebox; fwd=stale; fwd-status=503; ttl=-1; detail=stale-if-error",
        ),
        (Handling(ServeReason.ONLY_IF_CACHED), b"edgebox; detail=only-if-cached"),
    ],
)
def test_a_member_reads_like_the_handling(handling: Handling, member: bytes) -> None:
    assert cache_status(b"edgebox", handling) == member


@pytest.mark.parametrize("name", [b"edgebox", b"edge 3", b'a"b\\c', b"10.0.0.1:80"])
def test_every_member_is_valid_whatever_the_name_and_reason(name: bytes) -> None:
    for reason in [*ServeReason, *StoreReason]:
        serve = reason if isinstance(reason, ServeReason) else ServeReason.STALE
        member = cache_status(name, Handling(serve, 200, True, False, -1, reason))
        [(item, _)] = http_sf.parse(member, tltype="list")
        assert str(item).encode() == name


def test_caches_nearer_to_the_origin_come_first() -> None:
    fields = add_cache_status(((b"Cache-Status", b"Origin; hit"),), b"edgebox; hit")
    assert Headers(fields).get(b"cache-status") == b"Origin; hit, edgebox; hit"
