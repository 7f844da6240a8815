"""What [upstream.NAME] takes."""

from __future__ import annotations

import msgspec
import msgspec.inspect as inspect
import pytest

from edgebox.config.upstreams import (
    Upstream,
    UpstreamHealth,
    UpstreamServer,
    UpstreamTls,
)
from edgebox.upstream.group import UpstreamGroup


def test_a_list_of_urls_is_enough() -> None:
    upstream = msgspec.convert({"servers": ["http://127.0.0.1:8000"]}, Upstream)
    assert upstream == Upstream(servers=("http://127.0.0.1:8000",))


def test_servers_may_be_tables() -> None:
    upstream = msgspec.convert(
        {"servers": ["http://a", {"url": "http://b", "weight": 2}]}, Upstream
    )
    assert upstream.servers == ("http://a", UpstreamServer(url="http://b", weight=2))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"servers": ["http://a"], "retry": 1},
        {"servers": [{"weight": 1}]},
        {"servers": ["http://a"], "balance": "sideways"},
        {"servers": ["http://a"], "connections": 0},
        {"servers": ["http://a"], "health": {"expect": [100]}},
    ],
)
def test_unknown_keys_and_values_are_refused(wrong: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Upstream)


@pytest.mark.parametrize("record", [Upstream, UpstreamServer, UpstreamHealth, UpstreamTls])
def test_every_key_has_a_description(record: type) -> None:
    schema = msgspec.json.schema(record)["$defs"][record.__name__]
    assert record.__doc__
    for field in inspect.type_info(record).fields:
        assert schema["properties"][field.name].get("description"), field.name


def test_a_url_that_is_none_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="address"):
        UpstreamGroup("app", Upstream(servers=("nowhere",)), lambda level, text: None)
