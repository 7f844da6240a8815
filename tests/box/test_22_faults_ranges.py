"""Hostile ranges and conditions: bounded work, and never less than an honest answer.

The numbers are those of the project's list of fault classes. Each request is made three
times, of a file that is in RAM and of one that sendfile sends, so that every way is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.box.conftest import Arena
from tests.wire import Answer, Server, request

SIZE = 100  # of a.txt

pytestmark = pytest.mark.usefixtures("settled_root")

ways = pytest.mark.parametrize("object_size", [SIZE, SIZE - 1], ids=["ram", "sendfile"])


async def insist(server: Server, target: str, *fields: str) -> Answer:
    """The answer to a request made three times on one connection: the same each time."""
    async with server.connect() as client:
        answers = []
        for _ in range(3):
            await client.send(request(target, *fields))
            answers.append(await client.read_answer())
    assert len({(a.status, a.body, a.headers.get("content-range")) for a in answers}) == 1
    return answers[0]


@dataclass(frozen=True)
class Ranges:
    """Range fields of one class and what they get: a status, and the slice if it is 206."""

    number: int
    name: str
    values: tuple[str, ...]
    status: int
    part: tuple[int, int] = (0, SIZE)
    path: str = "/a.txt"

    def __str__(self) -> str:
        return f"{self.number:02}-{self.name}"


TABLE = [
    Ranges(32, "hundreds", (
        "bytes=" + ",".join(["0-"] * 300), "bytes=" + ",".join(f"{n}-{n}" for n in range(90)),
        "bytes=" + ",".join(["-1"] * 500), "bytes=" + "," * 2000, "bytes=0-0" + "," * 2000,
        "bytes=" + ", " * 1000 + "0-0", "bytes=" + ",".join(f"{n}-" for n in range(40)),
    ), 200),
    Ranges(32, "overlapping", (
        "bytes=0-50,10-60,20-70", "bytes=0-99,0-99", "bytes=0-,0-", "bytes=0-40,40-80,80-99,0-0",
        "bytes=-100,-100,-100",
    ), 200),
    Ranges(33, "clamped", (
        "bytes=90-100", "bytes=90-99999999999999999999", "bytes=90-" + "9" * 5000, "bytes=-10",
        "bytes=90-18446744073709551615", "bytes=0000000000000000000000090-", "bytes=90-",
    ), 206, (90, 100)),
    Ranges(33, "suffix-beyond", (
        "bytes=-101", "bytes=-99999999999999999999", "bytes=-" + "9" * 5000,
        "bytes=-18446744073709551617",
    ), 206),
    Ranges(33, "out-of-reach", (
        "bytes=99999999999999999999-", "bytes=18446744073709551616-18446744073709551617",
        "bytes=" + "9" * 5000 + "-", "bytes=-0", "bytes=100-", "bytes=9223372036854775808-",
        "bytes=99999999-, 999999999-",
    ), 416),
    Ranges(34, "malformed", (
        "bytes=", "bytes", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-1-2", "bytes=0x0-0x9",
        "bytes=+0-1", "bytes=0--1", "bytes 0-1", "bytes=0-1;", "bytes=0-1,x", "bytes=1_0-20",
        "bytes=0.0-1", "bytes=\xb2-\xb3", "bytes = 0-1", "bytes=0 - 1", "", "=0-1", "bytes==0-1",
    ), 200),
    Ranges(34, "unknown-unit", ("octets=0-1", "items=0-1", "none", "x=", "bytess=0-1"), 200),
    Ranges(35, "empty-file", (
        "bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-", "bytes=0-0,1-1", "x=1",
    ), 200, (0, 0), "/empty.txt"),
]  # fmt: skip


@ways
@pytest.mark.parametrize("ranges", TABLE, ids=str)
async def test_it_is_clamped_refused_or_ignored(
    arena: Arena, root: Path, ranges: Ranges, object_size: int
) -> None:
    whole = (root / ranges.path[1:]).read_bytes()
    async with arena(files={"object_size": object_size}) as server:
        for value in ranges.values:
            answer = await insist(server, ranges.path, f"Range: {value}")
            assert answer.status == ranges.status, value[:80]
            if ranges.status == 416:
                assert answer.headers["content-range"] == f"bytes */{len(whole)}"
            else:
                assert answer.body == whole[slice(*ranges.part)], value[:80]


@ways
async def test_32_unsorted_ranges_come_in_the_order_asked(
    arena: Arena, root: Path, object_size: int
) -> None:
    whole = (root / "a.txt").read_bytes()
    async with arena(files={"object_size": object_size}) as server:
        answer = await insist(server, "/a.txt", "Range: bytes=90-94, 0-4, -3")
    assert answer.status == 206
    boundary = answer.headers["content-type"].partition("boundary=")[2].encode()
    parts = answer.body.split(b"--" + boundary)[1:-1]
    assert [part.partition(b"\r\n\r\n")[2][:-2] for part in parts] == [
        whole[90:95], whole[:5], whole[-3:],
    ]  # fmt: skip


@ways
async def test_32_what_is_sent_is_bounded(arena: Arena, object_size: int) -> None:
    async with arena(files={"object_size": object_size}) as server:
        for count in (2, 15, 16, 17, 64):
            value = ",".join(f"{n}-{n}" for n in range(count))
            answer = await insist(server, "/a.txt", f"Range: bytes={value}")
            assert answer.status == (206 if count <= 16 else 200)
            assert len(answer.body) <= SIZE + 17 * 200  # the heads of sixteen parts


@ways
async def test_36_only_a_strong_and_current_if_range_lets_a_range_through(
    arena: Arena, object_size: int
) -> None:
    async with arena(files={"object_size": object_size}) as server:
        fields = (await insist(server, "/a.txt")).headers
        tag, date = fields["etag"], fields["last-modified"]
        for condition, status in [
            (tag, 206), ("W/" + tag, 200), ('"stale"', 200), (tag[:-1], 200), (f"{tag}, x", 200),
            ("*", 200), ("", 200), ("Mon, 30 Nov 1998 10:00:00 GMT", 200), (tag.strip('"'), 200),
            ("Sat, 30 Nov 2047 10:00:00 GMT", 200), (date.replace("GMT", "UTC"), 200),
        ]:  # fmt: skip
            part = await insist(server, "/a.txt", "Range: bytes=0-4", f"If-Range: {condition}")
            assert part.status == status, condition
            assert len(part.body) == (5 if status == 206 else SIZE)


@ways
async def test_37_if_none_match_decides_beside_if_modified_since(
    arena: Arena, object_size: int
) -> None:
    past, future = "Mon, 30 Nov 1998 10:00:00 GMT", "Sat, 30 Nov 2047 10:00:00 GMT"
    async with arena(files={"object_size": object_size}) as server:
        tag = (await insist(server, "/a.txt")).headers["etag"]
        for match, since, status in [
            ('"other"', future, 200), ('"other"', past, 200), (tag, past, 304),
            ("W/" + tag, past, 304), (f'"a", {tag}', past, 304), ("*", past, 304),
            ("not a tag", future, 200), (tag, "not a date", 304),
        ]:  # fmt: skip
            conditions = (f"If-None-Match: {match}", f"If-Modified-Since: {since}")
            answer = await insist(server, "/a.txt", *conditions)
            assert answer.status == status, (match, since)


def test_no_class_of_this_section_is_missing() -> None:
    special = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    assert special | {ranges.number for ranges in TABLE} == set(range(32, 38))
