"""The walk writes down every name that a path relies on, and where it was followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebox.files.trail import Trail, walk


@pytest.fixture
def www(tmp_path: Path) -> Path:
    root = tmp_path / "www"
    (root / "a" / "b").mkdir(parents=True)
    (root / "page").write_bytes(b"")
    (root / "a" / "b" / "page").write_bytes(b"")
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "deep" / "page").write_bytes(b"")
    return root


def go(root: Path, path: str) -> Trail:
    return walk(os.fsencode(root), path.encode())


def told(trail: Trail) -> set[str]:
    """The names followed, with the paths of their directories."""
    paths = {place.identity: os.fsdecode(place.path) for place in trail.places}
    return {paths[directory] + os.fsdecode(name) for directory, name in trail.steps}


def home(trail: Trail) -> str | None:
    paths = {place.identity: os.fsdecode(place.path) for place in trail.places}
    return None if trail.home is None else paths[trail.home]


def test_a_file_in_the_root_relies_on_nothing_but_its_home(www: Path) -> None:
    trail = go(www, "/page")
    assert told(trail) == set()
    assert home(trail) == f"{www}/"
    status = www.stat()
    assert trail.home == (status.st_dev, status.st_ino)


def test_every_directory_on_the_way_counts(www: Path) -> None:
    trail = go(www, "/a/b/page")
    assert told(trail) == {f"{www}/a", f"{www}/a/b"}
    assert home(trail) == f"{www}/a/b/"
    assert [os.fsdecode(place.path) for place in trail.places] == [
        f"{www}/",
        f"{www}/a/",
        f"{www}/a/b/",
    ]


def test_neighbours_share_one_trail_whether_they_are_there_or_not(www: Path) -> None:
    assert go(www, "/a/b/page") == go(www, "/a/b/none") == go(www, "/a/b/")


def test_a_directory_with_and_without_its_slash(www: Path) -> None:
    assert home(go(www, "/a")) == f"{www}/"
    assert home(go(www, "/a/")) == f"{www}/a/"
    assert home(go(www, "/")) == f"{www}/"


def test_a_missing_directory_ends_the_way_at_its_name(www: Path) -> None:
    trail = go(www, "/a/none/deeper/page")
    assert told(trail) == {f"{www}/a", f"{www}/a/none"}
    assert home(trail) is None


def test_a_file_in_place_of_a_directory_ends_the_way(www: Path) -> None:
    trail = go(www, "/page/below")
    assert told(trail) == {f"{www}/page"}
    assert home(trail) is None


def test_a_directory_symlink_counts_with_its_target(www: Path) -> None:
    (www / "link").symlink_to("a/b")
    trail = go(www, "/link/page")
    assert told(trail) == {f"{www}/link", f"{www}/a", f"{www}/a/b"}
    assert home(trail) == f"{www}/a/b/"


def test_a_file_symlink_has_no_home_but_counts_itself(www: Path) -> None:
    (www / "a" / "link").symlink_to("../page")
    trail = go(www, "/a/link")
    assert told(trail) == {f"{www}/a", f"{www}/a/link", f"{www}/page"}
    assert home(trail) is None


def test_chains_of_symlinks_count_each(www: Path) -> None:
    (www / "one").symlink_to("two")
    (www / "two").symlink_to(www / "a")
    trail = go(www, "/one/b/page")
    assert told(trail) == {f"{www}/one", f"{www}/two", f"{www}/a", f"{www}/a/b"}


def test_a_dangling_symlink_counts_with_the_name_it_lacks(www: Path) -> None:
    (www / "link").symlink_to("a/none")
    assert told(go(www, "/link")) == {f"{www}/link", f"{www}/a", f"{www}/a/none"}


def test_symlinks_in_the_roots_own_path_count(www: Path) -> None:
    current = www.parent / "current"
    current.symlink_to("www")
    trail = go(current, "/a/page")
    assert told(trail) == {f"{current}", f"{www}/a"}
    assert home(trail) == f"{www}/a/"


def test_directories_outside_count_only_at_the_end_of_the_way(www: Path) -> None:
    outside = www.parent / "outside"
    (www / "link").symlink_to(outside / "deep")
    trail = go(www, "/link/page")
    assert told(trail) == {f"{www}/link", f"{outside}/deep"}
    assert home(trail) == f"{outside}/deep/"
    (www / "file").symlink_to(outside / "deep" / "page")
    assert told(go(www, "/file")) == {f"{www}/file", f"{outside}/deep/page"}


def test_a_missing_root_ends_the_way_where_it_should_be(tmp_path: Path) -> None:
    trail = go(tmp_path / "none" / "www", "/page")
    assert told(trail) == {f"{tmp_path}/none"}
    assert home(trail) is None


def test_loops_end(www: Path) -> None:
    (www / "loop").symlink_to("loop")
    (www / "ping").symlink_to("pong")
    (www / "pong").symlink_to("./ping")
    assert told(go(www, "/loop/page")) == {f"{www}/loop"}
    assert told(go(www, "/ping")) == {f"{www}/ping", f"{www}/pong"}


def test_names_that_no_file_can_have_end_the_way(www: Path) -> None:
    assert home(go(www, "/a\0b/page")) is None
    assert home(go(www, "/" + "x" * 300 + "/page")) is None
    assert home(go(www, "/a/nul\0")) == f"{www}/a/"


def test_the_whole_file_system_can_be_a_root(www: Path) -> None:
    trail = go(Path("/"), f"{www}/page")
    assert home(trail) == f"{www}/"
    assert told(trail) >= {f"{www}", f"{www.parent}"}
