"""Names that a request bears through several servers: X-Request-Id, and W3C Trace Context.

Pure: what is to be new is handed in. A trace-id is whose story it is, a span-id who told this
part of it (https://www.w3.org/TR/trace-context/, level 1). What a stranger sends as a request
id goes into logs and headers of others, so only short ids of harmless octets are passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgebox.http.headers import Fields

REQUEST_ID = b"x-request-id"
TRACEPARENT = b"traceparent"
TRACESTATE = b"tracestate"

# Hex digits, UUIDs, base64, and what load balancers make of these.
_SOUND_ID = re.compile(rb"[0-9A-Za-z._~+/=:@-]{1,128}")
# A version above 00 may go on behind the flags (§3.2.4), ff is none.
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = b"01"

# So many random octets.
Random = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class TracingRules:
    """`request_id`: "pass" keeps a client's and makes one where there is none, "make" makes
    one always, "off" touches none. `span`: we are a span of the trace, and say so."""

    request_id: Literal["pass", "make", "off"] = "off"
    span: bool = False


UNTRACED = TracingRules()


class Trace(NamedTuple):
    """A traceparent, taken apart; each part in lower-case hexadecimal digits."""

    trace_id: bytes
    span_id: bytes
    flags: bytes


class Traced(NamedTuple):
    """The fields that go on, and the names that are in them now; b"" for none."""

    fields: Fields
    request_id: bytes
    traceparent: bytes


def is_sound(request_id: bytes) -> bool:
    """Whether a client's X-Request-Id may be passed on and logged as it is."""
    return _SOUND_ID.fullmatch(request_id) is not None


def parse_traceparent(value: bytes) -> Trace | None:
    """None where it is malformed, or a part that must not be zero is (§3.2.2)."""
    parts = _TRACEPARENT.fullmatch(value)
    if parts is None or (parts[1] == b"00" and parts[5] is not None):
        return None
    trace = Trace(parts[2], parts[3], parts[4])
    return None if not trace.trace_id.strip(b"0") or not trace.span_id.strip(b"0") else trace


def traced(fields: Fields, rules: TracingRules, random: Random) -> Traced:
    """`fields` of a request as the next server is to get them."""
    request_id, fields = _name_request(fields, rules, random)
    traceparent = _only(fields, TRACEPARENT)
    if rules.span:
        trace = parse_traceparent(traceparent)
        # tracestate belongs to the trace that it came with (§3.3.1).
        dropped = (TRACEPARENT,) if trace is not None else (TRACEPARENT, TRACESTATE)
        trace = trace or Trace(random(16).hex().encode(), b"", _SAMPLED)
        traceparent = b"00-%b-%b-%b" % (trace.trace_id, random(8).hex().encode(), trace.flags)
        fields = (*_without(fields, dropped), (TRACEPARENT, traceparent))
    return Traced(fields, request_id, traceparent)


def _name_request(fields: Fields, rules: TracingRules, random: Random) -> tuple[bytes, Fields]:
    given = _only(fields, REQUEST_ID)
    if rules.request_id == "off":
        return (given if is_sound(given) else b""), fields
    if rules.request_id == "pass" and is_sound(given):
        return given, fields
    request_id = random(16).hex().encode()
    return request_id, (*_without(fields, (REQUEST_ID,)), (b"X-Request-Id", request_id))


def _only(fields: Fields, name: bytes) -> bytes:
    """The value of a field that may be there once; b"" where it is not there, or twice."""
    values = [value for given, value in fields if given.lower() == name]
    return values[0] if len(values) == 1 else b""


def _without(fields: Fields, names: tuple[bytes, ...]) -> Fields:
    return tuple(field for field in fields if field[0].lower() not in names)
