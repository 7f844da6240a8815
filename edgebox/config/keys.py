"""What the schema says of each key, in the form that loader, dump and JSON Schema share.

msgspec keeps a type in layers (Annotated, "or None"); here they are taken off once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import msgspec.inspect as inspect

from edgebox.config.marks import Record
from edgebox.config.toml import KeyPath
from edgebox.config.units import UNITS, Unit


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table: what it takes, and how that is written."""

    name: str
    kind: inspect.Type  # without Annotated and None
    unit: Unit | None  # how the number is written; None: as a plain TOML value
    auto: bool  # "auto" is allowed
    about: str
    required: bool

    def holding(self, kind: inspect.Type) -> Key:
        """What a member of this key must be, or one of several kinds that it may be."""
        return replace(self, kind=kind, auto=False, required=False)

    @property
    def is_table(self) -> bool:
        """Whether what it holds is written below a header of its own, not behind "="."""
        match self.kind:
            case inspect.VarTupleType(item_type=inner):
                return isinstance(inner, inspect.StructType)
            case _:
                return isinstance(self.kind, inspect.StructType | inspect.DictType)


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
                return Key(field.name, kind, unit, auto, about, field.required)


def table_of(kind: inspect.Type) -> type[Record] | None:
    """The record that this kind holds: one, several in order or by name, or as one choice."""
    match kind:
        case inspect.StructType(cls=cls) if issubclass(cls, Record):
            return cls
        case inspect.VarTupleType(item_type=inner) | inspect.DictType(value_type=inner):
            return table_of(inner)
        case inspect.UnionType(types=types):
            return next((table for choice in types if (table := table_of(choice))), None)
        case _:
            return None


def opened_by(key: Key, path: KeyPath) -> KeyPath:
    """Where the table, or one of the tables, of `key` is: `path` is that of the table with it.

    The index of one of several is 0, a name that the operator gives "NAME".
    """
    match key.kind:
        case inspect.VarTupleType():
            return (*path, key.name, 0)
        case inspect.DictType() if table_of(key.kind):
            return (*path, key.name, "NAME")
        case _:
            return (*path, key.name)


def tables_below(table: type[Record], path: KeyPath = ()) -> Iterator[tuple[KeyPath, type[Record]]]:
    """Every table that the file may have below `table`, with a path as `opened_by` makes it."""
    for key in keys_of(table).values():
        if record := table_of(key.kind):
            below = opened_by(key, path)
            yield below, record
            yield from tables_below(record, below)
