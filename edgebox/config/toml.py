"""Values and keys as TOML writes them, for the dump and for messages about the file.

tomllib only reads. One line a value: no multi-line strings or arrays. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

# Where a value stands: keys of tables and indexes of arrays, outermost first.
KeyPath = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_text(text: str) -> str:
    """`text` as a basic string. JSON's escapes are TOML's; only DEL needs one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_key(name: str) -> str:
    """`name` bare where TOML allows that, else quoted."""
    return name if _BARE.fullmatch(name) else write_text(name)


def write_value(value: object) -> str:
    """`value` on one line; what is none of TOML's plain types (a date) by its text."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return write_text(value)
        case list() | tuple():
            return f"[{', '.join(write_value(item) for item in value)}]"
        case Mapping():
            pairs = (f"{write_key(k)} = {write_value(v)}" for k, v in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            return str(value)


def write_path(path: KeyPath) -> str:
    """`site[0].headers."X-A b"`, as messages name a key."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{write_key(step)}"
    return text.removeprefix(".")


def write_header(path: KeyPath) -> str:
    """`[upstream.app]`; `[[site.route]]` where the path ends on the index of one of several."""
    name = ".".join(write_key(step) for step in path if isinstance(step, str))
    return f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]"
