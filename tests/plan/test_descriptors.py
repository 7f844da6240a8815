"""Promises of the descriptors: never more connections than fit, whatever they come to need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Cache, Config, Route, Server, Site
from edgebox.config.upstreams import Upstream
from edgebox.plan.descriptors import Demand, demand, fitting, taken

DEMANDS = st.builds(
    Demand, each=st.integers(1, 2), upstream=st.integers(0, 10_000), kept=st.just(64)
)
ROOMS = st.integers(0, 2**20)
WORKERS = st.integers(1, 32)


def proxied(route: Route, **tables: object) -> Config:
    return Config(site=(Site(route=(route,)),), **tables)  # type: ignore[arg-type]


@given(room=ROOMS, asked=DEMANDS, workers=WORKERS)
def test_what_fits_takes_no_more_than_there_is_and_one_more_would_not_fit(
    room: int, asked: Demand, workers: int
) -> None:
    connections, _ = fitting(room, asked, workers)
    assert 0 <= taken(connections, asked, workers) <= room
    assert taken(connections + 1, asked, workers) > room


@given(room=ROOMS, more=ROOMS, asked=DEMANDS, workers=WORKERS)
def test_more_descriptors_never_allow_fewer(
    room: int, more: int, asked: Demand, workers: int
) -> None:
    assert fitting(room, asked, workers)[0] <= fitting(room + more, asked, workers)[0]


@pytest.mark.parametrize(
    ("config", "each"),
    [
        (Config(), 1),
        (proxied(Route(upstream="http://a")), 2),
        (proxied(Route(upstream="http://a"), cache=Cache(dir="")), 1),
        (proxied(Route(upstream="http://a"), server=Server(chroot="/srv")), 1),
        (proxied(Route(upstream="http://a", cache=False)), 1),
    ],
    ids=["files", "on disk", "in RAM only", "in a chroot, in RAM only", "not stored"],
)
def test_a_file_is_counted_only_where_answers_are_kept_on_disk(config: Config, each: int) -> None:
    assert demand(config).each == each


def test_an_upstream_counts_once_however_many_routes_lead_to_it() -> None:
    app = Upstream(servers=("http://a", "http://b"), connections=10, keep_alive=3)
    routes = (Route(upstream="app"), Route(path="/x", upstream="app"))
    config = Config(site=(Site(route=routes),), upstream={"app": app, "unused": app})
    assert demand(config).upstream == 26
