"""What a supervisor is given when it starts, and that it passes nothing on by accident."""

from __future__ import annotations

from edgebox.ops.processes.inheritance import VARIABLE, Inheritance, take_inheritance


def test_sockets_of_systemd_are_taken_and_their_variables_too() -> None:
    environ = {"LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "HOME": "/"}
    taken = take_inheritance(environ, 7)
    assert taken == Inheritance(listeners={"given 0": [3], "given 1": [4]}, given=True)
    assert environ == {"HOME": "/"}


def test_sockets_for_another_process_are_not_ours() -> None:
    environ = {"LISTEN_PID": "8", "LISTEN_FDS": "2"}
    assert take_inheritance(environ, 7) is None
    assert environ == {}


def test_nothing_is_given_mostly() -> None:
    assert take_inheritance({}, 7) is None
    assert take_inheritance({"LISTEN_PID": "7", "LISTEN_FDS": "0"}, 7) is None
    assert take_inheritance({"LISTEN_PID": "7", "LISTEN_FDS": "many"}, 7) is None


def test_a_predecessor_hands_over_all_it_has() -> None:
    estate = Inheritance(
        listeners={"127.0.0.1:80": [5, 6]}, status={"127.0.0.1:81": [7]}, generation=3,
        pages=8, warm=(9, 10), control=11, wire=12,
    )  # fmt: skip
    environ = {VARIABLE: estate.encode(), "LISTEN_PID": "7", "LISTEN_FDS": "2"}
    assert take_inheritance(environ, 7) == estate
    assert environ == {}
    assert sorted(estate.descriptors) == [5, 6, 7, 8, 9, 10, 11]
    assert Inheritance(listeners={}).descriptors == ()
