from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.config.checks import check_hosts
from edgebox.config.schema import Cache, Compression, Config, Control, Files, Log, Server, Site

Told = Callable[..., dict[str, str]]


def test_the_defaults_are_right(told: Told) -> None:
    assert told() == {}
    assert not list(check_hosts(Config().site))


def test_addresses_are_there_and_differ(told: Told) -> None:
    assert "at least one" in told(Server(listen=()))["listen"]
    assert "twice" in told(Server(listen=("*:80", "*:80")))["1"]
    assert "no port" in told(Server(listen=("*:80", "*")))["1"]


@pytest.mark.parametrize("name", ["edge\r\nX: y", " edge", "edge\x7f", "käse", "edge "])
def test_the_server_name_cannot_break_a_head(told: Told, name: str) -> None:
    assert "visible ASCII" in told(Server(name=name))["name"]


def test_the_server_name_may_be_empty(told: Told) -> None:
    assert told(Server(name="")) == {}


def test_a_log_needs_a_directory_to_lie_in(told: Told, tmp_path: Path) -> None:
    assert told(Log(access=f"{tmp_path}/access.log", error="off")) == {}
    assert told(Log(access=f"{tmp_path}/no/a.log"))["access"].startswith("no such directory")
    assert "is empty" in told(Log(error=""))["error"]


def test_logs_go_to_syslog_by_address(told: Told) -> None:
    assert told(Log(access="syslog", error="syslog:[::1]:1514")) == {}
    assert "an IP address" in told(Log(access="syslog:loghost"))["access"]


def test_a_form_and_a_condition_of_the_access_log_must_make_sense(told: Told) -> None:
    assert told(Log(format='"$request" $cache_status', only="status >= 400 or time > 1")) == {}
    assert 'did you mean "$remote_addr"?' in told(Log(format="$remot_addr"))["format"]
    assert 'did you mean "combined"?' in told(Log(format="combine"))["format"]
    assert "at character 11: status is compared" in told(Log(only="status >= ok"))["only"]


def test_a_control_socket_can_be_bound(told: Told) -> None:
    assert told(Control(socket="", mode="0600")) == {}
    assert told(Control(socket="/" + "x" * 106, mode="660")) == {}
    assert "107 octets" in told(Control(socket="/" + "x" * 107))["socket"]
    for mode in ("rw", "0o660", "66", "0680", "-660", "1660"):
        assert 'octal digits, as "0660"' in told(Control(mode=mode))["mode"]


def test_compression_makes_sense(told: Told) -> None:
    assert "no media type" in told(Compression(types=("text",)))["0"]
    assert "no media type" in told(Compression(types=("text/html; a=b",)))["0"]
    assert "twice" in told(Compression(codings=("br", "br")))["codings"]
    assert "nothing is left" in told(Compression(min_size=2, max_size=1))["min_size"]
    assert "no path" in told(Compression(dir=""))["dir"]


def test_a_part_is_no_more_than_the_whole(told: Told) -> None:
    assert "are a part" in told(Files(entries=16, negative_entries=17))["negative_entries"]


@pytest.mark.parametrize("name", ["", "two words", "box:80", "box/1", "bö"])
def test_the_name_of_the_cache_fits_into_via(told: Told, name: str) -> None:
    assert "no single word" in told(Cache(name=name))["name"]


def test_targets_are_fields_and_differ(told: Told) -> None:
    assert told(Cache(targets=("My-CDN-Cache-Control", "CDN-Cache-Control"))) == {}
    assert told(Cache(targets=())) == {}
    assert "no field name" in told(Cache(targets=("a b",)))["0"]
    assert "twice" in told(Cache(targets=("A", "a")))["1"]
    assert "by itself" in told(Cache(targets=("Cache-Control",)))["0"]


def test_networks_are_networks(told: Told) -> None:
    assert told(Cache(trusted_proxies=("10.0.0.0/8",), purge_from=())) == {}
    assert told(Cache(trusted_proxies=("10.0.0.0/8", "lan"))).keys() == {"1"}
    assert told(Cache(purge_from=("10.0.0.1/8",))).keys() == {"0"}


def test_a_cache_may_do_without_a_directory(told: Told) -> None:
    assert told(Cache(dir="")) == {}
    assert "no path" in told(Cache(dir="/a\0b"))["dir"]


@pytest.mark.parametrize("directory", ["/c/d", "/c/d/e", "/c", "/c/x/../d"])
def test_what_is_swept_by_two_is_told_of(told: Told, directory: str) -> None:
    assert "overlaps" in told(Cache(dir=directory), Compression(dir="/c/d"))["dir"]
    assert told(Cache(dir="/c/responses"), Compression(dir="/c/d")) == {}


def test_stored_answers_are_not_published(told: Told, tmp_path: Path) -> None:
    site = Site(root=str(tmp_path))
    assert "anybody could read" in told(Cache(dir=f"{tmp_path}/cache"), site)["dir"]
    assert told(Cache(dir=f"{tmp_path}-cache"), site) == {}
