"""Figures as people read them at a glance: three digits, a unit, a bar, a sparkline. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def count(number: float) -> str:
    """980, 12.3 k, 1.20 M."""
    return _scaled(number, 1000, ("", " k", " M", " G", " T"))


def size(octets: float) -> str:
    """Octets, in 1,024s: RAM and files."""
    return _scaled(octets, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def rate(octets: float) -> str:
    """Octets a second, in thousands: links."""
    return _scaled(octets, 1000, (" B/s", " kB/s", " MB/s", " GB/s", " TB/s"))


def bits(octets: float) -> str:
    """Octets a second as bits a second."""
    return _scaled(octets * 8, 1000, (" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"))


def seconds(value: float) -> str:
    """Latencies: 85 µs, 1.25 ms, 3.20 s; nothing measured is a dash."""
    if value <= 0:
        return "-"
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if value * factor < 1000:
            return f"{_digits(value * factor)} {unit}"
    return f"{_digits(value)} s"


def duration(value: float) -> str:
    """Uptimes: 45 s, 12 min 5 s, 3 h 10 min, 2 d 4 h."""
    whole = int(value)
    for unit, name, below, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // below} {small}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def percent(part: float, whole: float) -> str:
    """One of the other; a dash where there is nothing to compare."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"


def bar(share: float, width: int) -> str:
    """`share` of 1 as a bar of that many cells, in eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float], width: int, ceiling: float = 0.0) -> str:
    """The last `width` values, a cell each; as high as `ceiling`, or as the highest of them."""
    shown = list(values)[-width:] if width > 0 else []
    top = max([ceiling, *shown]) if shown else 0.0
    if top <= 0:
        return "".join("▁" for _ in shown)
    # What is not nothing shows, however little it is.
    return "".join(_BLOCKS[max(1, min(8, round(8 * max(v, 0.0) / top)))] for v in shown)


def cut(text: str, width: int) -> str:
    """At most that many characters, with dots where something is missing."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def printable(text: str) -> str:
    """Text of strangers, without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _scaled(number: float, step: int, units: Sequence[str]) -> str:
    value, unit = float(number), 0
    while abs(value) >= 999.5 and unit < len(units) - 1:
        value /= step
        unit += 1
    return (f"{value:.0f}" if not unit else _digits(value)) + units[unit]


def _digits(value: float) -> str:
    """Three of them."""
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )
