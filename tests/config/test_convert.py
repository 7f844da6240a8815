from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.config.convert import convert
from edgebox.config.keys import keys_of, tables_below
from edgebox.config.schema import Config, Route, Server
from edgebox.config.upstreams import Upstream, UpstreamServer


def test_nothing_written_is_the_defaults() -> None:
    assert convert({}) == (Config(), [])


def test_units_and_auto_are_read() -> None:
    config, wrong = convert(
        {
            "limits": {"head_size": "32 KiB", "linger": "500ms", "send_rate": "8 kbit/s"},
            "files": {"working_set": "1 GiB", "watches": "auto"},
            "server": {"backlog": "auto", "drain": 5},
            "compression": {"dir": "auto"},
            "cache": {"dir": "auto", "dir_size": "1 TiB"},
        }
    )
    assert not wrong
    assert config.limits.head_size == 32 * 1024
    assert config.limits.linger == 0.5
    assert config.limits.send_rate == 1000
    assert config.files.working_set == 1024**3
    assert (config.files.watches, config.server.backlog, config.compression.dir) == (None,) * 3
    assert config.server.drain == 5.0


def wrong(tree: dict[str, Any]) -> dict[str, str]:
    """What is told of `tree`, by the last part of its path."""
    return {str(path[-1]): text for path, text in convert(tree)[1]}


@pytest.mark.parametrize(
    ("table", "key", "value", "told"),
    [
        ("server", "express", "yes", '"yes" is not true or false'),
        ("server", "express", 1, "1 is not true or false"),
        ("server", "name", 5, "5 is not a text in quotes"),
        ("server", "listen", "1.2.3.4:80", '"1.2.3.4:80" is not a list, as ["..."]'),
        ("server", "backlog", 0, "0 is too small: at least 1"),
        ("server", "backlog", 10**9, "1000000000 is too large: at most 1000000"),
        ("server", "backlog", "many", '"many" is not a whole number; "auto" is allowed too'),
        ("limits", "keep_alive_requests", "auto", '"auto" is not a whole number'),
        ("limits", "keep_alive_requests", True, "true is not a whole number"),
        ("limits", "keep_alive_requests", 1.5, "1.5 is not a whole number"),
        ("limits", "keep_alive_requests", 2**63, f"{2**63} is too large: at most {2**63 - 1}"),
        ("limits", "linger", -1, "-1 is negative"),
        ("files", "working_set", -1, '-1 is negative; "auto" is allowed too'),
        ("files", "sendfile_chunk", "1 kB", '"1 kB" is too small: at least 64 KiB'),
        ("log", "trace", "spam", '"spam" is none of "pass", "span"; did you mean "span"?'),
        ("log", "level", [], '[] is none of "debug", "error", "info", "warning"'),
        ("site", "headers", [], '[] is not a table, as { "..." = "..." }'),
    ],
)
def test_a_wrong_value_is_told_with_what_would_do(
    table: str, key: str, value: object, told: str
) -> None:
    inner: Any = {key: value}
    config, findings = convert({table: [inner] if table == "site" else inner})
    assert [text for _, text in findings] == [told]
    assert config == Config()  # the default stands in


def test_each_member_of_a_list_or_table_is_told_of() -> None:
    _, findings = convert(
        {
            "compression": {"codings": ["br", "brotli", 5]},
            "site": [{}, {"headers": {"A": "b", "C": 1}}],
        }
    )
    assert [path for path, _ in findings] == [
        ("compression", "codings", 1),
        ("compression", "codings", 2),
        ("site", 1, "headers", "C"),
    ]


def test_an_unknown_key_gets_a_hint() -> None:
    told = wrong(
        {
            "lmits": {},
            "listen": [],
            "server": {"lisen": [], "root": "/srv", "zzz": 1, "keep_alive_idle": 5},
            "limits": {"head-size": 5},
            "log": {"LEVEL": "info"},
            "site": [{"qqq": 1}],
        }
    )
    assert told == {
        "lmits": 'unknown key; did you mean "limits"?',
        "listen": "unknown key here; it belongs in [server] or [status]",
        "lisen": 'unknown key; did you mean "listen"?',
        "root": "unknown key here; it belongs in [[site]]",
        "zzz": "unknown key; [server] takes " + ", ".join(Server.__struct_fields__),
        "keep_alive_idle": "unknown key here; it belongs in [limits] or [upstream.NAME]",
        "head-size": 'unknown key; did you mean "head_size"?',
        "qqq": "unknown key; [[site]] takes hosts, root, index, symlinks, dotfiles,"
        " error_pages, headers, types, route",
        "LEVEL": 'unknown key; did you mean "level"?',
    }


def test_a_word_that_is_nearly_a_choice_gets_a_hint() -> None:
    assert wrong({"log": {"level": "warn"}})["level"].endswith('; did you mean "warning"?')


def test_brackets_of_tables_are_explained() -> None:
    assert "[[site]], in two brackets" in wrong({"site": {"root": "/srv"}})["site"]
    assert "write [server] on a line" in wrong({"server": [{"name": "x"}]})["server"]
    assert "write [log] on a line" in wrong({"log": "off"})["log"]
    assert "write [[site]] on a line" in wrong({"site": [5]})["0"]
    assert "[[site.route]], in two brackets" in wrong({"site": [{"route": {}}]})["route"]
    assert "write [[site.route]] on a line" in wrong({"site": [{"route": [5]}]})["0"]
    assert "write [upstream.app] on a line" in wrong({"upstream": {"app": []}})["app"]
    assert "has a name: write [upstream.NAME]" in wrong({"upstream": [{}]})["upstream"]


def test_servers_need_a_name() -> None:
    told = wrong({"upstream": {"servers": ["unix:/a"], "retries": 2}})
    assert told == dict.fromkeys(
        ["servers", "retries"], "belongs below a header with a name: [upstream.NAME]"
    )


def test_tables_in_tables_are_read() -> None:
    config, wrong = convert(
        {
            "site": [{"route": [{"path": "/a", "upstream": "x", "default_freshness": "5m"}, {}]}],
            "upstream": {
                "x": {
                    "servers": ["unix:/a", {"url": "http://b", "weight": 2, "backup": True}],
                    "queue_timeout": "500ms",
                    "health": {"path": "/up", "expect": [200]},
                    "tls": {"verify": False},
                },
                "y": {"servers": []},
            },
        }
    )
    assert not wrong
    assert config.site[0].route == (
        Route(path="/a", upstream="x", default_freshness=300.0),
        Route(),
    )
    x, y = config.upstream["x"], config.upstream["y"]
    assert x.servers == ("unix:/a", UpstreamServer(url="http://b", weight=2, backup=True))
    assert (x.queue_timeout, x.health.path, x.health.expect) == (0.5, "/up", (200,))
    assert not x.tls.verify
    assert y == Upstream(servers=())


def test_a_choice_of_auto_in_a_table_of_a_table_is_none() -> None:
    config, wrong = convert({"site": [{"route": [{"default_freshness": "auto"}]}]})
    assert not wrong
    assert config.site[0].route[0].default_freshness is None


UPSTREAM = ("upstream", "app")


@pytest.mark.parametrize(
    ("key", "value", "path", "told"),
    [
        ("servers", "http://a", (), '"http://a" is not a list, as ["..."]'),
        ("servers", [5], (0,), "5 is not a text in quotes"),
        ("servers", [{"url": 5}], (0, "url"), "5 is not a text in quotes"),
        ("servers", [{}], (0,), 'lacks url: "http://HOST:PORT", "https://HOST[:PORT]" or "unix:/'),
        (
            "servers",
            [{"url": "x", "wieght": 1}],
            (0, "wieght"),
            'unknown key; did you mean "weight"?',
        ),
        ("servers", [{"url": "x", "weight": 0}], (0, "weight"), "0 is too small: at least 1"),
        ("balance", "round_robin", (), '"round_robin" is none of "hash", "least-connections",'),
        ("connect_timeout", 0, (), "0 is too small: at least 1ms"),
        ("head_size", "1 B", (), '"1 B" is too small: at least 1 KiB'),
        ("health", {"expect": [200, 42]}, ("expect", 1), "42 is too small: at least 200"),
        ("health", {"expect": [600]}, ("expect", 0), "600 is too large: at most 599"),
        ("health", {"expect": 200}, ("expect",), "200 is not a list, as [1, 2]"),
        ("health", "/up", (), "is not a table: write [upstream.app.health] on a line of its own"),
        ("tls", {"host": "a"}, ("host",), "unknown key here; it belongs in [[site.route]]"),
    ],
)
def test_a_mistake_in_an_upstream_is_told_where_it_is(
    key: str, value: object, path: tuple[str | int, ...], told: str
) -> None:
    _, findings = convert({"upstream": {"app": {"servers": ["unix:/a"], key: value}}})
    ((where, text),) = findings
    assert where == (*UPSTREAM, key, *path)
    assert text.startswith(told)


def test_an_upstream_must_have_servers_and_is_left_out_without() -> None:
    config, findings = convert({"upstream": {"app": {}, "b": {"servers": ["unix:/b"]}}})
    assert config.upstream.keys() == {"b"}
    ((path, text),) = findings
    assert path == UPSTREAM
    assert text.startswith("lacks servers: addresses, or tables")


def test_servers_that_are_wrong_are_not_said_to_lack() -> None:
    config, findings = convert({"upstream": {"app": {"servers": "unix:/a"}}})
    assert config.upstream == {}
    assert [path for path, _ in findings] == [(*UPSTREAM, "servers")]


def test_one_mistake_hides_no_other_and_no_right_value() -> None:
    config, findings = convert({"log": {"level": "x", "access": "-"}, "server": {"name": 1}})
    assert len(findings) == 2
    assert config.log.access == "-"


def test_a_constraint_that_only_msgspec_knows_is_still_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The schema may grow faster than the words for its mistakes."""

    def refuse(*_: object) -> None:
        raise msgspec.ValidationError("too odd")

    monkeypatch.setattr(msgspec, "convert", refuse)
    assert convert({}) == (Config(), [((), "too odd")])


KEYS = sorted({name for _, table in tables_below(Config) for name in keys_of(table)})
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "auto", "5 s"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*keys_of(Config), *KEYS, "x"]), inner, max_size=5)
    ),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*keys_of(Config), "x"]), TREES, max_size=5))
def test_whatever_the_file_holds_the_result_keeps_the_schema(tree: dict[str, Any]) -> None:
    config, _ = convert(tree)
    assert msgspec.convert(msgspec.to_builtins(config), Config) == config
