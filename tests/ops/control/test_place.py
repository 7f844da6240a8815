from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from edgebox.ops.control.place import (
    ControlError,
    bind_control,
    choose_place,
    is_strangers,
    likely_places,
    remove_control,
)


def test_auto_is_a_place_of_the_service_then_of_the_user_then_of_root() -> None:
    def auto(user: int, **environ: str) -> str:
        return choose_place(None, environ, user)

    assert auto(0, RUNTIME_DIRECTORY="/run/x:/run/y") == "/run/x/control.sock"
    assert auto(5, RUNTIME_DIRECTORY="/run/x") == "/run/x/control.sock"
    assert auto(0, XDG_RUNTIME_DIR="/run/user/0") == "/run/edgebox/control.sock"
    assert auto(5, XDG_RUNTIME_DIR="/run/user/5") == "/run/user/5/edgebox/control.sock"
    assert auto(5) == "/tmp/edgebox-5/control.sock"


def test_what_the_file_says_goes() -> None:
    assert choose_place("/a/b", {"RUNTIME_DIRECTORY": "/run/x"}, 0) == "/a/b"
    assert choose_place("", {}, 0) == ""


def test_a_user_looks_in_his_own_place_first_and_then_in_the_services() -> None:
    assert likely_places({}, 5) == ["/tmp/edgebox-5/control.sock", "/run/edgebox/control.sock"]
    assert likely_places({}, 0) == ["/run/edgebox/control.sock"]


@pytest.mark.parametrize(
    ("directory", "owner", "user", "strangers"),
    [
        ("/tmp/edgebox-5", 5, 5, False),
        ("/tmp/edgebox-5", 0, 5, False),
        ("/tmp/edgebox-5", 6, 5, True),
        ("/tmp/edgebox-0", 6, 0, True),
        ("/run/edgebox", 6, 5, False),  # nobody but root makes anything there
    ],
)
def test_what_a_stranger_made_in_tmp_is_not_believed(
    directory: str, owner: int, user: int, strangers: bool
) -> None:
    assert is_strangers(directory, owner, user) is strangers


def test_what_a_dead_server_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    bind_control(str(path), 0o600).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_living_servers_place_is_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    first = bind_control(path, 0o660)
    with pytest.raises(ControlError, match="another server has"):
        bind_control(path, 0o660)
    remove_control(first)
    assert not os.path.exists(path)


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(ControlError, match="no socket"):
        bind_control(str(path), 0o660)
    assert path.read_text() == "mine"


def test_the_directory_is_made_for_us(tmp_path: Path) -> None:
    path = tmp_path / "run" / "edgebox" / "s"
    bind_control(str(path), 0o660).close()
    assert path.parent.is_dir()


def test_a_path_longer_than_a_socket_may_have_says_so(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="too long"):
        bind_control(str(tmp_path / ("x" * 120)), 0o660)


def test_a_place_that_cannot_be_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControlError, match=r"Not a directory.*\[control\] socket"):
        bind_control(str(tmp_path / "file" / "s"), 0o660)


def test_the_path_of_a_socket_that_was_replaced_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    first = bind_control(path, 0o660)
    os.unlink(path)
    second = bind_control(path, 0o660)
    remove_control(first)
    assert os.path.exists(path)
    remove_control(second)
