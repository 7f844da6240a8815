"""The configuration reference, docs/configuration.md, made of the schema: pure.

Each table with what it is for, each key with its default, what it takes and what it does. A
test holds the page to this, so it cannot fall behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec.inspect as inspect
from msgspec import NODEFAULT

from edgebox.config.dump import plain_setting
from edgebox.config.keys import Key, keys_of, tables_below
from edgebox.config.marks import Record
from edgebox.config.schema import Config
from edgebox.config.toml import KeyPath, write_value

_HEAD = """# Configuration reference

Made of the schema by `edgebox config-schema --markdown`. Sizes are written `"64 MiB"`, times
`"30s"`, rates `"1 MB/s"`; where a key takes `"auto"`, the plan decides (`edgebox plan` shows its
sums, `edgebox check --dump` what is in force). Unknown keys are refused. Keys with a dash as their
default must be given.
"""

_NAMES: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a number",
    inspect.FloatType: "a number",
    inspect.StrType: "a text",
}


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD]
    for path, table in tables_below(Config):
        parts.append("\n".join(_section(path, table)))
    return "\n".join(parts) + "\n"


def _section(path: KeyPath, table: type[Record]) -> Iterator[str]:
    yield f"## {_header(path)}"
    yield ""
    about = (table.__doc__ or "").strip().partition("\n")[0]
    about = (about.partition("]: ")[2] or about).strip()
    yield about[:1].upper() + about[1:]
    yield ""
    yield "| key | takes | default | what it does |"
    yield "|---|---|---|---|"
    defaults = _defaults(table)
    for name, key in keys_of(table).items():
        if not key.is_table:
            cells = (f"`{name}`", _takes(key), _default(key, defaults), key.about)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _header(path: KeyPath) -> str:
    """As a line of the file would open the table: [a], or [[a]] for one of several."""
    names = ".".join(str(part) for part in path if not isinstance(part, int))
    return f"[[{names}]]" if isinstance(path[-1], int) else f"[{names}]"


def _defaults(table: type[Record]) -> dict[str, object]:
    info = inspect.type_info(table)
    assert isinstance(info, inspect.StructType)
    found: dict[str, object] = {}
    for field in info.fields:
        if field.default_factory is not NODEFAULT:
            found[field.name] = field.default_factory()
        elif field.default is not NODEFAULT:
            found[field.name] = field.default
    return found


def _default(key: Key, defaults: dict[str, object]) -> str:
    if key.name not in defaults:
        return "–"
    value = plain_setting(defaults[key.name], key)
    return f"`{write_value(value)}`"


def _takes(key: Key) -> str:
    told = _kind(key)
    return f'{told}, or `"auto"`' if key.auto else told


def _kind(key: Key) -> str:
    if key.unit is not None:
        return f"a {key.unit.noun}"
    match key.kind:
        case inspect.LiteralType(values=values):
            return " or ".join(f"`{write_value(value)}`" for value in values)
        case inspect.VarTupleType(item_type=inner):
            return "several of: " + _kind(key.holding(_bare(inner)))
        case inspect.DictType():
            return "names with values"
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(_kind(key.holding(_bare(t))) for t in types))
        case inspect.StructType(cls=cls):
            return "a table of " + ", ".join(f"`{name}`" for name in keys_of(cls))
        case kind:
            return _NAMES.get(type(kind), "a value")


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind
