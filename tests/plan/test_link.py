"""Promises of the look at interfaces, on real devices."""

from __future__ import annotations

import os

import pytest

from edgebox.config.schema import Config
from edgebox.plan.facts import Facts, Link
from edgebox.plan.link import Interfaces
from edgebox.plan.planner import plan
from edgebox.plan.uplink import uplink

pytestmark = pytest.mark.slow


def names(facts: Facts) -> list[str]:
    return [link.name for link in facts.network.links]


def test_a_veth_tells_mtu_queues_state_and_offloads(common_devices: dict[str, Facts]) -> None:
    (link,) = common_devices["veth"].network.links
    assert (link.name, link.kind, link.up, link.mtu) == ("va", "veth", True, 1400)
    assert (link.queue_length, link.rx_queues, link.tx_queues) == (500, 1, 1)
    assert link.offloads is not None
    assert link.offloads["tcp-segmentation-offload"] is True
    assert link.counters.rx_errors == 0


def test_the_speed_a_veth_invents_is_a_fact_but_not_planned_with(
    common_devices: dict[str, Facts],
) -> None:
    facts = common_devices["veth"]
    assert facts.network.links[0].speed == 10_000_000_000
    assert plan(facts, Config()).value("nic.speed") is None


def test_a_cable_with_one_end_out_is_down(common_devices: dict[str, Facts]) -> None:
    assert common_devices["half a veth"].network.links[0].up is False


def test_a_token_bucket_at_the_root_is_the_link_s_speed(common_devices: dict[str, Facts]) -> None:
    facts = common_devices["shaped"]
    assert facts.network.links[0].shaped == 1_000_000_000
    assert facts.network.links[0].qdisc == "tbf"
    assert uplink(facts.network).speed == 1_000_000_000


def test_a_veth_s_peer_is_not_taken_for_what_it_lies_on(common_devices: dict[str, Facts]) -> None:
    assert names(common_devices["veth"]) == ["va"]


def test_a_bridge_is_followed_to_its_ports(common_devices: dict[str, Facts]) -> None:
    facts = common_devices["bridge"]
    assert names(facts) == ["br0", "ba", "bc"]
    assert facts.network.links[0].kind == "bridge"
    assert facts.network.links[0].lower == ("ba", "bc")


def test_a_macvlan_is_followed_to_its_parent(common_devices: dict[str, Facts]) -> None:
    assert names(common_devices["macvlan"]) == ["mv", "m0"]
    assert common_devices["macvlan"].network.links[0].kind == "macvlan"


def test_a_card_in_another_namespace_is_not_confused_with_one_here(stranger: Facts) -> None:
    assert names(stranger) == ["stranger0"]
    assert uplink(stranger.network).speed is None


def test_a_sysfs_that_shows_another_namespace_is_not_believed(namesake: Facts) -> None:
    (link,) = namesake.network.links
    assert (link.kind, link.driver) == ("veth", None)


def test_a_specific_listen_address_decides_the_interface(common_devices: dict[str, Facts]) -> None:
    for scene in ("address", "address of IPv6"):
        network = common_devices[scene].network
        assert (network.interface, network.via) == ("aa", "listen address")


def test_loopback_and_wildcards_leave_it_to_the_best_default_route(
    common_devices: dict[str, Facts],
) -> None:
    network = common_devices["default route"].network
    assert (network.interface, network.via) == ("rc", "default route")


def test_an_interface_that_is_not_there_is_unknown(common_devices: dict[str, Facts]) -> None:
    network = common_devices["none such"].network
    assert (network.interface, network.links) == (None, ())
    assert network.somaxconn is not None


def test_loopback_has_no_speed(common_devices: dict[str, Facts]) -> None:
    (link,) = common_devices["loopback"].network.links
    assert (link.kind, link.speed, link.duplex) == ("loopback", None, None)


def test_a_bond_is_followed_to_its_ports(rare_devices: dict[str, Facts]) -> None:
    bond, *ports = rare_devices["bond"].network.links
    assert (bond.kind, bond.bond_mode, bond.lower) == ("bond", "802.3ad", ("oa", "oc"))
    assert [port.name for port in ports] == ["oa", "oc"]


def test_a_bond_tells_its_mode(rare_devices: dict[str, Facts]) -> None:
    assert rare_devices["standby"].network.links[0].bond_mode == "active-backup"


def test_a_vlan_is_followed_to_its_trunk(rare_devices: dict[str, Facts]) -> None:
    facts = rare_devices["vlan"]
    assert names(facts) == ["la.7", "la"]
    assert facts.network.links[0].kind == "vlan"


def test_a_vlan_on_a_bridge_on_a_bond_is_followed_to_the_port(
    rare_devices: dict[str, Facts],
) -> None:
    facts = rare_devices["vlan on bridge on bond"]
    assert names(facts) == ["br2.30", "br2", "trunk2", "xa"]
    assert [link.kind for link in facts.network.links] == ["vlan", "bridge", "bond", "veth"]


def test_looking_twice_keeps_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with Interfaces() as interfaces:
            index = interfaces.named("lo")
            assert index is not None
            (link,) = interfaces.chain(index)
            assert isinstance(link, Link)
    assert len(os.listdir("/proc/self/fd")) == before
