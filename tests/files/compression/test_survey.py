"""The worklist: what the server would compress if it were asked for everything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.config.schema import Compression, Config, Site
from edgebox.files.compression.survey import Eligible, Passed, find_files
from edgebox.files.entry import Identity

Survey = Callable[..., dict[str, object]]


@pytest.fixture
def survey(docroot: Path) -> Survey:
    """By name: the codings that a file gets, or why it gets none."""

    def survey(compression: Compression | None = None, **site: object) -> dict[str, object]:
        settled = Config(
            compression=compression or Compression(),
            site=(Site(root=str(docroot), **site),),  # type: ignore[arg-type]
        )
        found: dict[str, object] = {}
        for file in find_files(settled):
            name = os.path.relpath(os.fsdecode(file.path), docroot)
            if isinstance(file, Passed):
                found[name] = file.reason
            else:
                found[name] = [job.coding.decode() for job in file.jobs]
        return found

    return survey


def test_a_job_names_the_file_as_the_server_would(docroot: Path) -> None:
    (docroot / "sub").mkdir()
    path = docroot / "sub" / "a.html"
    path.write_bytes(bytes(1000))
    site = Site(root=str(docroot), symlinks="never")
    [file] = find_files(Config(site=(site,), compression=Compression(codings=("zstd",))))
    assert isinstance(file, Eligible)
    [job] = file.jobs
    assert file.path == os.fsencode(path)
    assert file.size == 1000
    assert (job.root, job.path, job.symlinks) == (os.fsencode(docroot), b"/sub/a.html", "never")
    assert (job.identity, job.coding) == (Identity.of(path.stat()), b"zstd")


def test_type_and_size_decide(docroot: Path, survey: Survey) -> None:
    (docroot / "a.html").write_bytes(bytes(1000))
    (docroot / "small.html").write_bytes(bytes(10))
    (docroot / "large.html").write_bytes(bytes(5000))
    (docroot / "a.png").write_bytes(bytes(1000))
    (docroot / ".a.html").write_bytes(bytes(1000))
    assert survey(Compression(max_size=4999)) == {
        "a.html": ["br", "zstd", "gzip"],
        "small.html": "smaller than min_size",
        "large.html": "larger than max_size",
        "a.png": "type not listed",
        ".a.html": "dotfile",
    }


def test_a_site_s_own_types_count(docroot: Path, survey: Survey) -> None:
    (docroot / "a.foo").write_bytes(bytes(1000))
    assert survey(types={".foo": "text/x-foo"}) == {"a.foo": ["br", "zstd", "gzip"]}


def test_a_sidecar_makes_its_variant_needless_unless_it_is_older(
    docroot: Path, survey: Survey
) -> None:
    for name in ["a.html", "a.html.gz", "a.html.br"]:
        (docroot / name).write_bytes(bytes(1000))
    os.utime(docroot / "a.html", (1000, 1000))
    os.utime(docroot / "a.html.gz", (1000, 1000))
    os.utime(docroot / "a.html.br", (999, 999))
    assert survey()["a.html"] == ["br", "zstd"]
    assert survey()["a.html.gz"] == "type not listed"
    assert survey(Compression(sidecars=False))["a.html"] == ["br", "zstd", "gzip"]
    assert survey(Compression(codings=("gzip",)))["a.html"] == "has sidecars"


def test_every_site_is_looked_at_and_a_missing_root_is_an_error(
    docroot: Path, tmp_path: Path
) -> None:
    (docroot / "a.html").write_bytes(bytes(1000))
    sites = (Site(root=str(tmp_path / "missing")), Site(hosts=("b",), root=str(docroot)))
    missing, file = find_files(Config(site=sites))
    assert missing == Passed(
        os.fsencode(tmp_path / "missing") + b"/", "No such file or directory", error=True
    )
    assert isinstance(file, Eligible)


def test_a_sidecar_that_the_server_would_not_send_makes_no_variant_needless(
    docroot: Path, tmp_path: Path, survey: Survey
) -> None:
    (tmp_path / "outside").write_bytes(bytes(1000))
    (docroot / "a.html").write_bytes(bytes(1000))
    (docroot / "a.html.br").symlink_to(tmp_path / "outside")
    (docroot / "a.html.zst").touch()  # a coder that was stopped leaves this
    (docroot / "a.html.gz").mkdir()
    assert survey()["a.html"] == ["br", "zstd", "gzip"]
    assert survey(symlinks="follow")["a.html"] == ["zstd", "gzip"]
