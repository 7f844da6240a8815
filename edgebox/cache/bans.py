"""Bans: stored answers told to go by what they are, not by name. Pure.

    host = example.com and path ~ "^/news/" and header.Content-Type = text/html

    ban  = test *( "and" test )
    test = FIELD ( "=" / "!=" / "~" / "!~" ) VALUE

FIELD is url (as keys are: http://HOST/PATH?QUERY), host, path (with the query, as it was sent),
status, or header.NAME, a field of the stored answer, empty where it has none. ~ is a regular
expression that may match anywhere. A value is one word, or stands in quotes.

A ban concerns what was stored before it, as in Varnish. What is in RAM is gone through at
once; on disk a file is asked when it is found, or when the housekeeper comes by.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from edgebox.cache.entry import StoredResponse

LONGEST = 1900  # octets: what the disk store can write down of a purge
FIELDS = ("url", "host", "path", "status", "header.NAME")

_TEST = re.compile(
    r"""\s*(?P<field>[A-Za-z]+(?:\.[!#$%&'*+\-.^_`|~0-9A-Za-z]+)?)
        \s*(?P<operator>==|!?[=~])
        \s*(?P<value>"(?:[^"\\]|\\.)*"|[^\s"][^\s]*)
        \s*(?P<more>and\b)?""",
    re.VERBOSE | re.DOTALL,
)


class BanError(ValueError):
    """A text that is no ban; the message is for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class _Test:
    field: str
    holds: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Ban:
    """All of its tests hold for what it concerns."""

    text: str
    tests: tuple[_Test, ...]

    def matches(self, key: bytes, entry: StoredResponse) -> bool:
        """Whether it concerns the response stored under `key`."""
        return all(test.holds(_value(test.field, key, entry)) for test in self.tests)


def parse_ban(text: str) -> Ban:
    """The ban that a text means. Raises BanError."""
    try:
        if len(text.encode()) > LONGEST:
            raise BanError(f"a ban may have {LONGEST} octets")
    except UnicodeEncodeError as problem:  # octets of a command line that are no text
        raise BanError(f"at character {problem.start + 1}: this is no UTF-8") from problem
    tests, at = [], 0
    while True:
        found = _TEST.match(text, at)
        if found is None:
            raise BanError(f"at character {at + 1}: want FIELD = VALUE; also !=, ~ and !~")
        tests.append(_test(found))
        at = found.end()
        if not found["more"]:
            break
    if at < len(text):
        raise BanError(f'at character {at + 1}: only "and" may come after a test')
    return Ban(text, tuple(tests))


def maybe_ban(value: bytes) -> Ban | None:
    """The ban that was written down so; None for what another version may have written."""
    try:
        return parse_ban(value.decode())
    except ValueError:  # BanError and UnicodeDecodeError are
        return None


def _test(found: re.Match[str]) -> _Test:
    field, written, value = found["field"].lower(), found["operator"], found["value"]
    if field not in ("url", "host", "path", "status") and not field.startswith("header."):
        raise BanError(f'there is no field "{found["field"]}"; there are {", ".join(FIELDS)}')
    if value.startswith('"'):
        value = value[1:-1].replace('\\"', '"')
    if not written.endswith("~"):
        wanted = value.lower() if field == "host" else value
        compare = operator.ne if written.startswith("!") else operator.eq
        return _Test(field, lambda seen: bool(compare(seen, wanted)))
    try:
        search = re.compile(value, re.IGNORECASE if field == "host" else 0).search
    except (re.error, RecursionError, OverflowError) as problem:
        raise BanError(f"{value} is no regular expression: {problem}") from None
    wanted_found = not written.startswith("!")
    return _Test(field, lambda seen: (search(seen) is not None) is wanted_found)


def _value(field: str, key: bytes, entry: StoredResponse) -> str:
    if field == "status":
        return str(entry.status)
    if field.startswith("header."):
        name = field.removeprefix("header.").encode()
        return b", ".join(v for n, v in entry.fields if n.lower() == name).decode("latin-1")
    url = key.decode("latin-1")
    if field == "url":
        return url
    authority, slash, rest = url.partition("://")[2].partition("/")
    return slash + rest if field == "path" else _without_port(authority)


def _without_port(authority: str) -> str:
    host, colon, port = authority.rpartition(":")
    return host if colon and port.isdigit() else authority
