"""A client that wants a part gets a part, whether or not anything of the answer is stored."""

from __future__ import annotations

import pytest

from tests.origin import Call, proxied

PRIVATE = "Cache-Control: no-store"
WHOLE = bytes(range(256)) * 8192


async def obliging(call: Call) -> None:
    """Two megabytes, or the part of them that is asked for."""
    wanted = call.headers.get("range")
    if wanted is None:
        await call.answer(PRIVATE, 'ETag: "v1"', body=WHOLE)
        return
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    part = WHOLE[int(first) : int(last) + 1]
    position = f"Content-Range: bytes {first}-{last}/{len(WHOLE)}"
    await call.answer(PRIVATE, position, 'ETag: "v1"', status=206, body=part)


async def short(call: Call) -> None:
    """Ten octets, whatever is asked for."""
    await call.answer(PRIVATE, 'ETag: "v1"', body=b"0123456789")


async def test_a_part_is_cut_out_of_what_is_not_stored() -> None:
    async with proxied(obliging) as (server, origin):
        part = await server.get("/film", "Range: bytes=256-259")
        assert (part.status, part.body) == (206, bytes(range(4)))
        assert part.headers["content-range"] == f"bytes 256-259/{len(WHOLE)}"
        assert len(origin.calls) == 1


async def test_for_a_part_far_inside_the_app_is_asked_for_that_part() -> None:
    async with proxied(obliging) as (server, origin):
        part = await server.get("/film", "Range: bytes=2000000-2000003")
        assert (part.status, part.body) == (206, WHOLE[2_000_000:2_000_004])
        assert [call.headers.get("range") for call in origin.calls] == [
            None,
            "bytes=2000000-2000003",
        ]


async def test_a_part_of_a_short_answer_is_cut_out_of_what_came_with_its_head() -> None:
    async with proxied(short) as (server, _):
        part = await server.get("/a", "Range: bytes=-3")
        assert (part.status, part.body, part.headers["content-length"]) == (206, b"789", "3")


async def test_a_part_beyond_the_end_gets_416_the_first_time_too() -> None:
    async with proxied(short) as (server, _):
        answer = await server.get("/a", "Range: bytes=10-")
        assert (answer.status, answer.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    ("condition", "status"), [('If-Range: "v1"', 206), ('If-Range: "v0"', 200)]
)
async def test_a_part_of_another_version_is_not_what_was_asked_for(
    condition: str, status: int
) -> None:
    async with proxied(short) as (server, _):
        assert (await server.get("/a", "Range: bytes=0-1", condition)).status == status


async def test_an_answer_of_unknown_length_is_asked_for_again_with_the_range() -> None:
    async def app(call: Call) -> None:
        if "range" in call.headers:
            await call.answer(PRIVATE, "Content-Range: bytes 0-1/*", status=206, body=b"01")
            return
        await call.begin(PRIVATE)
        await call.chunk(b"0123")

    async with proxied(app) as (server, _):
        part = await server.get("/a", "Range: bytes=0-1")
        assert (part.status, part.body) == (206, b"01")


async def test_a_precondition_that_fails_gets_412_though_the_app_was_not_told_of_it() -> None:
    async with proxied(short) as (server, _):
        assert (await server.get("/a", 'If-Match: "v0"')).status == 412


async def test_an_answer_that_is_coming_in_says_416_too() -> None:
    async def app(call: Call) -> None:
        await call.answer("Cache-Control: max-age=60", body=b"0123456789")

    async with proxied(app) as (server, _):
        answer = await server.get("/a", "Range: bytes=99-")
        assert (answer.status, answer.headers["content-range"]) == (416, "bytes */10")
        assert (await server.get("/a")).body == b"0123456789"
