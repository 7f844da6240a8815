from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.lines import key_lines, line_of
from edgebox.config.toml import KeyPath, write_key, write_text

EVERYTHING = r'''
# a comment with [brackets] and x = 1
top = 1
"quoted \u0041 key".'lit"eral' = 2

[ server ]  # comment
listen = [  # 7
  "a",
  # "not = this",
  "b, ]", 'c]',

  ["nested", [1]],
]
"a.b" . c = { x = 1, "y z" = { w = [1, 2] }, t = "}" }
multi = """
fake = 1
[fake]
\""" still """""
after = 1979-05-27 07:32:00
literal = QQQ
x = ''QQQ
also = 12:30:00
empty = []
none = {}

[[site]]
root = "x"
[site.headers]
X = 1
[[site.rule]]
a = 1
[[site.rule]]
a = 2
[[site]]
[[site.rule]]
dates = [1979-05-27 07:32:00, 1.5e3 ]
[upstream.app]
servers = [  # two
  "x",
  { url = "y", weight = 2 },
]
[upstream.app.tls]
ca = ""
[[upstream.other.servers]]
url = "a"
[[upstream.other.servers]]
url = "b"
["upstream"."a b".health]
path = "/"
[a.b.c]
d = 1
[a]
e = true#comment'''.replace("QQQ", "'''")


def paths(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every path below `value`, a tree that tomllib made."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


@pytest.mark.parametrize("text", [EVERYTHING, EVERYTHING.replace("\n", "\r\n"), "", "# only this"])
def test_every_key_that_tomllib_finds_has_a_line_and_no_other(text: str) -> None:
    assert set(key_lines(text)) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("path", "start"),
    [
        (("top",), "top = 1"),
        (("quoted A key", 'lit"eral'), '"quoted'),
        (("server",), "[ server ]"),
        (("server", "listen"), "listen ="),
        (("server", "listen", 0), '  "a"'),
        (("server", "listen", 1), '  "b, ]"'),
        (("server", "listen", 2), '  "b, ]"'),
        (("server", "listen", 3, 1, 0), '  ["nested"'),
        (("server", "a.b", "c", "y z", "w", 1), '"a.b" . c'),
        (("server", "multi"), "multi"),
        (("server", "after"), "after"),
        (("server", "also"), "also"),
        (("site",), "[[site]]"),
        (("site", 0, "headers", "X"), "X = 1"),
        (("site", 0, "rule", 1, "a"), "a = 2"),
        (("site", 1, "rule", 0, "dates", 0), "dates"),
        (("upstream",), "[upstream.app]"),
        (("upstream", "app", "servers", 0), '  "x"'),
        (("upstream", "app", "servers", 1), "  { url"),
        (("upstream", "app", "servers", 1, "weight"), "  { url"),
        (("upstream", "app", "tls"), "[upstream.app.tls]"),
        (("upstream", "other", "servers"), "[[upstream.other.servers]]"),
        (("upstream", "other", "servers", 1, "url"), 'url = "b"'),
        (("upstream", "a b"), '["upstream"."a b".health]'),
        (("upstream", "a b", "health", "path"), 'path = "/"'),
        (("a", "b", "c", "d"), "d = 1"),
        (("a",), "[a.b.c]"),
        (("a", "e"), "e = true"),
    ],
)
def test_a_key_has_the_line_where_it_stands(path: KeyPath, start: str) -> None:
    line = key_lines(EVERYTHING)[path]
    assert EVERYTHING.split("\n")[line - 1].startswith(start)


def test_a_key_that_is_not_there_has_the_line_of_the_table_around_it() -> None:
    lines = key_lines("\n[server]\nname = 'x'\n")
    assert line_of(lines, ("server", "listen", 3)) == 2
    assert line_of(lines, ("log", "level")) == 1


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["a", "b", "a.b", "x=1", "#", '"', "]"]
)
STRINGS = st.text(alphabet="ab\"'\\#=[]{},\n", max_size=6)
SPACE = st.sampled_from(["", " ", "\t", "\n", " # ] } x = 1\n"])


def multi_line(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"""', '""\\"') + ' """'


LEAVES = st.integers().map(str) | STRINGS.map(write_text) | STRINGS.map(multi_line)


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(st.tuples(SPACE, inner, SPACE), max_size=4))
    return "[" + ",".join(f"{before}{item}{after}" for before, item, after in items) + "]"


@st.composite
def inline_tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    pairs = draw(st.dictionaries(NAMES, inner, max_size=3))
    return "{" + ", ".join(f"{write_key(k)}={v}" for k, v in pairs.items()) + "}"


ANY = st.recursive(LEAVES, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    """A text with tables, and the line of each key of theirs."""
    text, expected = "", {}
    for number, name in enumerate(draw(st.lists(NAMES, unique=True, max_size=3))):
        many = draw(st.booleans())
        table: KeyPath = (name, 0) if many else (name,)
        text += draw(st.sampled_from(["", "\n", "# x\n"]))
        text += f"[[{write_key(name)}]]\n" if many else f"[ {write_key(name)} ] # {number}\n"
        for key, value in draw(st.dictionaries(NAMES, ANY, max_size=4)).items():
            expected[(*table, key)] = text.count("\n") + 1
            text += f"{write_key(key)} = {value}\n"
    return text, expected


@pytest.mark.slow
@given(documents())
def test_values_of_any_shape_never_shift_the_lines(
    document: tuple[str, dict[KeyPath, int]],
) -> None:
    text, expected = document
    lines = key_lines(text)
    assert set(lines) == set(paths(tomllib.loads(text)))
    assert {path: lines[path] for path in expected} == expected
