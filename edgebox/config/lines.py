"""On which line of a TOML text each key stands.

tomllib gives a line for syntax errors only, but an operator wants one for every
mistake. This scanner walks a text that tomllib has already accepted, so it checks
nothing: it only has to skip values rightly and keep account of where it is (TOML 1.0:
dotted keys, inline tables, arrays of tables, multi-line strings and arrays). Pure.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left

from edgebox.config.toml import KeyPath

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'  # up to two quotes may stand before the closing three
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")  # numbers, booleans, dates: "1979-05-27 07:32:00" too


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every table, key and array element of a valid TOML text.

    A table has the line where it is first named, be it by a header or a dotted key.
    """
    return _Scanner(text).scan()


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of `path`, or of the innermost table around it that is in the text; else 1."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Scanner:
    """A position in the text, and what was found before it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [m.start() for m in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._counts: dict[KeyPath, int] = {}  # elements so far of each array of tables

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip_blank():
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _header(self) -> KeyPath:
        many = self._text.startswith("[[", self._at)
        line = self._line()
        self._at += 2 if many else 1
        *outer, last = self._key()
        self._at += 2 if many else 1
        path: KeyPath = ()
        for name in outer:
            path = self._enter((*path, name), line)
        path = (*path, last)
        self._lines.setdefault(path, line)
        if many:
            number = self._counts.get(path, 0)
            self._counts[path] = number + 1
            path = (*path, number)
            self._lines[path] = line
        return path

    def _enter(self, path: KeyPath, line: int) -> KeyPath:
        """Into a table, or into the last element of an array of tables."""
        self._lines.setdefault(path, line)
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        for name in self._key():
            table = (*table, name)
            self._lines.setdefault(table, line)
        self._at += 1  # the "="
        self._skip_blank()
        self._value(table)

    def _key(self) -> list[str]:
        """The parts of a dotted key; ends on what follows it: "=" or "]"."""
        parts = []
        while True:
            self._skip_blank()
            if quoted := _STRING.match(self._text, self._at):
                parts.append(tomllib.loads(f"k = {quoted.group()}")["k"])
                self._at = quoted.end()
            elif bare := _BARE_KEY.match(self._text, self._at):
                parts.append(bare.group())
                self._at = bare.end()
            self._skip_blank()
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        number = 0
        while self._next_member("]"):
            self._lines[(*path, number)] = self._line()
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        while self._next_member("}"):
            self._pair(path)

    def _next_member(self, end: str) -> bool:
        """Past the opening bracket or comma; False, and past the end, when there is no more."""
        self._skip_blank()
        if self._text[self._at] != end:
            self._at += 1
            self._skip_blank()
        if self._text[self._at] != end:
            return True
        self._at += 1
        return False

    def _skip(self, what: re.Pattern[str]) -> None:
        if found := what.match(self._text, self._at):
            self._at = found.end()

    def _skip_blank(self) -> bool:
        """Past spaces, line ends and comments; False at the end of the text."""
        self._skip(_BLANK)
        return self._at < len(self._text)

    def _line(self) -> int:
        return bisect_left(self._ends, self._at) + 1
