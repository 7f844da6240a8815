"""A Config as TOML, with units: what is in force, in the form in which it could be loaded.

Every key is written, defaults too, so that a dump answers "what is it now?" without
the manual. Loading a dump gives an equal Config. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgebox.config.keys import Key, keys_of, table_of
from edgebox.config.schema import Config, Record
from edgebox.config.toml import write_key, write_value
from edgebox.config.units import format_quantity


def dump(config: Config, asked: Config | None = None) -> str:
    """`config` as TOML. What is None in `asked` but not in `config` is marked `# auto`."""
    return "\n".join(_lines(config, asked or config))


def _lines(config: Config, asked: Config) -> Iterator[str]:
    for name, key in keys_of(Config).items():
        value, before = getattr(config, name), getattr(asked, name)
        if isinstance(value, Record):
            yield f"[{name}]"
            yield from _table(value, before, name)
        else:
            for number, record in enumerate(value):
                yield f"[[{name}]]"
                yield from _table(record, before[number], name)
        assert table_of(key.kind), name


def _table(record: Record, asked: Record, path: str) -> Iterator[str]:
    below = []
    for name, key in keys_of(type(record)).items():
        value = getattr(record, name)
        if isinstance(value, dict) and value:
            below.append((name, value))  # after the plain keys, or those would belong to it
            continue
        mark = "  # auto" if getattr(asked, name) is None and value is not None else ""
        yield f"{name} = {write_value(plain_setting(value, key))}{mark}"
    yield ""
    for name, pairs in below:
        yield f"[{path}.{name}]"
        yield from (f"{write_key(k)} = {write_value(v)}" for k, v in pairs.items())
        yield ""


def plain_setting(value: Any, key: Key) -> Any:
    """The value of a key as plain TOML has it: a text where it has a unit or is auto."""
    if value is None:
        return "auto"
    return format_quantity(value, key.unit) if key.unit else value
