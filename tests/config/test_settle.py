from __future__ import annotations

import resource
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.config.checks import check
from edgebox.config.schema import Cache, Compression, Config, Files, Limits, Route, Server, Site
from edgebox.config.settle import (
    MIB,
    RESERVE,
    Machine,
    look_at_machine,
    settle,
    welcome_root,
)

BIG = Machine(
    memory=64 * 1024 * MIB, descriptors=1_048_576, somaxconn=4096, watches=524_288, cache="/c"
)
SMALL = Machine(memory=256 * MIB, descriptors=1024, somaxconn=128, watches=8192, cache="/c")

machines = st.builds(
    Machine,
    memory=st.integers(MIB, 2**50),
    descriptors=st.integers(3, 2**31),
    somaxconn=st.integers(0, 2**31),
    watches=st.integers(0, 2**31),
    cache=st.just("/c"),
)


@given(machines)
def test_nothing_is_left_to_decide_and_the_schema_holds(machine: Machine) -> None:
    settled = settle(Config(), machine)
    plain = msgspec.to_builtins(settled)
    assert all(
        value is not None
        for name in plain
        if name not in ("site", "nic", "plan", "control")
        for value in plain[name].values()
    )
    assert all(value is not None for site in plain["site"] for value in site.values())
    assert msgspec.convert(plain, Config) == settled
    assert not list(check(settled))


def test_no_two_boxes_have_the_same_name_in_via_unless_they_are_told_to() -> None:
    names = {settle(Config(), look_at_machine()).cache.via for _ in range(100)}
    assert len(names) == 100
    own = Config(cache=Cache(name="paris"))
    assert settle(own, BIG).cache.via == "paris-0"
    assert settle(Config(cache=Cache(via="paris")), look_at_machine()).cache.via == "paris"


@given(machines)
def test_what_is_open_at_once_fits_the_descriptors(machine: Machine) -> None:
    settled = settle(Config(), machine)
    if machine.descriptors >= 256:
        used = settled.limits.connections + settled.files.open_files + settled.files.read_threads
        assert used + RESERVE <= machine.descriptors


def test_a_big_machine_is_not_used_up() -> None:
    settled = settle(Config(), BIG)
    assert settled.files.working_set == 256 * MIB
    assert settled.server.backlog == 4096
    assert settled.files.watches == 131_072
    assert settled.files.open_files == 1024
    assert settled.limits.connections == 64 * 1024 * MIB // 8 // (16 * 1024)


def test_a_small_machine_gets_less() -> None:
    settled = settle(Config(), SMALL)
    assert settled.files.working_set == 64 * MIB
    assert settled.server.backlog == 128
    assert settled.files.watches == 2048
    assert settled.files.open_files == 118
    assert settled.limits.connections == 1024 - RESERVE - 16 - 118


def test_what_was_asked_for_stays() -> None:
    asked = Config(
        server=Server(backlog=7, workers=2),
        limits=Limits(connections=8, send_buffer=4096),
        files=Files(working_set=0, open_files=0, watches=0),
        compression=Compression(dir="/d"),
        cache=Cache(dir="/e", via="box"),
        site=(Site(root="/srv", hosts=("*",)),),
    )
    assert settle(asked, BIG) == asked


def test_descriptors_kept_for_files_are_not_promised_to_clients() -> None:
    kept = settle(Config(files=Files(open_files=500)), SMALL)
    assert kept.limits.connections == 1024 - RESERVE - 16 - 500


def test_variants_and_answers_go_below_the_cache_directory() -> None:
    settled = settle(Config(), BIG)
    assert settled.compression.dir == "/c/compressed"
    assert settled.cache.dir == "/c/responses"


def test_a_cache_in_ram_alone_stays_there() -> None:
    assert settle(Config(cache=Cache(dir="")), BIG).cache.dir == ""


def test_freshness_is_guessed_for_each_answer_and_not_once() -> None:
    asked = Config(site=(Site(root="/srv", route=(Route(upstream="http://a"),)),))
    assert settle(asked, BIG).site[0].route[0].default_freshness is None


def test_an_empty_root_is_the_welcome_site() -> None:
    (site,) = settle(Config(), BIG).site
    assert site.root == str(welcome_root())
    assert site.error_pages == {"404": "/404.html"}
    own = replace(Config().site[0], error_pages={"404": "/index.html"})
    (site,) = settle(Config(site=(own,)), BIG).site
    assert site.error_pages == {"404": "/index.html"}


@pytest.mark.parametrize(
    ("route", "welcome"),
    [
        (Route(path="/", upstream="http://a"), False),
        (Route(path="/", upstream=""), True),
        (Route(path="/api/", upstream="http://a"), True),
    ],
)
def test_the_welcome_site_is_not_for_who_passes_all_to_an_upstream(
    route: Route, welcome: bool
) -> None:
    (site,) = settle(Config(site=(Site(route=(route,)),)), BIG).site
    assert site.root == (str(welcome_root()) if welcome else "")
    assert bool(site.error_pages) is welcome
    assert site.route == (route,)


def test_the_welcome_site_is_whole_and_needs_no_other_host() -> None:
    names = {file.name for file in welcome_root().iterdir()}
    assert names == {"index.html", "404.html", "style.css", "logo.svg"}
    for page in ("index.html", "404.html"):
        text = (welcome_root() / page).read_text()
        assert 'href="/style.css"' in text
        assert 'src="/logo.svg"' in text
        assert "//" not in text


def test_the_machine_is_looked_at() -> None:
    machine = look_at_machine({"CACHE_DIRECTORY": "/a:/b"})
    assert machine.memory > MIB
    assert machine.descriptors == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert machine.somaxconn == int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert machine.cache == "/a"


def test_the_cache_directory_is_the_systems_or_else_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.access", lambda *_: True)
    assert look_at_machine({}).cache == "/var/cache/edgebox"
    monkeypatch.setattr("os.access", lambda *_: False)
    assert look_at_machine({"XDG_CACHE_HOME": "/x", "HOME": "/h"}).cache == "/x/edgebox"
    assert look_at_machine({"XDG_CACHE_HOME": "x", "HOME": "/h"}).cache == "/h/.cache/edgebox"
    assert look_at_machine({"HOME": "/h"}).cache == "/h/.cache/edgebox"
