"""Forms of the operator's own: what variables give, and when a line may come in pieces."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.access_log import Asked, Combined, Entry, Format, stamp_of
from edgebox.observe.log_format import CONSTANTS, VARIABLES, FormatError, make_format

STAMP = stamp_of(1_796_000_000)
KNOWN = {"hostname": "box", "pid": "42"}
ASKED = Asked(
    server="http://app:1",
    request_id=b"abc",
    traceparent=b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
    began=5.0,
    headed=5.25,
    ended=5.5,
)
ENTRY = Entry(
    line=b"GET /page?q=1 HTTP/1.1",
    status=200,
    size=449,
    octets=700,
    block=b"Host: X.example\r\nUser-Agent: curl/8\r\nX-Request-Id: theirs\r\nCookie: a=b\r\n\r\n",
    peer=b"192.0.2.1",
    member=b"box; fwd=uri-miss; fwd-status=200; stored; ttl=60",
    seconds=1.2345,
    requests=7,
    asked=ASKED,
)
NGINX_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" '
    '$status $body_bytes_sent "$http_referer" "$http_user_agent"'
)


def form(text: str) -> Format:
    return make_format(text, KNOWN)


def written(text: str, entry: Entry = ENTRY) -> str:
    return form(text).line(entry, STAMP).decode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("$remote_addr $remote_user", "192.0.2.1 -"),
        ("$request", "GET /page?q=1 HTTP/1.1"),
        ("$request_method|$request_uri|$server_protocol", "GET|/page?q=1|HTTP/1.1"),
        ("$args $query_string $scheme $host", "q=1 q=1 http x.example"),
        ("$status $body_bytes_sent $bytes_sent", "200 449 700"),
        ("$request_time $connection_requests $msec", "1.234 7 1796000000.000"),
        ("$cache_status $upstream_cache_status $cache_reason", "MISS MISS nothing-stored"),
        ("$upstream_addr", "http://app:1"),
        ("$upstream_response_time $upstream_header_time", "0.500 0.250"),
        ("$request_id $trace_id $span_id", f"abc {'a' * 32} {'b' * 16}"),
        ("$http_user_agent $http_referer $http_cookie", "curl/8 - a=b"),
        ("$hostname[$pid]", "box[42]"),
        ("100% ${status}0 $$1 %d", "100% 2000 $1 %d"),
    ],
)
def test_what_variables_give(text: str, line: str) -> None:
    assert written(text) == line + "\n"


def test_what_is_not_known_is_a_dash() -> None:
    names = [name for name in VARIABLES if name not in ("scheme", "server_protocol")]
    line = written(" ".join(f"${name}" for name in names), Entry())
    told = dict(zip(names, line.rstrip("\n").split(" "), strict=False))
    for name in ("args", "cache_status", "host", "request", "request_id", "upstream_addr"):
        assert told[name] == "-"
    assert written("$upstream_response_time $trace_id", Entry()) == "- -\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("combine", 'did you mean "combined"?'),
        ("apache", "is no form of a log line"),
        ("", "is no form of a log line"),
        ("$remot_addr", 'there is no $remot_addr; did you mean "$remote_addr"?'),
        ("$nothing_of_the_kind", "docs/logs.md lists"),
        ("$http_", "there is no $http_"),
        ("$", 'write "$$"'),
        ("${status", "is not closed"),
        ("$status\n", "control character"),
    ],
)
def test_what_is_no_form(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=re.escape(problem)):
        form(text)


def in_pieces(form: Format, entry: Entry) -> bytes:
    """A line as the express lane puts it together."""
    seen = Entry(
        line=entry.line, status=entry.status, size=entry.size, octets=entry.octets,
        host=b"x.example", member=entry.member,
    )  # fmt: skip
    fields = {
        name.lower(): value
        for name, _, value in (f.partition(b": ") for f in entry.block.split(b"\r\n"))
    }
    referer, agent = fields.get(b"referer", b""), fields.get(b"user-agent", b"")
    return (
        form.client(entry.peer) + form.answer(seen, STAMP) + form.agent(referer, agent, entry.block)
    )


@pytest.mark.parametrize("text", ["combined", "json", NGINX_COMBINED, "$host $http_x_request_id"])
def test_pieces_make_the_line(text: str) -> None:
    entry = Entry(
        line=ENTRY.line, status=304, octets=99, block=ENTRY.block, peer=b"::1",
        member=b"box; hit; ttl=5",
    )  # fmt: skip
    compiled = form(text)
    assert compiled.in_pieces
    assert in_pieces(compiled, entry) == compiled.line(entry, STAMP)


@pytest.mark.parametrize(
    "text",
    [
        "$status $remote_addr",
        "$http_user_agent $status",
        "$request_id $request_time",
        "$remote_addr $connection_requests",
        "$remote_addr $http_cookie",  # the lane may leave cookies out of account
    ],
)
def test_what_is_out_of_order_is_written_whole(text: str) -> None:
    assert not form(text).in_pieces


orders = st.lists(st.sampled_from([*VARIABLES, "http_referer", "http_via"]), max_size=6)


@given(orders, st.binary(max_size=40), st.binary(max_size=40))
def test_whatever_comes_in_pieces_is_the_line(
    names: list[str], target: bytes, agent: bytes
) -> None:
    compiled = form("| " + " ".join(f"${name}" for name in names) + "$$")
    agent = re.sub(rb"[\r\n]", b"", agent).strip(b" \t")
    line = b"GET /" + re.sub(rb"[\r\n]", b"", target)
    block = b"Host: x.example\r\nUser-Agent: %b\r\n\r\n" % agent
    entry = Entry(line=line, status=200, size=5, octets=9, block=block, peer=b"::1")
    if compiled.in_pieces:
        assert in_pieces(compiled, entry) == compiled.line(entry, STAMP)


def test_the_combined_form_of_nginx_is_ours() -> None:
    assert written(NGINX_COMBINED) == Combined().line(ENTRY, STAMP).decode()


def test_json_tells_all_in_types() -> None:
    told = json.loads(written("json"))
    assert told == {
        "client": "192.0.2.1",
        "time": STAMP.iso.decode(),
        "request": "GET /page?q=1 HTTP/1.1",
        "host": "x.example",
        "status": 200,
        "bytes": 449,
        "request_time": 1.234,
        "cache": "MISS",
        "reason": "nothing-stored",
        "upstream": "http://app:1",
        "upstream_time": 0.5,
        "request_id": "abc",
        "referer": "",
        "user_agent": "curl/8",
    }
    nobody = json.loads(written("json", Entry(line=b"GET / HTTP/1.1", status=200)))
    assert (nobody["cache"], nobody["upstream"], nobody["upstream_time"]) == ("", "", None)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_no_octets_break_out_of_their_place(line: bytes, agent: bytes, member: bytes) -> None:
    agent = re.sub(rb"[\r\n]", b"", agent).strip(b" \t")
    entry = Entry(line=line, block=b"User-Agent: %b\r\n\r\n" % agent, member=b"x; detail=" + member)
    told = json.loads(written("json", entry))
    assert told["request"].encode("latin-1") == line
    assert told["user_agent"].encode("latin-1") == agent
    own = json.loads(written('{"a":"$http_user_agent","r":"$request","s":$status}', entry))
    assert own["a"].encode("latin-1") == agent
    plain = form('"$request" "$http_user_agent"').line(entry, STAMP)
    assert plain.count(b"\n") == 1
    assert len(shlex.split(plain.decode())) == 2


def test_the_documentation_lists_every_variable_and_no_other() -> None:
    text = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
    listed = set(re.findall(r"^\| `\$(\w+)` ", text, re.MULTILINE)) - {"http_NAME"}
    assert listed == {*VARIABLES, *CONSTANTS}
