"""Whose an answer is: what a change of the configuration leaves, and what it does not."""

from __future__ import annotations

import pytest

from edgebox.config.schema import Config, Route, Site
from edgebox.config.upstreams import Upstream, UpstreamServer
from edgebox.ops.worker.origins import NAME, Origins

ONE, TWO, THREE = (f"http://10.0.0.{number}:8000" for number in (1, 2, 3))
KEY = b"http://example.com/app/page?x=1"


def origins(*routes: Route, hosts: tuple[str, ...] = ("*",), **pools: Upstream) -> Origins:
    return Origins(Config(site=(Site(hosts=hosts, route=routes),), upstream=pools))


def alone(url: str, **more: object) -> Origins:
    return origins(Route(path="/", upstream=url, **more))


def pool(*servers: str | UpstreamServer) -> Origins:
    return origins(Route(path="/", upstream="app"), app=Upstream(servers=servers))


def test_each_server_of_a_pool_has_a_name_whatever_the_pool_is_called() -> None:
    assert set(pool(TWO, ONE)(KEY)) == {*alone(ONE)(KEY), *alone(TWO)(KEY)}
    assert pool(TWO, ONE)(KEY) == pool(ONE, UpstreamServer(url=TWO, weight=3))(KEY)
    assert {len(name) for name in pool(ONE, TWO)(KEY)} == {NAME}


def test_a_spelling_makes_no_other_server() -> None:
    assert alone("http://A.example/")(KEY) == alone("http://a.example:80")(KEY)
    assert alone("http://a.example")(KEY) != alone("https://a.example")(KEY)


def test_the_longest_prefix_answers() -> None:
    found = origins(
        Route(path="/", upstream=ONE),
        Route(path="/app", upstream=TWO),
        Route(path="/app/files"),
    )
    assert found(KEY) == alone(TWO)(KEY)
    assert found(b"http://example.com/apple") == alone(ONE)(KEY)
    assert found(b"http://example.com/app/files/x") == ()
    assert found(b"http://example.com/a/../%61pp/x") == alone(TWO)(KEY)


def test_sites_have_their_own() -> None:
    found = origins(Route(path="/", upstream=ONE), hosts=("example.com", "*.example.org"))
    for key in (KEY, b"http://example.com:8080/", b"http://www.example.org/"):
        assert found(key) == alone(ONE)(KEY)
    assert found(b"http://example.net/") == ()


def test_the_host_that_is_asked_for_counts_where_it_is_not_the_clients() -> None:
    client, upstream = alone(ONE)(KEY), alone(ONE, host="upstream")(KEY)
    assert set(client).isdisjoint(upstream)


@pytest.mark.parametrize("key", [b"", b"nonsense", b"http:///page", b"http://a b/", b"http://x/%"])
def test_whatever_the_key_something_is_said(key: bytes) -> None:
    assert alone(ONE)(key) in ((), alone(ONE)(KEY))


def test_a_client_that_names_no_host_is_answered_by_the_site_for_all() -> None:
    assert alone(ONE)(b"http:///page") == alone(ONE)(KEY)
