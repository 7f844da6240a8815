"""From a stored record to what one client gets: validators, ranges, fields."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.cache.answer import Instant
from edgebox.cache.answering import face_of, from_kept, told
from edgebox.cache.coding import NOTHING_CODED
from edgebox.cache.entry import StoredResponse
from edgebox.cache.reasons import ServeReason
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling
from edgebox.files.entry import OpenFile
from edgebox.http.headers import Headers
from edgebox.http.message import FileSlice, Request, Response

Keep = Callable[..., StoredResponse]
Ask = Callable[..., Request]
Later = Callable[..., Instant]
HOUR = "Cache-Control: max-age=3600"
BODY = b"0123456789"


def render(kept: Kept, request: Request, now: Instant) -> Response:
    face = face_of(kept, request.headers, NOTHING_CODED)
    return from_kept(kept, face, request, Handling(ServeReason.FRESH, remaining=5), b"edgebox", now)


def in_ram(entry: StoredResponse) -> Kept:
    return Kept(entry, len(BODY), BODY)


def test_what_is_in_ram_may_be_repeated_and_says_so_in_its_fields(
    keep: Keep, ask: Ask, later: Later
) -> None:
    response = render(in_ram(keep(HOUR, "Content-Type: a/b", "X: y")), ask(), later(7))
    headers = Headers(response.fields)
    assert (response.status, response.body, response.remember) == (200, BODY, True)
    assert (response.forwarded, response.label) == (True, "fresh")
    assert headers.all(b"age") == [b"7"]
    assert headers.all(b"content-type") == [b"a/b"]
    assert headers.all(b"x") == [b"y"]
    assert headers.all(b"cache-status") == [b"edgebox; hit; ttl=5"]


def test_an_error_is_repeated_as_it_came(keep: Keep, ask: Ask, later: Later) -> None:
    entry = keep(HOUR, status=404)
    response = render(in_ram(entry), ask("Range: bytes=0-1", "If-None-Match: *"), later())
    assert (response.status, response.body) == (404, BODY)


def test_a_part_of_a_file_is_a_slice_of_it(
    keep: Keep, ask: Ask, later: Later, tmp_path: Path
) -> None:
    (tmp_path / "stored").write_bytes(b"head" + BODY)
    file = OpenFile(os.open(tmp_path / "stored", os.O_RDONLY))
    kept = Kept(keep(HOUR), len(BODY), None, file, offset=4)
    part = render(kept, ask("Range: bytes=2-4"), later())
    assert isinstance(part.body, FileSlice)
    assert (part.body.offset, part.body.length, part.remember) == (6, 3, False)
    part.release()
    file.release()
    with pytest.raises(ValueError, match="closed"):
        file.acquire()


@pytest.mark.parametrize(("seconds", "status"), [(0, 206), (1, 206), (2, 200)])
def test_a_date_counts_for_if_range_only_where_date_says_that_it_is_strong(
    keep: Keep, ask: Ask, later: Later, date: Callable[[int], str], seconds: int, status: int
) -> None:
    """RFC 9110 §8.8.2.2: what changed in the second in which it was sent may have changed after."""
    entry = keep(HOUR, f"Date: {date(0)}", f"Last-Modified: {date(-2 + seconds)}")
    wanted = ask("Range: bytes=0-1", f"If-Range: {date(-2 + seconds)}")
    assert render(in_ram(entry), wanted, later(1000)).status == status


def test_several_ranges_are_parts_of_one_answer(keep: Keep, ask: Ask, later: Later) -> None:
    response = render(in_ram(keep(HOUR, 'ETag: "1"')), ask("Range: bytes=0-1,-1"), later())
    assert response.status == 206
    assert isinstance(response.body, bytes)
    assert b"Content-Range: bytes 9-9/10" in response.body
    kind = Headers(response.fields).get(b"content-type") or b""
    assert kind.startswith(b"multipart/byteranges")


@pytest.mark.parametrize("status", [412, 416, 504])
def test_what_we_say_ourselves_says_little(status: int) -> None:
    response = told(status, b"edgebox; hit", ((b"Content-Range", b"bytes */1"), (b"ETag", b'"1"')))
    headers = Headers(response.fields)
    assert headers.all(b"cache-status") == [b"edgebox; hit"]
    assert headers.all(b"content-range") == [b"bytes */1"]
    assert b"etag" not in headers
    assert isinstance(response.body, bytes)
    assert response.body.startswith(b"%d " % status)
