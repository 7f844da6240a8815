"""The shipped edgebox.toml says what the schema says, in its examples, too."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from edgebox.config.keys import keys_of, tables_below
from edgebox.config.lines import key_lines
from edgebox.config.load import load, load_text
from edgebox.config.marks import Record
from edgebox.config.schema import Config, Route, Site
from edgebox.config.toml import KeyPath, write_header
from edgebox.config.upstreams import Upstream, UpstreamServer

SHIPPED = Path(__file__).parent.parent.parent / "edgebox.toml"
TABLES = dict(tables_below(Config))


def with_examples() -> str:
    """The shipped file with its examples in force: lines that begin with # and no space."""
    return re.sub(r"^#(?![ :]|$)", "", SHIPPED.read_text(), flags=re.MULTILINE)


def plain_path(path: KeyPath) -> KeyPath:
    """Without indexes, and with NAME for the name of an upstream, as `tables_below` has it."""
    names = [step for step in path if isinstance(step, str)]
    return tuple("NAME" if names[i - 1 : i] == ["upstream"] else n for i, n in enumerate(names))


def test_the_shipped_file_is_the_defaults() -> None:
    assert load(SHIPPED) == Config()


def test_what_the_shipped_file_shows_as_examples_can_be_loaded() -> None:
    (site,) = load_text(with_examples(), str(SHIPPED)).site
    assert site.error_pages
    assert site.headers
    assert site.types


def test_the_examples_of_routes_and_upstreams_are_at_their_defaults() -> None:
    config = load_text(with_examples(), str(SHIPPED))
    (route,) = config.site[0].route
    assert route == Route(path=route.path, upstream=route.upstream)
    upstream = config.upstream[route.upstream]
    assert config.upstream.keys() == {route.upstream}
    assert upstream == Upstream(servers=upstream.servers)
    assert any(isinstance(server, UpstreamServer) for server in upstream.servers)


@pytest.mark.parametrize("path", TABLES, ids=write_header)
def test_the_shipped_file_has_every_key(path: KeyPath) -> None:
    written = {plain_path(found) for found in key_lines(with_examples())}
    assert {(*plain_path(path), name) for name in keys_of(TABLES[path])} <= written


def test_every_key_of_the_shipped_file_has_a_comment_above_it() -> None:
    text = with_examples()
    lines = text.splitlines()
    keys = {
        line: path
        for path, line in key_lines(text).items()
        if isinstance(path[-1], str) and len(path) > 1
    }
    assert [path for line, path in keys.items() if not lines[line - 2].startswith("# ")] == []


def test_the_shipped_file_tells_editors_of_its_schema() -> None:
    assert SHIPPED.read_text().startswith("#:schema ")


@pytest.mark.parametrize("record", TABLES.values(), ids=lambda record: record.__name__)
def test_every_key_has_a_description(record: type[Record]) -> None:
    assert record.__doc__
    assert [key.name for key in keys_of(record).values() if not key.about] == []


@pytest.mark.parametrize("record", TABLES.values(), ids=lambda record: record.__name__)
def test_defaults_keep_the_bounds_that_the_schema_sets(record: type[Record]) -> None:
    given = {name: "x" for name, key in keys_of(record).items() if key.required}
    given |= {"servers": ["x"]} if "servers" in given else {}
    plain = msgspec.to_builtins(msgspec.convert(given, record))
    assert msgspec.to_builtins(msgspec.convert(plain, record)) == plain


def test_a_site_is_proxied_where_an_upstream_has_all_paths() -> None:
    assert Site(route=(Route(path="/a", upstream="x"), Route(upstream="x"))).is_proxied
    assert not Site(route=(Route(path="/a", upstream="x"),)).is_proxied
    assert not Site(route=(Route(path="/"),)).is_proxied
