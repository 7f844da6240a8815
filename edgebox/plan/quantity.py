"""How the plan writes numbers for people.

Memory in binary units, because that is how it is bought; rates and links in decimal ones,
because that is how they are sold. Below 100,000 bytes every byte is shown: there an operator
checks the sum in the head. Nothing here is parsed again; JSON carries the bare numbers.
"""

from __future__ import annotations

from typing import Literal

Unit = Literal["bytes", "bytes/s", "bits/s", "1/s", "s", "µs", "ns", ""]

Value = int | float | str | bool | None


def written(value: Value, unit: Unit = "") -> str:
    """A value in its unit, "unknown" for None."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return size(value)
    if unit == "bytes/s":
        return _decimal(value, "B/s")
    if unit == "bits/s":
        return _decimal(value, "bit/s")
    if unit == "s":
        return seconds(value)
    if unit in ("µs", "ns"):
        return f"{significant(value)} {unit}"
    return f"{count(value)}/s" if unit == "1/s" else count(value)


def size(value: float) -> str:
    if value < 100_000:
        return f"{count(value)} B"
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB")):
        if value >= 1024**power:
            return f"{significant(value / 1024**power)} {name}"
    return f"{significant(value / 1024)} KiB"


def rate(value: float) -> str:
    return _decimal(value, "B/s")


def bits(value: float) -> str:
    return _decimal(value, "bit/s")


def seconds(value: float) -> str:
    return f"{significant(value * 1000)} ms" if 0 < value < 1 else f"{significant(value)} s"


def count(value: float) -> str:
    """Whole numbers in full; others as far as they mean something."""
    return f"{int(value):,}" if value == int(value) or value >= 1000 else significant(value)


def many(number: int, noun: str, plural: str = "") -> str:
    """ "1 worker", "2 workers"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def significant(value: float) -> str:
    """Enough digits to check a sum by, never in powers of ten: 117.7, 23.18, 2.32, 1,234."""
    if value >= 100:
        return f"{value:,.1f}".removesuffix(".0") if value < 1000 else f"{value:,.0f}"
    digits = 2 if value >= 1 else 3
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") or "0"


def _decimal(value: float, unit: str) -> str:
    for power, name in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if value >= 1000**power:
            return f"{significant(value / 1000**power)} {name}{unit}"
    return f"{count(value)} {unit}"
