"""Notes arrive together or not at all, and nobody waits for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.cache.disk import notes as module
from edgebox.cache.disk.notes import ENOUGH, Kind, Note, NoteReceiver, NoteSender


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    deep = tmp_path / ("d" * 120)  # longer than the path of a socket may be
    deep.mkdir()
    fd = os.open(deep, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def sender(directory: int) -> Iterator[NoteSender]:
    sender = NoteSender(directory)
    yield sender
    sender.close()


@pytest.fixture
def receiver(directory: int) -> Iterator[NoteReceiver]:
    receiver = NoteReceiver(directory)
    yield receiver
    receiver.close()


def test_names_are_gathered_and_sent_each_once(sender: NoteSender, receiver: NoteReceiver) -> None:
    for number in (1, 2, 1):
        sender.look(name(number))
    sender.use(name(3))
    assert list(receiver.receive(9)) == []
    sender.flush()
    assert set(receiver.receive(9)) == {
        Note(Kind.LOOK, (name(1), name(2))),
        Note(Kind.USED, (name(3),)),
    }
    sender.flush()
    assert list(receiver.receive(9)) == []


def test_many_names_do_not_wait_for_the_flush(sender: NoteSender, receiver: NoteReceiver) -> None:
    for number in range(ENOUGH):
        sender.look(name(number))
    (note,) = receiver.receive(9)
    assert len(note.names) == ENOUGH


def test_no_name_is_lost_however_many_there_are(sender: NoteSender, receiver: NoteReceiver) -> None:
    names = {name(number) for number in range(2000)}
    for one in names:
        sender.use(one)
    sender.flush()
    assert {one for note in receiver.receive(99) for one in note.names} == names


def test_what_nobody_takes_is_kept(sender: NoteSender, directory: int) -> None:
    sender.look(name(1))
    sender.flush()
    receiver = NoteReceiver(directory)
    sender.flush()
    assert list(receiver.receive(9)) == [Note(Kind.LOOK, (name(1),))]
    assert sender.dropped == 0
    receiver.close()


def test_what_is_kept_is_bounded(sender: NoteSender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD", 10)
    for number in range(12):
        sender.use(name(number))
    assert sender.dropped == 2


def test_a_listener_that_does_not_listen_holds_nobody_up(
    sender: NoteSender, receiver: NoteReceiver
) -> None:
    for number in range(1, 1000):
        sender.tell(Kind.ROOM, number)
    notes = list(receiver.receive(2000))
    assert 0 < len(notes) < 999
    sender.flush()
    (last,) = receiver.receive(9)
    assert last.size == 999


def test_what_cannot_wait_does_not(sender: NoteSender, receiver: NoteReceiver) -> None:
    sender.tell(Kind.ROOM, 1 << 40)
    sender.tell(Kind.PURGED)
    room, purged = receiver.receive(9)
    assert (room.kind, room.size) == (Kind.ROOM, 1 << 40)
    assert purged == Note(Kind.PURGED)


def test_a_new_listener_takes_the_place_of_an_old_one(
    sender: NoteSender, receiver: NoteReceiver, directory: int
) -> None:
    newer = NoteReceiver(directory)
    sender.tell(Kind.FULL)
    assert list(receiver.receive(9)) == []
    assert list(newer.receive(9)) == [Note(Kind.FULL)]
    newer.close()


def test_nonsense_is_passed_over(sender: NoteSender, receiver: NoteReceiver) -> None:
    for octets in (b"", b"?", b"lhalf a name", b"r"):
        sender._socket.sendto(octets, sender._address)
    notes = list(receiver.receive(9))
    assert notes == [Note(Kind.LOOK), Note(Kind.ROOM)]
    assert notes[1].size == 0
