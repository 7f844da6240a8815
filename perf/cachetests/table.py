"""The results as a page: how many tests of each kind and group pass, beside other caches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from perf.cachetests.suite import Case, Listing

ASSERTED = ("required", "optimal")


class Row(NamedTuple):
    """A cache, and the ids of the tests that it passes."""

    name: str
    passed: frozenset[str]


def rows(listing: Listing, ours: Mapping[str, object]) -> list[Row]:
    """edgebox first, then what is published of other shared caches, the best first."""
    others = [
        Row(f"{each.name} {each.version}".strip(), frozenset(each.passed))
        for each in listing.published
        if each.type != "browser"
    ]
    counted = [case for case in listing.tests if case.kind in ASSERTED and not case.cdn]
    others.sort(key=lambda row: -_count(counted, row))
    return [Row("edgebox", frozenset(i for i, result in ours.items() if result is True)), *others]


def render(
    listing: Listing, ours: Mapping[str, object], waivers: Mapping[str, str], version: str
) -> str:
    """The page, in Markdown."""
    table = rows(listing, ours)
    return "\n".join(_page(listing, table, waivers, version)) + "\n"


def _page(
    listing: Listing, table: Sequence[Row], waivers: Mapping[str, str], version: str
) -> Iterator[str]:
    yield "# The public suite for HTTP caches"
    yield ""
    yield f"Written by `python -m perf.cachetests`. Suite: {version}."
    yield ""
    yield "edgebox with its defaults, `edgebox serve --upstream`; all others as the suite's authors"
    yield "published them, each with the configuration that they chose. It compares behaviours and"
    yield "is no conformance score."
    yield ""
    proxy = {kind: [c for c in listing.tests if c.kind == kind and not c.cdn] for kind in ASSERTED}
    cdn = [c for c in listing.tests if c.kind in ASSERTED and c.cdn]
    heads = [f"{kind} ({len(cases)})" for kind, cases in proxy.items()]
    yield from _table(
        ["cache", *heads, f"CDN-Cache-Control ({len(cdn)})"],
        (
            [
                row.name,
                *(str(_count(cases, row)) for cases in proxy.values()),
                str(_count(cdn, row)),
            ]
            for row in table
        ),
    )
    yield ""
    yield "## By group"
    yield ""
    yield "Required and optimal tests passed."
    yield ""
    groups: dict[str, list[Case]] = {}
    for case in listing.tests:
        if case.kind in ASSERTED:
            groups.setdefault(case.group, []).append(case)
    yield from _table(
        ["group", "tests", *(row.name.split()[0] for row in table)],
        (
            [name, str(len(cases)), *(str(_count(cases, row)) for row in table)]
            for name, cases in groups.items()
        ),
    )
    failed = [c for c in listing.tests if c.kind in ASSERTED and c.id not in table[0].passed]
    yield ""
    yield "## What edgebox does not pass"
    yield ""
    for case in failed:
        yield f"- `{case.id}` ({case.kind}): {waivers.get(case.id, 'not waived')}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def _count(cases: Iterable[Case], row: Row) -> int:
    return sum(case.id in row.passed for case in cases)
