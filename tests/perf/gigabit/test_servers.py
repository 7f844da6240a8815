"""Each server is set up for large files, many clients and slow readers, in a namespace."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from perf.gigabit.servers import FREE, LINK, NAMES, PATIENCE, PORT, lineup
from perf.peers import Peer, Setting, find
from perf.rows import Load

LOOKING = {peer.name: peer for peer in lineup(looks=True)}
PEERS = {peer.name: peer for peer in lineup()}


def setting(directory: Path) -> Setting:
    return Setting(
        directory=directory,
        root=directory / "root",
        port=PORT,
        log=True,
        load=Load(),
        descriptors=40_000,
        memory=directory,
    )


def config(peer: Peer, directory: Path) -> str:
    return peer.config(setting(directory))


def test_they_take_their_turns_in_the_same_order_either_way() -> None:
    assert tuple(PEERS) == tuple(LOOKING) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_listens_on_the_wire_and_on_loopback(name: str, tmp_path: Path) -> None:
    text = config(PEERS[name], tmp_path)
    assert "0.0.0.0" in text
    assert str(PORT) in text


@pytest.mark.parametrize("name", NAMES)
def test_each_has_room_for_ten_thousand_clients(name: str, tmp_path: Path) -> None:
    text = config(PEERS[name], tmp_path)
    found = re.search(r"connections\s*=?\s*(\d+)", text)
    assert found is not None
    assert int(found[1]) > 11_000


def test_edgebox_leaves_slow_readers_alone_and_looks_only_when_told(tmp_path: Path) -> None:
    plain = tomllib.loads(config(PEERS["edgebox"], tmp_path))
    assert plain["limits"]["send_rate"] == 0
    assert plain["limits"]["send_timeout"] == f"{PATIENCE}s"
    assert plain["files"]["stat_cache"] == "inotify"
    looking = tomllib.loads(config(LOOKING["edgebox"], tmp_path))
    assert looking["files"].pop("stat_cache") == "off"
    del plain["files"]["stat_cache"]
    assert looking == plain


def test_edgebox_takes_a_turn_with_a_limit_on_what_it_sends_and_one_without(
    tmp_path: Path,
) -> None:
    limited, free = (
        tomllib.loads(config(PEERS[name], tmp_path)) for name in ("edgebox", "edgebox-default")
    )
    assert limited["limits"].pop("server_rate") == LINK
    assert free["limits"].pop("server_rate") == FREE
    assert limited == free


def test_the_others_look_at_the_file_for_each_request_only_when_told(tmp_path: Path) -> None:
    assert "open_file_cache max" in config(PEERS["nginx"], tmp_path)
    assert "open_file_cache off;" in config(LOOKING["nginx"], tmp_path)
    assert '"inotify"' in config(PEERS["lighttpd"], tmp_path)
    assert 'stat-cache-engine = "disable"' in config(LOOKING["lighttpd"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize(
    ("name", "words"), [("nginx", ("-t", "-c")), ("lighttpd", ("-tt", "-f")), ("edgebox", ())]
)
def test_each_server_takes_its_configuration(
    name: str, words: tuple[str, ...], looks: bool, tmp_path: Path
) -> None:
    peer = (LOOKING if looks else PEERS)[name]
    tool = find(peer.tool)
    if tool is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "root").mkdir()
    path = tmp_path / "server.conf"
    path.write_text(config(peer, tmp_path))
    arguments = [*words, str(path)] if words else ["-m", "edgebox", "check", "-c", str(path)]
    said = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
