"""Each peer listens on loopback only and logs exactly when a row says so."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from edgebox.config.schema import Config
from perf.peers import PEERS, Peer, Setting
from perf.rows import Load

SETTING = Setting(Path("/private"), Path("/root"), 8123, True, Load(), 20_000, Path("/ram"))
SERVERS = [peer for peer in PEERS if peer.logs]


@pytest.mark.parametrize("peer", SERVERS, ids=lambda peer: peer.name)
def test_a_configuration_names_loopback_port_and_root(peer: Peer) -> None:
    text = peer.config(SETTING)
    for told in ("127.0.0.1", "8123", "/root"):
        assert told in text
    assert "0.0.0.0" not in text


@pytest.mark.parametrize("peer", SERVERS, ids=lambda peer: peer.name)
def test_the_log_is_on_when_the_row_says_so(peer: Peer) -> None:
    assert str(SETTING.access_log) in peer.config(SETTING)
    assert "access.log" not in peer.config(replace(SETTING, log=False))


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_command_starts_with_the_program_or_what_was_built(peer: Peer) -> None:
    first = peer.command(SETTING, "/bin/tool")[0]
    assert first == ("/private/floor" if peer.build else "/bin/tool")


def test_edgebox_gets_keys_that_it_knows() -> None:
    config = tomllib.loads(PEERS[0].config(SETTING))
    fields = {name: getattr(Config(), name) for name in Config.__struct_fields__}
    for name, keys in config.items():
        record = fields[name][0] if name == "site" else fields[name]
        given = keys[0] if name == "site" else keys
        assert given.keys() <= set(record.__struct_fields__)


def test_the_floor_closes_where_each_request_has_a_connection() -> None:
    floor = next(peer for peer in PEERS if not peer.logs)
    assert floor.command(SETTING, "gcc")[1:] == ["8123", "/root/small.html", "keep"]
    closing = replace(SETTING, load=Load(keep_alive=False))
    assert floor.command(closing, "gcc")[-1] == "close"
