"""Promises of the advice on a port: the exact line where there is trouble, else silence."""

from __future__ import annotations

from typing import Any

import pytest

from edgebox.plan.facts import Counters, Link
from edgebox.plan.figures import Advice
from edgebox.plan.port_advice import about_port, about_wire


def wire(**told: Any) -> Link:
    given: dict[str, Any] = {"name": "eno1", "kind": "ethernet", "up": True, "speed": 10**9}
    return Link(**given | told)


@pytest.mark.parametrize(
    ("link", "topic", "command"),
    [
        (wire(duplex="half"), "duplex", "ethtool -s eno1 autoneg on"),
        (wire(qdisc="pfifo_fast", queue_length=1000), "queue", "tc qdisc replace dev eno1 root fq"),
        (
            wire(offloads={"tcp-segmentation-offload": False, "scatter-gather": False}),
            "offloads",
            "ethtool -K eno1 tso on sg on",
        ),
        (
            wire(rx_ring=256, rx_ring_supported=4096,
                 counters=Counters(rx_packets=1000, rx_missed=1)),
            "ring",
            "ethtool -G eno1 rx 4096",
        ),
        (
            wire(counters=Counters(rx_packets=1000, rx_errors=1)),
            "errors",
            "ethtool -S eno1",
        ),
        (
            wire(speed=10**10, rx_queues=1, tx_queues=1, queues_supported=8),
            "queues",
            "ethtool -L eno1 combined 5",
        ),
    ],
)  # fmt: skip
def test_trouble_at_a_port_gets_the_exact_line(link: Link, topic: str, command: str) -> None:
    (advice,) = advices(link, running=5)
    assert advice.topic == topic
    assert command in advice.commands
    assert advice.gain


@pytest.mark.parametrize(
    "link",
    [
        wire(duplex="full", qdisc="fq", queue_length=1000),
        wire(qdisc="pfifo_fast", queue_length=1000, speed=10**10),
        wire(offloads={"tcp-segmentation-offload": False},
             offloads_fixed=("tcp-segmentation-offload",)),
        wire(rx_ring=256, rx_ring_supported=256, counters=Counters(rx_packets=10, rx_missed=9)),
        wire(rx_ring=256, rx_ring_supported=512, counters=Counters(rx_packets=10**9, rx_missed=9)),
        wire(counters=Counters(rx_packets=10**9, rx_errors=9)),
        wire(rx_queues=1, tx_queues=1, queues_supported=8),
        wire(),
    ],
)  # fmt: skip
def test_a_port_that_does_its_work_is_left_alone(link: Link) -> None:
    assert advices(link, running=1) == []


def test_interfaces_made_in_software_are_left_alone() -> None:
    for kind in ("veth", "tunnel", "loopback"):
        link = wire(
            kind=kind, qdisc="pfifo_fast", queue_length=1000, queues_supported=8, tx_queues=1
        )
        assert advices(link, running=5) == []


def test_a_port_slower_than_it_could_be_is_told_with_the_factor() -> None:
    (advice,) = advices(wire(speed=10**8, speed_supported=10**9), running=1)
    assert advice.gain == "10 times the link"


def advices(link: Link, running: int) -> list[Advice]:
    return [*about_wire(link), *about_port(link, running)]
