"""From a parsed TOML tree to a Config, collecting every mistake on the way.

msgspec stops at the first mistake (by design), so the tree is cleaned first: units are
read, "auto" becomes None, and whatever is wrong is told and left out, which leaves its
default; a table that lacks what it must have is left out as a whole. What remains
msgspec converts. Knows types and keys; what a value means (addresses, hosts, paths) is
`config/checks`' business.
"""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect as inspect

from edgebox.config import units
from edgebox.config.hints import did_you_mean, unknown_key
from edgebox.config.keys import Key, keys_of, table_of
from edgebox.config.marks import Record
from edgebox.config.problems import Finding, show
from edgebox.config.schema import Config
from edgebox.config.toml import KeyPath, write_header

_WRONG = msgspec.UNSET  # told already; leave the key out


def convert(tree: dict[str, Any]) -> tuple[Config, list[Finding]]:
    """A Config with the defaults in place of what is wrong, and what is wrong."""
    cleaner = _Cleaner()
    plain = cleaner.table(tree, Config, ())
    try:
        return msgspec.convert(plain, Config), cleaner.findings
    except msgspec.ValidationError as error:  # a constraint that is not spelled out below
        return Config(), [*cleaner.findings, ((), str(error))]


class _Cleaner:
    """Walks the tree beside the schema; `findings` grows."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def _wrong(self, path: KeyPath, text: str) -> Any:
        self.findings.append((path, text))
        return _WRONG

    def table(self, raw: dict[str, Any], table: type[Record], path: KeyPath) -> Any:
        """The table with what is right of it; _WRONG if something is missing that must be there."""
        keys = keys_of(table)
        plain = {}
        for name, value in raw.items():
            if name not in keys:
                self._wrong((*path, name), unknown_key(name, keys, path))
                continue
            cleaned = self._value(value, keys[name], (*path, name))
            if cleaned is not _WRONG:
                plain[name] = cleaned
        missing = [name for name, key in keys.items() if key.required and name not in plain]
        for name in missing:
            if name not in raw:
                self._wrong(path, f"lacks {name}: {keys[name].about}")
        return _WRONG if missing else plain

    def _value(self, raw: object, key: Key, path: KeyPath) -> Any:
        if key.auto and raw == "auto":
            return None
        if key.unit is None:
            return self._plain(raw, key, path)
        try:
            return self._bounded(units.parse(raw, key.unit), raw, key, path)
        except ValueError as error:
            return self._wrong(path, f"{error}{_or_auto(key)}")

    def _plain(self, raw: object, key: Key, path: KeyPath) -> Any:
        match key.kind, raw:
            case inspect.StructType(), dict() if table := table_of(key.kind):
                return self.table(raw, table, path)
            case inspect.StructType(), _:
                header = write_header(path)
                return self._wrong(path, f"is not a table: write {header} on a line of its own")
            case inspect.DictType(value_type=inspect.StructType() as inner), _:
                return self._named_tables(raw, key.holding(inner), path)
            case inspect.VarTupleType(item_type=inspect.StructType()), dict():
                header = write_header((*path, 0))
                return self._wrong(
                    path, f"there can be several of these: write {header}, in two brackets"
                )
            case inspect.VarTupleType(item_type=inner), list():
                item = key.holding(inner)
                items = [self._value(value, item, (*path, i)) for i, value in enumerate(raw)]
                return _WRONG if _WRONG in items else items
            case inspect.DictType(value_type=inner), dict():
                item = key.holding(inner)
                pairs = {n: self._value(value, item, (*path, n)) for n, value in raw.items()}
                return _WRONG if _WRONG in pairs.values() else pairs
            case inspect.UnionType(types=kinds), _:
                return self._plain(raw, key.holding(_meant(raw, kinds)), path)
            case inspect.LiteralType(values=values), _ if raw in values:
                return raw
            case inspect.LiteralType(values=values), _:
                hint = did_you_mean(str(raw), [str(value) for value in values])
                choices = ", ".join(map(show, values))
                return self._wrong(path, f"{show(raw)} is none of {choices}{hint}")
            case (inspect.StrType(), str()) | (inspect.BoolType(), bool()):
                return raw
            case inspect.IntType(), int() if not isinstance(raw, bool):
                return self._bounded(raw, raw, key, path)
        return self._wrong(path, f"{show(raw)} is not {_noun(key.kind)}{_or_auto(key)}")

    def _named_tables(self, raw: object, inner: Key, path: KeyPath) -> Any:
        """Tables by a name that the operator gives; those that are wrong are left out."""
        header = write_header((*path, "NAME"))
        if not isinstance(raw, dict):
            return self._wrong(path, f"each of these has a name: write {header}")
        table, right = table_of(inner.kind), {}
        for name, value in raw.items():
            if table and name in keys_of(table) and not isinstance(value, dict):
                self._wrong((*path, name), f"belongs below a header with a name: {header}")
                continue
            cleaned = self._plain(value, inner, (*path, name))
            if cleaned is not _WRONG:
                right[name] = cleaned
        return right

    def _bounded(self, number: float, raw: object, key: Key, path: KeyPath) -> Any:
        """`number` if it keeps the bounds of the key, whose kind is a number."""
        assert isinstance(key.kind, inspect.IntType | inspect.FloatType)
        least, most = key.kind.ge, key.kind.le
        if least is not None and number < least:
            return self._wrong(path, f"{show(raw)} is too small: at least {_show(least, key)}")
        if number > (most := units.LARGEST if most is None else most):
            return self._wrong(path, f"{show(raw)} is too large: at most {_show(most, key)}")
        return number


def _meant(raw: object, kinds: tuple[inspect.Type, ...]) -> inspect.Type:
    """Which of two kinds, one of them a table, the writer of `raw` had in mind."""
    tables = [isinstance(kind, inspect.StructType) for kind in kinds]
    return kinds[tables.index(isinstance(raw, dict))]


def _or_auto(key: Key) -> str:
    return '; "auto" is allowed too' if key.auto else ""


def _show(bound: float, key: Key) -> str:
    return units.format_quantity(bound, key.unit) if key.unit else str(bound)


def _noun(kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.StrType():
            return "a text in quotes"
        case inspect.VarTupleType(item_type=inspect.IntType()):
            return "a list, as [1, 2]"
        case inspect.VarTupleType():
            return 'a list, as ["..."]'
        case _:
            return 'a table, as { "..." = "..." }'
