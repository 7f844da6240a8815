"""Promises of workers, connections and what hangs on them."""

from __future__ import annotations

from collections.abc import Callable

from edgebox.config.schema import Cache, Compression, Config, Limits, Route, Site
from edgebox.config.upstreams import Upstream
from edgebox.plan.assumptions import Overrides
from edgebox.plan.facts import Descriptors, Facts, Memory, Network, Processor
from edgebox.plan.planner import plan

Box = Callable[[str], Facts]
MIB, GIB = 1024**2, 1024**3


def test_no_more_workers_than_the_link_can_feed(box: Box) -> None:
    assert plan(box("bare-metal-1g"), Config()).value("server.workers") == 1
    assert plan(box("ten-gigabit-8-queues"), Config()).value("server.workers") == 5


def test_small_answers_take_more_workers() -> None:
    facts = Facts(processor=Processor(cores=8))
    small, large = (
        plan(facts, Config(), Overrides(speed=10**9, object_size=size)).value("server.workers")
        for size in (449, 10**6)
    )
    assert (small, large) == (8, 1)


def test_an_unknown_link_gets_a_worker_a_core() -> None:
    assert plan(Facts(processor=Processor(cores=6)), Config()).value("server.workers") == 6


def test_the_operator_s_workers_stand() -> None:
    found = plan(Facts(processor=Processor(cores=2)), Config(), Overrides(workers=7))
    assert found.value("server.workers") == 7


def test_connections_are_as_many_as_the_tightest_resource_allows() -> None:
    def limited(hard: int, **said: int) -> tuple[float | None, str]:
        facts = Facts(memory=Memory(total=64 * GIB), descriptors=Descriptors(hard=hard))
        number = plan(facts, Config(), Overrides(**said)).number("limits.connections")  # type: ignore[arg-type]
        return number.value, number.reason

    # 224 MiB less 96 for processes, a quarter of it, 24,000 bytes each.
    assert limited(10**6, memory=224 * MIB) == (1398, "limited by memory")
    assert limited(1064) == (1064 - 64 - 133, "limited by the descriptors")
    # 1.18 MB/s at 1 kB/s each.
    assert limited(10**6, speed=10**7) == (
        1176,
        "limited by the link, which would give each less than limits.send_rate",
    )


def test_without_a_lowest_rate_the_link_limits_no_connections() -> None:
    facts = Facts(memory=Memory(total=64 * GIB), descriptors=Descriptors(hard=10**6))
    patient = Config(limits=Limits(send_rate=0))
    number = plan(facts, patient, Overrides(speed=10**6)).number("limits.connections")
    assert "link" not in number.sum


def test_a_measured_connection_counts_instead_of_the_estimate() -> None:
    facts = Facts(memory=Memory(total=GIB), descriptors=Descriptors(hard=10**6))
    estimated, measured = (
        plan(facts, Config(), Overrides(connection_size=size)).value("limits.connections") or 0
        for size in (None, 12_000)
    )
    assert measured // 2 == estimated


def test_a_connection_that_is_passed_on_and_stored_takes_three_descriptors() -> None:
    facts = Facts(memory=Memory(total=64 * GIB), descriptors=Descriptors(hard=1064))
    proxied = Config(site=(Site(route=(Route(upstream="http://127.0.0.1:3000"),)),))
    found = plan(facts, proxied)
    room = 1064 - 104 - 133
    assert found.value("limits.connections") == room // 3
    assert found.value("server.descriptors") == 104 + 133 + 3 * (room // 3)
    assert (
        "÷ 3: its socket, one upstream and a file on disk" in found.number("limits.connections").sum
    )


def test_upstreams_take_no_more_descriptors_than_they_may_have_connections() -> None:
    facts = Facts(memory=Memory(total=64 * GIB), descriptors=Descriptors(hard=20_000))
    few = Config(
        cache=Cache(dir=""),
        upstream={"app": Upstream(servers=("http://a", "http://b"), connections=50, keep_alive=5)},
        site=(Site(route=(Route(upstream="app"), Route(path="/b", upstream="app"))),),
    )
    found = plan(facts, few)
    assert found.value("limits.connections") == 20_000 - 64 - 2500 - 110
    assert "− 110 upstream" in found.number("limits.connections").sum


def test_whoever_is_one_too_many_gets_in_to_be_told_so() -> None:
    facts = Facts(memory=Memory(total=64 * GIB), descriptors=Descriptors(hard=1064))
    few = Config(limits=Limits(connections=50))
    assert plan(facts, few).value("server.backlog") == 128, "what somaxconn is taken for"


def test_a_worker_that_memory_has_no_room_for_is_not_planned() -> None:
    small, large = (
        plan(Facts(memory=Memory(total=size), processor=Processor(cores=16)), Config()).value(
            "server.workers"
        )
        for size in (400 * MIB, 4 * GIB)
    )
    assert (small, large) == (1, 16)


def test_unsent_answers_of_a_thousand_stalled_clients_take_an_eighth_of_memory_at_most() -> None:
    facts = Facts(memory=Memory(total=320 * MIB))
    # Two fifths of it are the processes'.
    rest = 320 * MIB - 320 * MIB * 2 // 5
    assert plan(facts, Config()).value("limits.send_buffer") == rest // 8 // 1000
    assert plan(Facts(memory=Memory(total=1)), Config()).value("limits.send_buffer") == 16 * 1024


def test_the_backlog_is_what_somaxconn_allows_and_never_more_than_4096() -> None:
    for somaxconn, backlog in ((128, 128), (65535, 4096)):
        facts = Facts(
            network=Network(somaxconn=somaxconn),
            memory=Memory(total=64 * GIB),
            descriptors=Descriptors(hard=10**6),
        )
        assert plan(facts, Config()).value("server.backlog") == backlog


def test_the_send_buffer_lasts_for_a_turn_of_a_busy_worker() -> None:
    network = Network(tcp_wmem=(4096, 16384, 16 * 1024**2))
    facts = Facts(network=network, memory=Memory(total=640 * GIB))
    value = plan(facts, Config(), Overrides(speed=10**9)).value("limits.send_buffer")
    assert value == 294_214  # 117.7 MB/s × 2.5 ms
    assert plan(facts, Config(), Overrides(speed=10**11)).value("limits.send_buffer") == 16 * 2**20
    unknown = Facts(network=network, memory=facts.memory)
    assert plan(unknown, Config()).value("limits.send_buffer") == 256 * 1024


def test_under_pressure_idle_connections_go_as_fast_as_newcomers_come() -> None:
    facts = Facts(memory=Memory(total=GIB), descriptors=Descriptors(hard=10**6))
    number = plan(facts, Config(), Overrides(speed=10**9)).number("limits.keep_alive_pressure")
    connections = plan(facts, Config(), Overrides(speed=10**9)).value("limits.connections") or 0
    assert number.value == round(connections / (117_685_305 / 27_140), 1)


def test_under_pressure_never_longer_than_without() -> None:
    short = Config(limits=Limits(keep_alive_idle=0.5))
    assert plan(Facts(), short).value("limits.keep_alive_pressure") == 0.5


def test_helpers_leave_when_compression_is_off_and_grow_with_idle_cores(box: Box) -> None:
    off = Config(compression=Compression(enabled=False))
    assert plan(box("bare-metal-1g"), off).value("compression.helpers") == 0
    assert plan(box("ten-gigabit-8-queues"), Config()).value("compression.helpers") == 4


def test_a_box_without_room_for_a_helper_has_none() -> None:
    found = plan(Facts(memory=Memory(total=200 * 1024**2)), Config())
    assert found.value("compression.helpers") == 0
    assert "ready-made" in found.number("compression.helpers").reason


def test_local_ports_bound_the_connections_to_one_app_server() -> None:
    found = plan(Facts(network=Network(port_range=(32768, 60999))), Config())
    assert found.value("upstream.connections") == 28_232
    assert plan(Facts(network=Network(port_range=(5, 1))), Config()).value(
        "upstream.connections"
    ) == 0  # fmt: skip
