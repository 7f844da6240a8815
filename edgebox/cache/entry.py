"""A stored response but for its octets: all that policy needs to know of it later.

Immutable, small, and writable: the same record lies in RAM and, encoded, at the head of a
file of the disk store. It does not know its key, its body, or where either is.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.fields import storable_fields
from edgebox.cache.freshness import Freshness, initial_age
from edgebox.cache.rules import CacheRules
from edgebox.cache.tags import parse_groups, parse_tags
from edgebox.cache.targeted import select_control
from edgebox.cache.vary import Variant, describe_variant
from edgebox.http.dates import format_date
from edgebox.http.headers import Fields, Headers


# The tag is the version of the format: what another version wrote does not decode.
class StoredResponse(Struct, frozen=True, kw_only=True, array_like=True, tag="edgebox-entry-1"):
    """Head and circumstances of a stored response.

    `fields` are as stored: no Content-Length, no Age, nothing of one hop; Date is there.
    `received_*` is when the head arrived, or when it was last renewed. `invalid`: to be
    asked for before any use, whatever freshness says. `origin` is whose answer it is, in the
    disk tier's terms; () in RAM, where all are of one configuration.
    """

    status: int
    fields: Fields
    date: int
    received_wall: float
    received_steady: float
    initial_age: float
    freshness: Freshness
    variant: Variant
    etag: bytes | None = None
    last_modified: bytes | None = None
    tags: tuple[bytes, ...] = ()
    groups: tuple[bytes, ...] = ()
    invalid: bool = False
    origin: tuple[bytes, ...] = ()

    def age(self, now: Instant) -> float:
        """Seconds since the upstream made it or vouched for it (RFC 9111 §4.2.3)."""
        return self.initial_age + max(0.0, now.steady - self.received_steady)

    def remaining(self, now: Instant) -> float:
        """Seconds for which it stays fresh; negative: how long it has been stale."""
        return self.freshness.lifetime - self.age(now)

    def fields_at(self, now: Instant) -> Fields:
        """The fields to send, with Age to the second."""
        return (*self.fields, (b"Age", b"%d" % self.age(now)))

    def invalidated(self) -> StoredResponse:
        """Marked for validation before any further use (RFC 9111 §4.4)."""
        return msgspec.structs.replace(self, invalid=True)

    def expired(self, now: Instant) -> StoredResponse:
        """Stale from now on, so that the windows for stale use begin: a soft purge."""
        lifetime = min(self.freshness.lifetime, int(self.age(now)))
        freshness = msgspec.structs.replace(self.freshness, lifetime=lifetime)
        return msgspec.structs.replace(self, freshness=freshness)


def describe(
    asked: Headers, answer: Answer, freshness: Freshness, rules: CacheRules
) -> StoredResponse:
    """The record of an answer that `storing.may_store` lets in; `asked` its request's fields."""
    headers = answer.headers
    dated = answer.date_in(b"last-modified") is not None
    control = select_control(headers, rules.targets)
    return StoredResponse(
        status=answer.status,
        fields=with_date(storable_fields(headers, control, rules.set_cookie), answer),
        date=answer.date(),
        received_wall=answer.received.wall,
        received_steady=answer.received.steady,
        initial_age=initial_age(answer),
        freshness=freshness,
        variant=describe_variant(asked, headers, rules.codings),
        etag=next(iter(headers.all(b"etag")), None),
        last_modified=headers.all(b"last-modified")[0] if dated else None,
        tags=parse_tags(headers),
        groups=parse_groups(headers),
    )


def with_date(fields: Fields, answer: Answer) -> Fields:
    """`fields` of an answer with the Date that it should have had (RFC 9110 §6.6.1)."""
    if answer.date_in(b"date") is not None:
        return fields
    supplied = (b"Date", format_date(answer.date()))
    return (*(field for field in fields if field[0].lower() != b"date"), supplied)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StoredResponse)


def encode(stored: StoredResponse) -> bytes:
    return _encoder.encode(stored)


def maybe_decode(octets: bytes) -> StoredResponse | None:
    """What `encode` wrote; None for anything else, cut short or from another version."""
    try:
        return _decoder.decode(octets)
    except msgspec.DecodeError:  # ValidationError is one
        return None


def after_restart(stored: StoredResponse, now: Instant) -> StoredResponse:
    """The record for a steady clock that began anew: a reboot, or another machine's disk.

    The time in between is known by the wall clock only. If that says that it was stored
    in the future, nothing is known: it is to be asked for.
    """
    away = now.wall - stored.received_wall
    return msgspec.structs.replace(
        stored,
        received_steady=now.steady - max(0.0, away),
        invalid=stored.invalid or away < 0,
    )
