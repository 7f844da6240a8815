"""Promises of reading netlink's answers: what is not in a message is unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from edgebox.plan import rows
from edgebox.plan.facts import Counters


def interface(state: str = "up", kind: int = 1, **attributes: Any) -> rows.Row:
    message = ifinfmsg()
    message["index"], message["ifi_type"], message["state"] = 7, kind, state
    message["attrs"] = list(attributes.items())
    return message


@pytest.mark.parametrize(
    ("message", "up"),
    [
        (interface(IFLA_OPERSTATE="UP"), True),
        (interface(IFLA_OPERSTATE="DOWN", IFLA_CARRIER=1), False),
        (interface(IFLA_OPERSTATE="LOWERLAYERDOWN"), False),
        (interface(IFLA_OPERSTATE="UNKNOWN", IFLA_CARRIER=1), True),
        (interface(IFLA_OPERSTATE="UNKNOWN", IFLA_CARRIER=0), False),
        (interface(IFLA_OPERSTATE="UNKNOWN", IFLA_CARRIER=1, state="down"), False),
        (interface(), None),
    ],
)
def test_an_interface_is_up_when_its_cable_is(message: rows.Row, up: bool | None) -> None:
    assert rows.is_up(message) is up


def test_an_interface_with_a_device_behind_it_has_no_kind_of_its_own() -> None:
    assert rows.kind_of(interface()) is None
    assert rows.kind_of(interface(kind=rows.LOOPBACK)) == "loopback"


def test_counters_that_are_not_sent_are_unknown_and_not_zero() -> None:
    assert rows.counters(interface()) == Counters()


def test_the_fastest_mode_is_read_from_ethtool_s_names() -> None:
    assert rows.fastest(["10baseT/Half", "1000baseT/Full", "100baseT/Full"]) == 10**9
    assert rows.fastest(["25000baseCR/Full", "Autoneg", "TP"]) == 25 * 10**9
    assert rows.fastest(["Autoneg"]) is None


def test_queues_are_those_in_use_and_those_the_card_has() -> None:
    channels = SimpleNamespace(
        rx_count=0, tx_count=2, combined_count=4, max_rx=0, max_tx=2, max_combined=8
    )
    assert rows.queues(channels, "rx_count") == 4
    assert rows.queues(channels, "tx_count") == 6
    assert rows.queues_supported(channels) == 8
    assert rows.queues(None, "rx_count") is rows.queues_supported(None) is None


def test_a_queue_that_is_no_bucket_or_not_at_the_root_shapes_nothing() -> None:
    def queue(kind: str, parent: int) -> rows.Row:
        message = tcmsg()
        message["parent"], message["attrs"] = parent, [("TCA_KIND", kind)]
        return message

    assert rows.shape(queue("fq", 0xFFFFFFFF)) is None
    assert rows.shape(queue("tbf", 0x10000)) is None
    assert rows.shape(queue("tbf", 0xFFFFFFFF)) is None


def test_duplex_is_full_half_or_unknown() -> None:
    assert [rows.duplex(text) for text in ("Full", "Half", "Unknown", None)] == [
        "full", "half", None, None,
    ]  # fmt: skip
