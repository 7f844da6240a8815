"""The box's configuration is one that edgebox takes, and whose clients are whose is read right."""

from __future__ import annotations

from pathlib import Path

from edgebox.config.load import load
from perf.faults.app import SIZE, answer, body_of
from perf.faults.box import config, make_place, remote_ports, targets_of
from perf.faults.disk import CHANGED as SMALL_DISK

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 101 1
   2: 0100007F:1F90 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 102 1
   3: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 103 1
   4: 0100007F:1F90 0100007F:C003 01 00000000:00000000 00:00000000 00000000     0        0 0 1
"""


def test_clients_are_the_other_ends_of_a_process_own_sockets() -> None:
    assert remote_ports(TCP, 8080, {"100", "101", "103"}) == {0xC001}
    assert remote_ports(TCP, 8080, {"101", "102"}) == {0xC001, 0xC002}
    assert remote_ports(TCP, 8081, {"101"}) == set()


def test_its_configuration_is_a_good_one(tmp_path: Path) -> None:
    place = make_place(tmp_path / "x")
    file = tmp_path / "edgebox.toml"
    file.write_text(config(place, 8000, SMALL_DISK))
    settled = load(file)
    assert settled.server.workers == 2
    assert settled.cache.dir_size == 8 * 1024 * 1024
    assert settled.cache.dir == str(place.keeps / "cache")
    assert settled.site[0].route[0].upstream == "http://127.0.0.1:8000"


def test_targets_are_what_is_there(tmp_path: Path) -> None:
    place = make_place(tmp_path / "x")
    targets = targets_of(place.root)
    assert {t.path for t in targets if not t.path.startswith("/app")} == {
        "/small.html", "/page.html", "/large.bin"
    }  # fmt: skip
    assert all(t.body == body_of(t.path) for t in targets if t.path.startswith("/app"))


def test_the_app_says_for_how_long_its_answers_may_be_kept() -> None:
    assert b"\r\nCache-Control: max-age=2\r\n" in answer("/app/2/x", 7.0)
    assert b"\r\nCache-Control: no-store\r\n" in answer("/app/0/x", 7.0)
    assert b"\r\nX-Made: 7.000\r\n" in answer("/app/0/x", 7.0)
    assert len(body_of("/app/0/x")) >= SIZE
    assert body_of("/app/0/x") != body_of("/app/0/y")
