"""Which records of the access log are meant: `status >= 500 and not path ~ "^/health"`.

The language of `log.only` in edgebox.toml and of `edgebox log -q`. Pure: a text becomes a
function of one record, or a QueryError that says where it stops making sense.

    query    = and-part *( "or" and-part )
    and-part = test *( "and" test )
    test     = "not" test / "(" query ")" / FIELD OPERATOR VALUE

`not` binds closest, `or` loosest. Text is compared with = and !=, and with ~, a regular
expression that may match anywhere; numbers with = != >= <= > <. A value is one word, or
stands in quotes; a quote within is written with a backslash before it.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Mapping
from math import isfinite

from edgebox.config.hints import did_you_mean

Record = Mapping[str, object]
Query = Callable[[Record], bool]

NUMBERS = ("status", "bytes", "time")
# What case does not matter in, as in HTTP: a method has one, but nobody means two by it.
FOLDED = ("method", "host", "cache", "reason")
FIELDS = (*NUMBERS, *FOLDED, "path", "upstream", "peer")

DEEPEST = 50  # parentheses and "not" within each other; Python's own stack bears some 300

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_]+")
_OPERATOR = re.compile(r"[=!><~]+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s()"\'][^\s()]*)', re.DOTALL)


class QueryError(ValueError):
    """A text that is no query. `position` counts from 0; `problem` is for whoever wrote it."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"at character {position + 1}: {problem}")
        self.position = position
        self.problem = problem


def compile_query(text: str) -> Query:
    """A function that says whether a record is meant.

    A record has the FIELDS as keys: NUMBERS as numbers (octets of body, seconds), all others
    as str. What it lacks counts as 0 or "". Raises QueryError.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent; `_at` is where the next token begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._skip_space()

    def parse(self) -> Query:
        query = self._either()
        if self._at < len(self._text):
            raise self._wrong('"and" or "or" should come here')
        return query

    def _either(self) -> Query:
        queries = [self._both()]
        while self._take_word("or"):
            queries.append(self._both())
        return _any_of(queries) if len(queries) > 1 else queries[0]

    def _both(self) -> Query:
        queries = [self._test()]
        while self._take_word("and"):
            queries.append(self._test())
        return _all_of(queries) if len(queries) > 1 else queries[0]

    def _test(self) -> Query:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} levels of parentheses")
        try:
            if self._take_word("not"):
                return _not(self._test())
            if self._take_mark("("):
                query = self._either()
                if not self._take_mark(")"):
                    raise self._wrong('")" is missing')
                return query
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Query:
        field = self._take_field()
        start = self._at
        written = self._take(_OPERATOR)
        if written is None:
            raise self._wrong(f"an operator should follow {field}: = != >= <= > < ~")
        if written[0] not in _COMPARE and written[0] != "~":
            raise QueryError(start, f"{written[0]} is no operator: write = != >= <= > < ~")
        start = self._at
        value = self._take(_VALUE)
        if value is None:
            quoted = self._peek() in ("'", '"')
            raise self._wrong("a quote is not closed" if quoted else "a value is missing")
        if field in NUMBERS:
            return _number_test(field, written[0], value[0], start)
        return _text_test(field, written[0], _unquoted(value), start)

    def _take_field(self) -> str:
        start = self._at
        word = self._take(_WORD)
        if word is None:
            raise self._wrong(f"a field should come here: {', '.join(FIELDS)}")
        name = word[0].lower()
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS) or f"; there are {', '.join(FIELDS)}"
            raise QueryError(start, f'there is no field "{word[0]}"{hint}')
        return name

    def _take_word(self, wanted: str) -> bool:
        word = _WORD.match(self._text, self._at)
        if word is None or word[0].lower() != wanted:
            return False
        self._at = word.end()
        self._skip_space()
        return True

    def _take_mark(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._at += 1
        self._skip_space()
        return True

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            self._skip_space()
        return found

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _wrong(self, problem: str) -> QueryError:
        return QueryError(self._at, problem)


def _unquoted(value: re.Match[str]) -> str:
    """The text of a value. Only the quote loses its backslash: others are the expression's."""
    double, single, word = value.groups()
    if word is not None:
        return str(word)
    return double.replace('\\"', '"') if double is not None else single.replace("\\'", "'")


def _number_test(field: str, written: str, value: str, position: int) -> Query:
    if written == "~":
        raise QueryError(position, f"{field} is a number: compare it with = != >= <= > <")
    if _NUMBER.fullmatch(value) is None or not isfinite(number := float(value)):
        raise QueryError(position, f"{field} is compared with a number, which {value} is not")
    compare = _COMPARE[written]

    def test(record: Record) -> bool:
        found = record.get(field)
        return compare(found if isinstance(found, int | float) else 0, number)

    return test


def _text_test(field: str, written: str, value: str, position: int) -> Query:
    folded = field in FOLDED
    if written == "~":
        try:
            with warnings.catch_warnings():  # of what Python may one day read differently
                warnings.simplefilter("ignore")
                search = re.compile(value, re.IGNORECASE if folded else 0).search
        except (re.error, RecursionError, OverflowError) as error:
            raise QueryError(position, f"{value} is no regular expression: {error}") from None
        return lambda record: search(_text(record, field)) is not None
    if written not in ("=", "==", "!="):
        raise QueryError(position, f"{field} is a text: compare it with = != ~")
    wanted, equal = value.lower() if folded else value, written != "!="

    def test(record: Record) -> bool:
        found = _text(record, field)
        return ((found.lower() if folded else found) == wanted) is equal

    return test


def _text(record: Record, field: str) -> str:
    found = record.get(field)
    return found if isinstance(found, str) else ""


def _any_of(queries: list[Query]) -> Query:
    return lambda record: any(query(record) for query in queries)


def _all_of(queries: list[Query]) -> Query:
    return lambda record: all(query(record) for query in queries)


def _not(query: Query) -> Query:
    return lambda record: not query(record)
