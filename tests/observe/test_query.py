"""Queries mean what they say, and what is no query says where it fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.query import (
    DEEPEST,
    FIELDS,
    FOLDED,
    NUMBERS,
    QueryError,
    compile_query,
)

RECORD = {
    "status": 503, "bytes": 10, "time": 0.25, "method": "GET", "host": "example.com",
    "path": "/a?b=c", "cache": "MISS", "reason": "nothing-stored", "upstream": "http://app:1",
    "peer": "192.0.2.1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("status = 503", True),
        ("status==503", True),
        ("status!=503", False),
        ("status>=500 and host=Example.COM", True),
        ("status < 500 or time > 0.2", True),
        ("time <= 0.24", False),
        ("bytes>9 AND bytes<11", True),
        ("path = /a?b=c", True),
        ("path = /A?b=c", False),
        ("path ~ ^/a", True),
        (r'path ~ "^/a\?b=(c|d)$"', True),
        ("method = get", True),
        ("cache ~ ^mi", True),
        ("cache != hit", True),
        ("not cache = hit", True),
        ("not (status = 503 or cache = hit)", False),
        ("status=503 or status=404 and cache=hit", True),  # "and" binds closer
        ("(status=503 or status=404) and cache=hit", False),
        ("upstream = 'http://app:1'", True),
        ('peer = "192.0.2.1"', True),
        (r'path = "\""', False),
    ],
)
def test_what_queries_mean(text: str, meant: bool) -> None:
    assert compile_query(text)(RECORD) is meant


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "a field should come here"),
        ("stats > 4", 0, 'did you mean "status"?'),
        ("status", 6, "an operator should follow status"),
        ("status => 4", 7, "=> is no operator"),
        ("status ~ 4", 9, "status is a number"),
        ("status = ok", 9, "with a number"),
        ("status = 1e3", 9, "with a number"),
        ("path > 4", 7, "path is a text"),
        ('path = "a', 7, "a quote is not closed"),
        ("path =", 6, "a value is missing"),
        ("path ~ [", 7, "no regular expression"),
        ("status = 1 path = /", 11, '"and" or "or"'),
        ("(status = 1", 11, '")" is missing'),
        ("status = 1)", 10, '"and" or "or"'),
        ("not", 3, "a field should come here"),
        ("(" * 9000 + "status = 1", DEEPEST, "levels"),
        ("not " * 9000 + "status = 1", 4 * DEEPEST, "levels"),
    ],
)
def test_what_is_no_query_is_told_where_it_fails(text: str, position: int, problem: str) -> None:
    with pytest.raises(QueryError) as refused:
        compile_query(text)
    assert refused.value.position == position
    assert problem in refused.value.problem
    assert str(position + 1) in str(refused.value)


def test_what_a_record_lacks_is_nothing() -> None:
    assert compile_query('upstream = "" and bytes = 0')({})


@given(st.text(max_size=60) | st.text(alphabet="status=!<>~()andornot \"'\\5", max_size=40))
def test_any_text_is_a_query_or_a_query_error(text: str) -> None:
    try:
        query = compile_query(text)
    except QueryError as error:
        refused = error
    else:
        assert query(RECORD) in (True, False)
        return
    assert 0 <= refused.position <= len(text)


numbers = st.builds(
    lambda field, how, value: (f"{field} {how} {value}", (field, how, value)),
    st.sampled_from(NUMBERS),
    st.sampled_from(["=", "!=", ">=", "<=", ">", "<"]),
    st.integers(0, 5),
)
texts = st.builds(
    lambda field, how, value: (f'{field} {how} "{value}"', (field, how, value)),
    st.sampled_from([field for field in FIELDS if field not in NUMBERS]),
    st.sampled_from(["=", "!="]),
    st.sampled_from(["a", "A", "b", ""]),
)
queries = st.recursive(
    numbers | texts,
    lambda inner: st.one_of(
        st.builds(lambda q: (f"not ({q[0]})", ("not", q[1])), inner),
        st.builds(lambda p, q: (f"({p[0]}) and ({q[0]})", ("and", p[1], q[1])), inner, inner),
        st.builds(lambda p, q: (f"({p[0]})or({q[0]})", ("or", p[1], q[1])), inner, inner),
    ),
    max_leaves=8,
)
records = st.fixed_dictionaries(
    {field: st.integers(0, 5) for field in NUMBERS}
    | {field: st.sampled_from(["a", "A", "b", ""]) for field in FIELDS if field not in NUMBERS}
)


def judge(tree: tuple, record: dict[str, object]) -> bool:
    """The same by brute force."""
    match tree:
        case ("not", inner):
            return not judge(inner, record)
        case ("and", left, right):
            return judge(left, record) and judge(right, record)
        case ("or", left, right):
            return judge(left, record) or judge(right, record)
        case (field, how, value):
            found = record[field]
            if field in FOLDED:
                found, value = found.lower(), value.lower()
            return {
                "=": found == value,
                "!=": found != value,
                ">=": found >= value,
                "<=": found <= value,
                ">": found > value,
                "<": found < value,
            }[how]
    raise AssertionError(tree)


@given(queries, records)
def test_a_compiled_query_is_its_tree(query: tuple[str, tuple], record: dict[str, object]) -> None:
    text, tree = query
    assert compile_query(text)(record) is judge(tree, record)
