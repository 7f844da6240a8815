"""Promises of the uplink: an interface's speed is that of the ports it ends at."""

from __future__ import annotations

from typing import Any

from edgebox.plan.facts import Link, Network
from edgebox.plan.uplink import uplink

G = 10**9


def port(name: str, speed: int | None = G, **told: Any) -> Link:
    return Link(**{"name": name, "kind": "ethernet", "up": True, "speed": speed, **told})


def network(*links: Link) -> Network:
    return Network(interface=links[0].name, links=links)


def test_a_card_has_the_speed_it_negotiated() -> None:
    found = uplink(network(port("eno1", duplex="full")))
    assert (found.speed, found.interface) == (G, "eno1")
    assert "full duplex" in found.reason


def test_what_the_operator_says_goes_before_the_card_and_the_card_is_still_told() -> None:
    found = uplink(network(port("eno1")), 10 * G)
    assert found.speed == 10 * G
    assert "eno1 itself says 1 Gbit/s" in found.reason


def test_what_the_operator_says_counts_without_any_interface() -> None:
    assert uplink(Network(), G).speed == G
    assert uplink(Network()).speed is None


def test_ports_of_an_adding_bond_are_added_up() -> None:
    for mode in ("802.3ad", "balance-rr", "balance-xor", "balance-tlb", "balance-alb"):
        bond = Link(name="bond0", kind="bond", bond_mode=mode, lower=("a", "b"))
        found = uplink(network(bond, port("a"), port("b", 10 * G)))
        assert found.speed == 11 * G, mode
        assert found.sum == "1 Gbit/s + 10 Gbit/s = 11 Gbit/s"


def test_a_port_that_is_down_adds_nothing() -> None:
    bond = Link(name="bond0", kind="bond", bond_mode="802.3ad", lower=("a", "b"))
    assert uplink(network(bond, port("a"), port("b", up=False))).speed == G


def test_a_bond_that_keeps_to_one_port_is_as_fast_as_its_slowest() -> None:
    for mode in ("active-backup", "broadcast", None):
        bond = Link(name="bond0", kind="bond", bond_mode=mode, lower=("a", "b"))
        assert uplink(network(bond, port("a"), port("b", 10 * G))).speed == G, mode


def test_a_vlan_has_its_trunk_s_speed() -> None:
    found = uplink(network(Link(name="eno1.7", kind="vlan", lower=("eno1",)), port("eno1")))
    assert found.speed == G
    assert [p.name for p in found.ports] == ["eno1"]


def test_a_vlan_whose_trunk_is_elsewhere_is_unknown() -> None:
    found = uplink(network(Link(name="eth0", kind="macvlan", speed=10 * G)))
    assert found.speed is None
    assert "cannot be seen" in found.reason


def test_a_bridge_leads_out_through_its_wire_and_not_through_its_guests() -> None:
    bridge = Link(name="br0", kind="bridge", lower=("tap0", "veth0", "eno1"))
    guests = (Link(name="tap0", kind="tunnel", speed=10 * G), Link(name="veth0", kind="veth"))
    found = uplink(network(bridge, *guests, port("eno1")))
    assert found.speed == G
    assert [p.name for p in found.ports] == ["eno1"]


def test_a_bridge_with_several_ways_out_is_planned_for_the_slowest() -> None:
    bridge = Link(name="br0", kind="bridge", lower=("a", "b"))
    assert uplink(network(bridge, port("a", 10 * G), port("b"))).speed == G


def test_a_bridge_of_guests_alone_is_unknown() -> None:
    bridge = Link(name="br0", kind="bridge", lower=("veth0",))
    assert uplink(network(bridge, Link(name="veth0", kind="veth", speed=10 * G))).speed is None


def test_invented_speeds_are_unknown() -> None:
    for kind in ("veth", "tunnel", "loopback"):
        assert uplink(network(Link(name="x", kind=kind, speed=10 * G))).speed is None, kind  # type: ignore[arg-type]


def test_a_hypervisor_s_word_is_told_as_its_word() -> None:
    found = uplink(network(port("eth0", 10 * G, kind="paravirtual")))
    assert found.speed == 10 * G
    assert "hypervisor" in found.reason


def test_a_card_that_does_not_tell_is_unknown_and_named_by_its_driver() -> None:
    found = uplink(network(port("eth0", None, driver="virtio_net")))
    assert found.speed is None
    assert "virtio_net" in found.reason


def test_a_shaped_interface_is_as_fast_as_its_bucket_unless_the_wire_is_slower() -> None:
    assert uplink(network(port("eno1", 10 * G, shaped=G))).speed == G
    assert uplink(network(port("eno1", G, shaped=10 * G))).speed == G
    assert uplink(network(Link(name="v", kind="veth", shaped=G))).speed == G


def test_wireless_is_told_apart_below_a_bridge_too() -> None:
    bridge = Link(name="br0", kind="bridge", lower=("wlan0",))
    assert uplink(network(bridge, port("wlan0", kind="wireless"))).wireless
    assert not uplink(network(port("eno1"))).wireless


def test_interfaces_that_lie_on_each_other_in_a_circle_end_somewhere() -> None:
    links = [
        Link(name=name, kind="bond", bond_mode="802.3ad", lower=("a", "b", "c", "c"))
        for name in ("a", "b", "c")
    ]
    assert uplink(network(*links)).speed is None
