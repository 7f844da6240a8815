"""As caches, the servers listen on loopback only, ask the same origin, and keep things in RAM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebox.config.load import load_text
from perf.caches import CACHES, NAMES, lineup
from perf.peers import PEERS, Peer, Setting
from perf.rows import ROWS, Load

SETTING = Setting(Path("/own"), Path("/root"), 8123, True, Load(), 20_000, Path("/ram"), 8124)


def everything(peer: Peer, setting: Setting) -> str:
    return "\n".join([peer.config(setting), *peer.command(setting, "/bin/tool")])


@pytest.mark.parametrize("peer", CACHES, ids=lambda peer: peer.name)
def test_a_cache_listens_on_loopback_and_asks_the_origin(peer: Peer) -> None:
    told = everything(peer, SETTING)
    for word in ("127.0.0.1", "8123", "8124", "/own/server.conf"):
        assert word in told
    assert "/root" not in told
    assert "0.0.0.0" not in told


@pytest.mark.parametrize("peer", CACHES, ids=lambda peer: peer.name)
def test_the_log_is_on_when_the_row_says_so(peer: Peer) -> None:
    quiet = everything(peer, replace(SETTING, log=False))
    assert str(SETTING.access_log) in everything(peer, SETTING)
    assert "log stdout" not in quiet
    assert "varnishncsa" not in quiet
    assert "access.log" not in peer.config(replace(SETTING, log=False))


@pytest.mark.parametrize("name", ["edgebox", "nginx", "varnish"])
def test_what_is_kept_in_files_is_kept_in_ram(name: str) -> None:
    peer = next(peer for peer in CACHES if peer.name == name)
    assert "/ram/" in everything(peer, SETTING)


def test_edgebox_takes_its_configuration(tmp_path: Path) -> None:
    setting = replace(SETTING, directory=tmp_path, memory=tmp_path)
    config = load_text(CACHES[0].config(setting), "server.conf")
    assert config.site[0].route[0].upstream == "http://127.0.0.1:8124"
    assert config.site[0].is_proxied


def test_varnish_has_a_thread_for_each_client_and_each_fetch() -> None:
    crowded = replace(SETTING, load=Load(connections=1000))
    assert "thread_pool_min=2000" in CACHES[-1].command(crowded, "varnishd")


def test_tables_name_every_server_once() -> None:
    assert sorted(NAMES) == sorted({peer.name for peer in (*PEERS, *CACHES)})


def test_proxied_rows_are_for_caches_and_the_others_for_file_servers() -> None:
    by_key = {row.key: lineup(row) for row in ROWS}
    assert by_key["hot"] == PEERS
    assert by_key["cached"] == by_key["miss"] == CACHES
    assert [peer.name for peer in by_key["stall"]] == ["edgebox", "nginx", "lighttpd", "h2o"]
