"""What is found below a docroot, and what is passed over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.files.compression.walk import Skip, walk
from edgebox.files.entry import Docroot, Identity, Symlinks

Found = dict[str, object]


@pytest.fixture
def look(docroot: Path) -> Callable[..., Found]:
    """What `walk` says, by path; an identity that is right is told as "file"."""

    def look(symlinks: Symlinks = "within-root", dotfiles: bool = False) -> Found:
        found: Found = {}
        for path, what in walk(Docroot(os.fsencode(docroot), symlinks), dotfiles):
            name = os.fsdecode(path)
            assert name not in found
            if isinstance(what, Identity):
                assert what == Identity.of((docroot / name).stat())
                found[name] = "file"
            else:
                found[name] = what
        return found

    return look


def test_files_are_found_at_every_depth_in_order(docroot: Path, look: Callable[..., Found]) -> None:
    for name in ["b.html", "a.html", "z/y/x.html", "c/d.html"]:
        (docroot / name).parent.mkdir(parents=True, exist_ok=True)
        (docroot / name).write_text("x")
    assert list(look()) == ["a.html", "b.html", "c/d.html", "z/y/x.html"]


def test_names_are_octets(docroot: Path) -> None:
    name = b"caf\xe9.html"
    Path(os.fsdecode(os.fsencode(docroot) + b"/" + name)).write_text("x")
    assert [seen.path for seen in walk(Docroot(os.fsencode(docroot)), False)] == [name]


def test_dotfiles_are_passed_over_unless_allowed(docroot: Path, look: Callable[..., Found]) -> None:
    (docroot / ".git").mkdir()
    (docroot / ".git" / "config").write_text("x")
    (docroot / ".htpasswd").write_text("x")
    assert look() == {".git": Skip.DOTFILE, ".htpasswd": Skip.DOTFILE}
    assert look(dotfiles=True) == {".git/config": "file", ".htpasswd": "file"}


@pytest.mark.parametrize(
    ("symlinks", "inside", "outside"),
    [
        ("within-root", "file", Skip.SYMLINK),
        ("follow", "file", "file"),
        ("never", Skip.SYMLINK, Skip.SYMLINK),
    ],
)
def test_symlinks_are_followed_as_the_site_allows(
    symlinks: Symlinks,
    inside: object,
    outside: object,
    docroot: Path,
    tmp_path: Path,
    look: Callable[..., Found],
) -> None:
    (docroot / "real.txt").write_text("x")
    (tmp_path / "secret.txt").write_text("x")
    (docroot / "absolute.txt").symlink_to(docroot / "real.txt")
    (docroot / "relative.txt").symlink_to("real.txt")
    (docroot / "out.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "site-of-another").mkdir()  # its name starts with that of the root
    (tmp_path / "site-of-another" / "x.txt").write_text("x")
    (docroot / "neighbour.txt").symlink_to("../site-of-another/x.txt")
    assert look(symlinks) == {
        "real.txt": "file",
        "absolute.txt": inside,
        "relative.txt": inside,
        "out.txt": outside,
        "neighbour.txt": outside,
    }


def test_a_linked_directory_is_entered_as_the_site_allows(
    docroot: Path, tmp_path: Path, look: Callable[..., Found]
) -> None:
    (docroot / ".releases").mkdir()
    (docroot / ".releases" / "a.txt").write_text("x")
    (docroot / "current").symlink_to(".releases")
    assert look() == {".releases": Skip.DOTFILE, "current/a.txt": "file"}
    assert look("never") == {".releases": Skip.DOTFILE, "current": Skip.SYMLINK}


@pytest.mark.parametrize("symlinks", ["within-root", "follow"])
def test_links_that_go_round_in_circles_come_to_an_end(
    symlinks: Symlinks, docroot: Path, look: Callable[..., Found]
) -> None:
    (docroot / "a").mkdir()
    (docroot / "a" / "x.txt").write_text("x")
    (docroot / "a" / "up").symlink_to("..")
    (docroot / "self").symlink_to("self")
    assert look(symlinks) == {"a/x.txt": "file", "self": Skip.SYMLINK}


def test_what_is_no_file_is_passed_over(docroot: Path, look: Callable[..., Found]) -> None:
    os.mkfifo(docroot / "pipe.txt")
    (docroot / "dangling.txt").symlink_to("nowhere")
    assert look() == {"pipe.txt": Skip.SPECIAL, "dangling.txt": Skip.GONE}


def test_a_root_that_is_not_there_is_an_error_not_an_empty_site(
    docroot: Path, look: Callable[..., Found]
) -> None:
    docroot.rmdir()
    assert isinstance(look()[""], FileNotFoundError)


def test_what_is_well_known_is_no_dotfile(docroot: Path, look: Callable[..., Found]) -> None:
    (docroot / ".well-known").mkdir()
    (docroot / ".well-known" / "security.txt").touch()
    (docroot / ".well-known" / ".x").touch()
    assert look() == {".well-known/security.txt": "file", ".well-known/.x": Skip.DOTFILE}
