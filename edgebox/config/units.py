"""How sizes, times and rates are written in edgebox.toml, both ways.

"64 MiB" is a number of bytes, "30s" of seconds, "1 MB/s" of bytes a second; a bare
number is bytes, seconds or bytes a second already. Whatever `format_*` writes,
`parse_*` reads back as the same number. Units are spelled one way only: "Mb" and "MB"
differ by eight, so a wrong case is refused with a hint rather than guessed.
Arithmetic is on integers, so "0.1 GB" is exact. Pure; knows nothing of TOML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

LARGEST = 2**63 - 1  # what TOML promises of an integer, and what off_t holds

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NUMBER = re.compile(r"([0-9]+)(?:\.([0-9]+))?")


@dataclass(frozen=True)
class Unit:
    """One kind of quantity.

    `factors` maps each spelling to its worth in the smallest spelling, `scale` of which
    make one of what edgebox counts in (`base`). `whole`: fractions are cut off.
    """

    noun: str
    base: str
    bare: str  # what a number without unit counts
    factors: dict[str, int]
    scale: int
    whole: bool
    hints: dict[str, str]

    @property
    def pattern(self) -> str:
        """A regular expression for what is allowed, for the JSON Schema (ECMA 262)."""
        return rf"[0-9]+(\.[0-9]+)?( *({'|'.join(self.factors)}))? *"

    @property
    def allowed(self) -> str:
        *rest, last = self.factors
        return f"a number of {self.bare}, or a text with {', '.join(rest)} or {last}"


SIZE = Unit(
    noun="size",
    base="B",
    bare="bytes",
    factors={f"{prefix}B": worth for prefix, worth in (_DECIMAL | _BINARY).items()},
    scale=1,
    whole=True,
    hints={p.lower(): f"{p}iB" for p in "KMGT"},
)
TIME = Unit(
    noun="time",
    base="s",
    bare="seconds",
    factors={"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    scale=1000,
    whole=False,
    hints={
        spelling: unit
        for unit, spellings in {
            "ms": "msec millisecond milliseconds",
            "s": "sec secs second seconds",
            "m": "min mins minute minutes",
            "h": "hr hrs hour hours",
            "d": "day days",
        }.items()
        for spelling in spellings.split()
    },
)
RATE = Unit(
    noun="rate",
    base="B/s",
    bare="bytes a second",
    factors={f"{prefix}B/s": 8 * worth for prefix, worth in (_DECIMAL | _BINARY).items()}
    | {f"{prefix}bit/s": worth for prefix, worth in _DECIMAL.items()},
    scale=8,
    whole=True,
    hints={f"{p.lower()}bps": f"{p}bit/s" for p in ("", "k", "M", "G", "T")},
)
UNITS = {unit.noun: unit for unit in (SIZE, TIME, RATE)}


def parse_size(value: object) -> int:
    """Bytes, from 65536, "64 KiB" or "1.5 GiB"; ValueError says what is allowed."""
    return int(parse(value, SIZE))


def parse_time(value: object) -> float:
    """Seconds, from 30, 0.5, "30s", "500ms", "5m", "2h" or "1d"; ValueError as above."""
    return float(parse(value, TIME))


def parse_rate(value: object) -> int:
    """Bytes a second, from 1000, "1 MB/s" or "100 Mbit/s"; ValueError as above."""
    return int(parse(value, RATE))


def format_size(size: int) -> str:
    """`size` bytes in the largest unit that divides it: "64 MiB"."""
    return format_quantity(size, SIZE)


def format_time(seconds: float) -> str:
    """`seconds` in the largest unit that divides it: "30s", "1500ms"."""
    return format_quantity(seconds, TIME)


def format_rate(rate: int) -> str:
    """`rate` bytes a second in the largest unit that divides it: "1 MB/s"."""
    return format_quantity(rate, RATE)


def parse(value: object, unit: Unit) -> int | float:
    """The number of `unit.base` that `value`, a TOML number or text, stands for."""
    top, bottom = _ratio(value, unit)
    number = top // bottom if unit.whole else top / bottom
    if unit.whole and top and not number:
        raise ValueError(f'"{value}" comes to less than 1 {unit.base}')
    return number


def _ratio(value: object, unit: Unit) -> tuple[int, int]:
    """`value` in `unit.base`, as an exact fraction that is neither negative nor too large."""
    match value:
        case bool():
            raise ValueError(f"{str(value).lower()} is not a {unit.noun}: write {unit.allowed}")
        case int():
            ratio = value, 1
        case float() if not unit.whole and abs(value) <= LARGEST:  # NaN and inf are neither
            ratio = value.as_integer_ratio()
        case float():
            raise ValueError(f"{value} is not a {unit.noun}: write {unit.allowed}")
        case str():
            ratio = _read(value, unit)
        case _:
            raise ValueError(f"this is not a {unit.noun}: write {unit.allowed}")
    if ratio[0] < 0:
        raise ValueError(f"{value} is negative")
    if ratio[0] > LARGEST * ratio[1]:
        raise ValueError(f"{value} is too large: at most {LARGEST} {unit.base}")
    return ratio


def _read(text: str, unit: Unit) -> tuple[int, int]:
    number = _NUMBER.match(text)
    spelling = text[number.end() :].strip(" ") if number else ""
    if number is None or len(text) > 400:  # int() itself refuses thousands of digits
        raise ValueError(f'"{text[:40]}" is not a {unit.noun}: write {unit.allowed}')
    if spelling and spelling not in unit.factors:
        raise ValueError(_unknown(text, number.group(), spelling, unit))
    digits, fraction = number.group(1), number.group(2) or ""
    worth = unit.factors[spelling or unit.base]
    return int(digits + fraction) * worth, 10 ** len(fraction) * unit.scale


def _unknown(text: str, number: str, spelling: str, unit: Unit) -> str:
    same = [known for known in unit.factors if known.casefold() == spelling.casefold()]
    # "Mb/s": a letter apart from two units that differ by eight.
    ambiguous = spelling.endswith("b/s")
    meant = same[0] if same else unit.hints.get(spelling.casefold())
    space = "" if unit is TIME else " "
    hint = f'; did you mean "{number}{space}{meant}"?' if meant and not ambiguous else ""
    return f'"{text[:40]}" has an unknown unit{hint} (write {unit.allowed})'


def format_quantity(number: int | float, unit: Unit) -> str:
    """`number` of `unit.base` in the largest spelling that divides it exactly."""
    space = "" if unit is TIME else " "
    smallest = round(number * unit.scale)
    if smallest / unit.scale != number and not unit.whole:  # finer than a millisecond
        return f"{Decimal(repr(number)):f}{space}{unit.base}"
    if smallest == 0:
        return f"0{space}{unit.base}"
    worth, spelling = max((w, s) for s, w in unit.factors.items() if smallest % w == 0)
    return f"{smallest // worth}{space}{spelling}"
