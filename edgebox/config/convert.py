"""From a parsed TOML tree to a Config, collecting every mistake on the way.

msgspec stops at the first mistake (by design), so the tree is cleaned first: units are
read, "auto" becomes None, and whatever is wrong is told and left out, which leaves its
default. What remains msgspec converts. Knows types and keys; what a value means
(addresses, hosts, paths) is `config/checks`' business.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec
import msgspec.inspect as inspect

from edgebox.config import units
from edgebox.config.keys import Key, keys_of, table_of
from edgebox.config.problems import Finding, show
from edgebox.config.schema import Config, Record
from edgebox.config.toml import KeyPath

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

    def table(self, raw: dict[str, Any], table: type[Record], path: KeyPath) -> dict[str, Any]:
        keys = keys_of(table)
        plain = {}
        for name, value in raw.items():
            if name not in keys:
                self._wrong((*path, name), _unknown(name, keys, path))
                continue
            cleaned = self._value(value, keys[name], (*path, name))
            if cleaned is not _WRONG:
                plain[name] = cleaned
        return plain

    def _value(self, raw: object, key: Key, path: KeyPath) -> Any:
        if key.auto and raw == "auto":
            return None
        or_auto = '; "auto" is allowed too' if key.auto else ""
        if key.unit is None:
            cleaned = self._plain(raw, key.kind, path, or_auto)
        else:
            try:
                cleaned = units.parse(raw, key.unit)
            except ValueError as error:
                return self._wrong(path, f"{error}{or_auto}")
        return self._bounded(cleaned, raw, key, path)

    def _plain(self, raw: object, kind: inspect.Type, path: KeyPath, or_auto: str = "") -> Any:
        match kind, raw:
            case inspect.StructType(), dict() if table := table_of(kind):
                return self.table(raw, table, path)
            case inspect.StructType(), _:
                return self._wrong(
                    path, f"is not a table: write {_header(path)} on a line of its own"
                )
            case inspect.VarTupleType(item_type=inspect.StructType()), dict():
                return self._wrong(
                    path, f"there can be several of these: write [[{path[0]}]], in two brackets"
                )
            case inspect.VarTupleType(item_type=inner), list():
                items = [self._plain(item, inner, (*path, i)) for i, item in enumerate(raw)]
                return _WRONG if _WRONG in items else items
            case inspect.DictType(value_type=inner), dict():
                pairs = {n: self._plain(item, inner, (*path, n)) for n, item in raw.items()}
                return _WRONG if _WRONG in pairs.values() else pairs
            case inspect.LiteralType(values=values), _ if raw in values:
                return raw
            case inspect.LiteralType(values=values), _:
                hint = _did_you_mean(str(raw), [str(value) for value in values])
                choices = ", ".join(map(show, values))
                return self._wrong(path, f"{show(raw)} is none of {choices}{hint}")
            case (inspect.StrType(), str()) | (inspect.BoolType(), bool()):
                return raw
            case inspect.IntType(), int() if not isinstance(raw, bool):
                return raw
        return self._wrong(path, f"{show(raw)} is not {_noun(kind)}{or_auto}")

    def _bounded(self, number: Any, raw: object, key: Key, path: KeyPath) -> Any:
        """`number` if it keeps the bounds of a numeric key; other values pass."""
        if not isinstance(key.kind, inspect.IntType | inspect.FloatType) or number is _WRONG:
            return number
        least, most = key.kind.ge, key.kind.le
        if least is not None and number < least:
            return self._wrong(path, f"{show(raw)} is too small: at least {_show(least, key)}")
        if number > (most := units.LARGEST if most is None else most):
            return self._wrong(path, f"{show(raw)} is too large: at most {_show(most, key)}")
        return number


def _header(path: KeyPath) -> str:
    """How the file opens the table at `path`; one with an index is one of several."""
    return f"[[{path[0]}]]" if len(path) > 1 else f"[{path[0]}]"


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
        case inspect.VarTupleType():
            return 'a list, as ["..."]'
        case _:
            return 'a table, as { "..." = "..." }'


def _unknown(name: str, keys: dict[str, Key], path: KeyPath) -> str:
    """What to do about a key that this table has not."""
    elsewhere = [
        f"[[{table.name}]]" if isinstance(table.kind, inspect.VarTupleType) else f"[{table.name}]"
        for table in keys_of(Config).values()
        if (record := table_of(table.kind)) and name in keys_of(record)
    ]
    if elsewhere:
        return f"unknown key here; it belongs in {' or '.join(elsewhere)}"
    hint = _did_you_mean(name, list(keys))
    if hint:
        return f"unknown key{hint}"
    where = _header(path) if path else "the file"
    return f"unknown key; {where} takes {', '.join(keys)}"


def _did_you_mean(word: str, known: list[str]) -> str:
    close = get_close_matches(word.casefold().replace("-", "_"), known, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
