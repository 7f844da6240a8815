"""The machine-readable form of lighttpd's mod_status (`?auto`), which many scripts read."""

from __future__ import annotations

from edgebox.observe.status.snapshot import Snapshot

MOST_SLOTS = 1024  # of the scoreboard; lighttpd has one a connection that it could have


def auto(snapshot: Snapshot) -> bytes:
    """Lines "Name: number", and a letter a connection: h is being answered, k idle, _ free."""
    gauges, totals = snapshot.gauges, snapshot.totals
    busy, idle = gauges["tasks"], gauges["idle"]
    free = max(0, gauges["connections_limit"] - busy - idle)
    board = ("h" * min(busy, MOST_SLOTS) + "k" * min(idle, MOST_SLOTS) + "_" * free)[:MOST_SLOTS]
    return (
        f"Total Accesses: {totals['requests']}\n"
        f"Total kBytes: {totals['octets'] // 1024}\n"
        f"Uptime: {snapshot.uptime}\n"
        f"BusyServers: {busy + idle}\n"
        f"IdleServers: {free}\n"
        f"Scoreboard: {board}\n"
    ).encode()
