"""What the schema says of each key, in the form that loader, dump and JSON Schema share.

msgspec keeps a type in layers (Annotated, "or None"); here they are taken off once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import msgspec.inspect as inspect

from edgebox.config.schema import Record
from edgebox.config.units import UNITS, Unit


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table: what it takes, and how that is written."""

    name: str
    kind: inspect.Type  # without Annotated and None
    unit: Unit | None  # how the number is written; None: as a plain TOML value
    auto: bool  # "auto" is allowed
    about: str


@cache  # msgspec takes some milliseconds for it
def keys_of(table: type[Record]) -> dict[str, Key]:
    """The keys of `table` by name, in the order of the schema."""
    info = inspect.type_info(table)
    assert isinstance(info, inspect.StructType)
    return {field.name: _key(field) for field in info.fields}


def _key(field: inspect.Field) -> Key:
    kind, unit, auto, about = field.type, None, False, ""
    while True:
        match kind:
            case inspect.Metadata(type=inner, extra=extra, extra_json_schema=told):
                unit = unit or UNITS.get((extra or {}).get("unit", ""))
                about = about or (told or {}).get("description", "")
                kind = inner
            case inspect.UnionType(types=types):
                auto = True
                (kind,) = (t for t in types if not isinstance(t, inspect.NoneType))
            case _:
                return Key(field.name, kind, unit, auto, about)


def table_of(kind: inspect.Type) -> type[Record] | None:
    """The record that a key of this kind holds, be it one table or an array of them."""
    if isinstance(kind, inspect.VarTupleType):
        kind = kind.item_type
    if isinstance(kind, inspect.StructType) and issubclass(kind.cls, Record):
        return kind.cls
    return None
