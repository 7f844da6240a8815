"""Who is asked next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from edgebox.upstream.balance import (
    Hash,
    LeastConnections,
    RandomTwo,
    RoundRobin,
    make_balance,
)


@dataclass
class Server:
    name: str
    weight: int = 1
    active: int = 0


def names(balance: object, servers: list[Server], times: int) -> str:
    return "".join(balance.choose(servers, b"").name for _ in range(times))


def test_round_robin_takes_turns() -> None:
    assert names(RoundRobin(), [Server("a"), Server("b"), Server("c")], 6) == "abcabc"


def test_round_robin_spreads_weights_evenly() -> None:
    servers = [Server("a", 5), Server("b"), Server("c")]
    assert names(RoundRobin(), servers, 14) == "aabacaa" * 2


def test_round_robin_goes_on_fairly_when_one_leaves_and_comes_back() -> None:
    balance, (a, b, c) = RoundRobin(), (Server("a"), Server("b"), Server("c"))
    names(balance, [a, b, c], 2)
    assert Counter(names(balance, [a, b], 10)) == {"a": 5, "b": 5}
    assert Counter(names(balance, [a, b, c], 30)) == {"a": 10, "b": 10, "c": 10}


def test_least_connections_asks_the_idle_one() -> None:
    servers = [Server("a", active=3), Server("b", active=1), Server("c", active=2)]
    assert LeastConnections().choose(servers, b"").name == "b"


def test_least_connections_reckons_with_weights() -> None:
    servers = [Server("a", weight=4, active=5), Server("b", active=1)]
    assert LeastConnections().choose(servers, b"").name == "a"


def test_least_connections_lets_equals_take_turns() -> None:
    assert names(LeastConnections(), [Server("a"), Server("b")], 4) == "abab"


def test_random_two_takes_the_less_loaded_of_the_two_drawn() -> None:
    servers = [Server("a", active=9), Server("b", active=5), Server("c")]
    draws = iter([0.0, 0.0])  # a, then the first of the others
    assert RandomTwo(lambda: next(draws)).choose(servers, b"").name == "b"


def test_random_two_draws_by_weight() -> None:
    servers = [Server("a", weight=3), Server("b")]
    draws = iter([0.74, 0.0, 0.76, 0.0])
    balance = RandomTwo(lambda: next(draws))
    servers[1].active = 9
    assert balance.choose(servers, b"").name == "a"
    servers[0].active, servers[1].active = 99, 0
    assert balance.choose(servers, b"").name == "b"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_random_two_always_finds_one(weights: list[int], number: float) -> None:
    servers = [Server(str(i), weight) for i, weight in enumerate(weights)]
    assert RandomTwo(lambda: number).choose(servers, b"") in servers


@given(st.sets(st.text("abcdef", min_size=1), min_size=2, max_size=8), st.binary(), st.data())
def test_hash_moves_only_the_keys_of_the_server_that_goes(
    found: set[str], key: bytes, data: st.DataObject
) -> None:
    servers = [Server(name, weight=1 + len(name)) for name in sorted(found)]
    gone = data.draw(st.sampled_from(servers))
    before = Hash().choose(servers, key)
    after = Hash().choose([server for server in servers if server is not gone], key)
    assert after is before or before is gone


def test_hash_spreads_keys_by_weight() -> None:
    servers = [Server("a"), Server("b", weight=2), Server("c")]
    shares = Counter(Hash().choose(servers, b"/%d" % n).name for n in range(4000))
    assert 900 < shares["a"] < 1100
    assert 1850 < shares["b"] < 2150


def test_hash_does_not_depend_on_the_order_of_servers() -> None:
    servers = [Server("a"), Server("b"), Server("c")]
    for n in range(50):
        key = b"/%d" % n
        assert Hash().choose(servers, key) is Hash().choose(servers[::-1], key)


def test_every_method_of_the_schema_exists() -> None:
    kinds = {
        "round-robin": RoundRobin,
        "least-connections": LeastConnections,
        "random-two": RandomTwo,
        "hash": Hash,
    }
    for name, kind in kinds.items():
        assert type(make_balance(name, lambda: 0.0)) is kind
