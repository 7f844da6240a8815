"""What somebody meant who wrote a key or a name that there is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from edgebox.config.keys import Key, keys_of, opened_by, tables_below
from edgebox.config.schema import Config
from edgebox.config.toml import KeyPath, write_header

_SLIP = 0.85  # likeness of two words that are one letter apart, by difflib's measure
_LIKE = 0.6


def did_you_mean(word: str, known: Iterable[str], likeness: float = _LIKE) -> str:
    """A question to add to a sentence; "" if no known word is like this one."""
    close = get_close_matches(word.casefold().replace("-", "_"), known, n=1, cutoff=likeness)
    return f'; did you mean "{close[0]}"?' if close else ""


def unknown_key(name: str, keys: dict[str, Key], path: KeyPath) -> str:
    """What to do about the key `name` that the table at `path`, which has `keys`, has not.

    A slip of the finger first, then a key that is right but in the wrong table.
    """
    if hint := did_you_mean(name, keys, _SLIP):
        return f"unknown key{hint}"
    if headers := list(_headers_of(name)):
        return f"unknown key here; write {' or '.join(headers)}"
    if homes := list(_homes_of(name)):
        return f"unknown key here; it belongs in {' or '.join(homes)}"
    if hint := did_you_mean(name, keys):
        return f"unknown key{hint}"
    where = write_header(path) if path else "the file"
    return f"unknown key; {where} takes {', '.join(keys)}"


def _headers_of(name: str) -> Iterator[str]:
    """How tables of that name are opened, where they stand in others."""
    for path, table in tables_below(Config):
        key = keys_of(table).get(name)
        if key is not None and key.is_table:
            yield write_header(opened_by(key, path))


def _homes_of(name: str) -> Iterator[str]:
    """The tables that have a plain key of that name."""
    for path, table in tables_below(Config):
        if name in keys_of(table):
            yield write_header(path)
