"""A Config as TOML, with units: what is in force, in the form in which it could be loaded.

Every key is written, defaults too, so that a dump answers "what is it now?" without
the manual. Loading a dump gives an equal Config. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgebox.config.keys import Key, keys_of
from edgebox.config.marks import Record
from edgebox.config.schema import Config
from edgebox.config.toml import KeyPath, write_header, write_key, write_value
from edgebox.config.units import format_quantity

Reasons = Mapping[tuple[str, str], str]  # (TABLE, KEY) → why it is what it is


def dump(config: Config, asked: Config | None = None, reasons: Reasons | None = None) -> str:
    """`config` as TOML.

    What is None in `asked` but not in `config` is marked `# planned:` with its reason, or
    `# auto` where there is none.
    """
    asked, reasons = asked or config, reasons or {}
    lines: list[str] = []
    for name in keys_of(Config):
        lines += _tables(getattr(config, name), getattr(asked, name), (name,), reasons)
    return "\n".join(lines)


def _tables(value: Any, asked: Any, path: KeyPath, reasons: Reasons) -> Iterator[str]:
    """What the tables of one key hold: one, several in order, several by name, or pairs."""
    match value:
        case Record():
            yield write_header(path)
            yield from _table(value, asked, path, reasons)
        case tuple():
            for number, record in enumerate(value):
                yield from _tables(record, asked[number], (*path, number), reasons)
        case dict() if any(isinstance(inner, Record) for inner in value.values()):
            for name, record in value.items():
                yield from _tables(record, asked[name], (*path, name), reasons)
        case dict() if value:
            yield write_header(path)
            yield from (f"{write_key(k)} = {write_value(v)}" for k, v in value.items())
            yield ""


def _table(record: Record, asked: Record, path: KeyPath, reasons: Reasons) -> Iterator[str]:
    below = []
    for name, key in keys_of(type(record)).items():
        value, before = getattr(record, name), getattr(asked, name)
        if key.is_table and value:
            below.append((name, value, before))  # last, or the plain keys would belong to it
            continue
        mark = _mark((*path, name), reasons) if before is None and value is not None else ""
        yield f"{name} = {write_value(plain_setting(value, key))}{mark}"
    yield ""
    for name, value, before in below:
        yield from _tables(value, before, (*path, name), reasons)


def _mark(path: KeyPath, reasons: Reasons) -> str:
    table, *_, key = path
    why = reasons.get((str(table), str(key))) if len(path) == 2 else None
    return f"  # planned: {' '.join(why.split())}" if why else "  # auto"


def plain_setting(value: Any, key: Key) -> Any:
    """The value of a key as plain TOML has it: a text where it has a unit or is auto."""
    match value:
        case None:
            return "auto"
        case Record():
            keys = keys_of(type(value))
            return {name: plain_setting(getattr(value, name), keys[name]) for name in keys}
        case tuple():
            return [plain_setting(item, key) for item in value]
        case _:
            return format_quantity(value, key.unit) if key.unit else value
