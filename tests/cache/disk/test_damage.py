"""Whatever happens to a file, never a wrong octet: it is found as it was, or it is a miss."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.disk.outcome import Outcome
from tests.cache.disk.conftest import KEY, Rig, body_of, read

SMALL, LARGE = 449, 100_000  # with its octets at once, and read as a whole at the first look
Damage = Callable[[bytes], bytes]
_seconds = itertools.count(1_000_000_000)


@st.composite
def damages(draw: st.DrawFn, size: int) -> Damage:
    """Something that happens to the octets of a file of `size`."""
    at = st.integers(0, size - 1)
    kind = draw(st.sampled_from(["flip", "flip", "flip", "cut", "zeros", "append", "move"]))
    if kind == "flip":
        flips = draw(st.lists(st.tuples(at, st.integers(1, 255)), min_size=1, max_size=6))
        return lambda octets: flip(octets, flips)
    if kind == "cut":
        end = draw(at)
        return lambda octets: octets[:end]
    if kind == "zeros":
        start, length = draw(at), draw(st.integers(1, 5000))
        return lambda octets: octets[:start] + bytes(length) + octets[start + length :]
    if kind == "append":
        more = draw(st.binary(min_size=1, max_size=5000))
        return lambda octets: octets + more
    distance = draw(st.integers(1, size - 1))
    return lambda octets: octets[distance:] + octets[:distance]


def flip(octets: bytes, flips: list[tuple[int, int]]) -> bytes:
    changed = bytearray(octets)
    for at, mask in flips:
        changed[at] ^= mask
    return bytes(changed)


def put(path: Path, octets: bytes) -> None:
    """Write a file in place, at a time of its own: a disk's clock is coarser than this test."""
    path.write_bytes(octets)
    seconds = next(_seconds)
    os.utime(path, (seconds, seconds))


@pytest.mark.parametrize("size", [SMALL, LARGE])
@given(data=st.data())
def test_a_damaged_file_is_a_miss_or_gives_what_was_stored(
    rig: Rig, size: int, data: st.DataObject
) -> None:
    body, key = body_of(KEY, 1, size), b"http://a/%d" % size
    if not rig.path(key).exists():
        assert rig.keep(body, 'ETag: "1"', key=key) is Outcome.STORED
    whole = rig.path(key).read_bytes()
    put(rig.path(key), data.draw(damages(len(whole)))(whole))
    entry = rig.entry('ETag: "1"')
    for _ in range(2):  # what was once found damaged does not come back either
        for filed in rig.store.find_nowait(key, rig.now) or rig.store.find(key, rig.now):
            assert (filed.entry, filed.size, read(filed)) == (entry, size, body)
            filed.release()
    put(rig.path(key), whole)
    assert rig.bodies(key) == [body]


@given(data=st.data())
def test_damaged_variants_and_rosters_cost_no_other_variant(rig: Rig, data: st.DataObject) -> None:
    languages = ("de", "fr", "en")
    if not rig.path().exists():
        for language in languages:
            rig.vary(language, language.encode() * 300)
    bodies = {language.encode() * 300 for language in languages}
    paths = sorted(path for path in rig.files() if path.name.startswith(rig.path().name))
    assert len(paths) == 4
    octets = {path: path.read_bytes() for path in paths}
    victim = data.draw(st.sampled_from(paths))
    put(victim, data.draw(damages(len(octets[victim])))(octets[victim]))
    found = set(rig.bodies())
    assert found <= bodies
    if victim != rig.path():
        assert len(found) >= 2
    for path in paths:
        put(path, octets[path])
    assert set(rig.bodies()) == bodies


@given(data=st.data())
def test_a_renewed_file_that_is_damaged_never_gives_the_record_before(
    rig: Rig, data: st.DataObject
) -> None:
    key = b"http://renewed/"
    if not rig.path(key).exists():
        rig.keep(b"body", key=key)
        (filed,) = rig.store.find(key, rig.now)
        rig.store.renew(filed, rig.entry("X-New: 1"), rig.store.mark())
        filed.release()
    whole = rig.path(key).read_bytes()
    put(rig.path(key), data.draw(damages(len(whole)))(whole))
    for filed in rig.store.find(key, rig.now):
        assert (filed.entry, read(filed)) == (rig.entry("X-New: 1"), b"body")
        filed.release()
    put(rig.path(key), whole)
