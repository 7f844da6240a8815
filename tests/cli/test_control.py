"""Finding the server that runs, and what is said when that cannot be done."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from edgebox.cli.control import ControlClient, NoServer, Refusal, connect, find_places, why_not
from edgebox.cli.main import main


def test_who_says_where_is_believed(tmp_path: Path) -> None:
    assert find_places("/a/b", tmp_path / "none.toml", {}, 0) == ["/a/b"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", ["/x/edgebox/control.sock", "/run/edgebox/control.sock"]),
        ('[control]\nsocket = "auto"', ["/x/edgebox/control.sock", "/run/edgebox/control.sock"]),
        ('[control]\nsocket = "/a/b"', ["/a/b"]),
        ('[control]\nsocket = ""', []),
        ("[control]\nsocket = 7", ["/x/edgebox/control.sock", "/run/edgebox/control.sock"]),
        ("control = 7", ["/x/edgebox/control.sock", "/run/edgebox/control.sock"]),
        ("this is [ no toml", ["/x/edgebox/control.sock", "/run/edgebox/control.sock"]),
        ('[control]\nsocket = "/a/b"\n[sever]\nx = 1', ["/a/b"]),  # wrong, but not in that
    ],
)
def test_the_file_says_where_even_if_the_rest_of_it_is_wrong(
    tmp_path: Path, text: str, places: list[str]
) -> None:
    file = tmp_path / "box.toml"
    file.write_text(text)
    assert find_places(None, file, {"XDG_RUNTIME_DIR": "/x"}, 5) == places


def test_a_relative_place_counts_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    file.write_text('[control]\nsocket = "run/c.sock"')
    assert find_places(None, file, {}, 0) == [str(tmp_path / "run" / "c.sock")]


def test_a_file_that_was_named_and_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"none.toml cannot be read"):
        find_places(None, tmp_path / "none.toml", {}, 0)


def test_nobody_there_says_so_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoServer, match=r"no edgebox runs here: .*Start one with `edgebox serve`"):
        connect(str(tmp_path / "none.sock"), None)


def test_a_socket_left_behind_is_nobody(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NoServer, match="was left by one that is gone"):
        ControlClient(str(path))


def test_no_control_socket_by_configuration_says_so(tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    file.write_text('[control]\nsocket = ""')
    result = CliRunner().invoke(main, ["status", "-c", str(file)])
    assert result.exit_code == 1
    assert "the configuration has no control socket" in result.output


def test_a_socket_that_we_may_not_use_says_what_to_do() -> None:
    told = why_not("/run/x", PermissionError(13, "Permission denied")).message
    assert told.startswith("you may not speak with the server at /run/x: become its user")


def test_a_server_that_accepts_nobody_is_not_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(path)
        listener.listen(0)
        other.connect(path)
        with pytest.raises(click.ClickException, match="accepts nobody"):
            ControlClient(path, patience=0.05)


def answering(path: Path, answer: bytes, ends: bool = True) -> threading.Thread:
    """A server that answers its first client with these octets."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(answer)
                if not ends:
                    sock.recv(1000)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "has ended the conversation"),
        (b'{"ok": true', "has ended the conversation"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no edgebox answers at"),
        (b'{"ok": false, "error": "because"}\n', "because"),
        (b'{"ok": false, "problems": ["a:1: b", "a:2: c"]}\n', "a:1: b\na:2: c"),
        (b"{}\n", "refused without a reason"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, answer: bytes, told: str) -> None:
    thread = answering(tmp_path / "s", answer)
    with ControlClient(str(tmp_path / "s")) as client:
        with pytest.raises(click.ClickException) as refused:
            client.ask("status")
    thread.join(10)
    assert told in refused.value.message


def test_a_server_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    thread = answering(tmp_path / "s", b"", ends=False)
    with ControlClient(str(tmp_path / "s"), patience=0.05) as client:
        with pytest.raises(click.ClickException, match=r"has not answered for 0.05 s: look into"):
            client.ask("status")
    thread.join(10)


def test_an_answer_may_come_in_pieces_and_another_after_it(served: Any) -> None:
    served.answers["purge"] = {"ok": True, "text": "x" * 1_000_000}
    served.answers["log"] = [{"ok": True, "more": True, "n": 1}, {"ok": True, "n": 2}]
    with ControlClient(str(served.place)) as client:
        assert len(client.ask("purge")["text"]) == 1_000_000
        assert [piece["n"] for piece in client.stream("log", query="q")] == [1, 2]
        with pytest.raises(Refusal, match="not now"):
            client.ask("reload")
    assert served.heard[1] == {"verb": "log", "query": "q"}
