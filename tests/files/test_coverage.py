"""A coverage ends as a whole; a look counts only if every watch is older than it."""

from __future__ import annotations

from edgebox.files.coverage import UNCOVERED, Look, TrailCoverage, Watch
from edgebox.files.entry import Docroot
from edgebox.files.trail import Place, Trail

ROOT, SUB, ELSEWHERE = (1, 1), (1, 2), (1, 3)
TRAIL = Trail(((ROOT, b"sub"),), (Place(ROOT, b"/www/"), Place(SUB, b"/www/sub/")), SUB)


def watches(root_since: int = 1, sub_since: int = 2) -> list[Watch]:
    return [Watch(10, ROOT, root_since), Watch(11, SUB, sub_since)]


def test_a_coverage_is_known_to_all_its_watches_until_it_is_not() -> None:
    root, sub = watches()
    coverage = TrailCoverage(Docroot(b"/www"), b"/sub/", TRAIL, [root, sub])
    coverage.register()
    assert root.coverages() == sub.coverages() == [coverage]
    assert list(root.passes) == [b"sub"]
    assert list(sub.homes) == [coverage]
    for _ in range(2):
        coverage.unregister()
        assert root.coverages() == sub.coverages() == []
        assert not root.passes


def test_two_coverages_may_pass_the_same_name() -> None:
    root, sub = watches()
    one = TrailCoverage(Docroot(b"/www"), b"/sub/", TRAIL, [root, sub])
    two = TrailCoverage(Docroot(b"/www", "never"), b"/sub/", TRAIL, [root, sub])
    one.register()
    two.register()
    one.unregister()
    assert root.coverages() == sub.coverages() == [two]


def test_a_look_counts_if_every_watch_is_older_and_nothing_stirred() -> None:
    assert Look(2).is_covered(TRAIL, b"page", watches())
    assert not Look(1).is_covered(TRAIL, b"page", watches())
    assert not Look(2).is_covered(TRAIL, b"page", [Watch(10, ROOT, 1), Watch(12, ELSEWHERE, 2)])


def test_a_stir_on_the_trail_spoils_the_look() -> None:
    for step in ((ROOT, b"sub"), (SUB, b"page"), (ROOT, b""), (SUB, b"")):
        look = Look(2)
        look.stirred.add(step)
        assert not look.is_covered(TRAIL, b"page", watches()), step


def test_a_stir_beside_the_trail_does_not() -> None:
    for step in ((ROOT, b"other"), (SUB, b"other"), (ELSEWHERE, b"page"), (ELSEWHERE, b"")):
        look = Look(2)
        look.stirred.add(step)
        assert look.is_covered(TRAIL, b"page", watches()), step


def test_lost_events_spoil_every_look() -> None:
    look = Look(2)
    look.spoil()
    assert not look.is_covered(TRAIL, b"page", watches())


def test_what_is_not_covered_never_ends() -> None:
    assert UNCOVERED.alive
