"""Which paths lead through a name that starts with a dot."""

from __future__ import annotations

import pytest

from edgebox.files.entry import has_dotfile


@pytest.mark.parametrize(
    "path",
    [
        b"/.git/config", b"/sub/.env", b"/.well-known", b"/.well-known-too/x", b"/.well-known/.x",
        b"/sub/.well-known/x", b"/.well-known/a/.git/x", b"/...", b"/.Well-Known/x",
    ],
)  # fmt: skip
def test_it_does(path: bytes) -> None:
    assert has_dotfile(path)


@pytest.mark.parametrize(
    "path", [b"/", b"/a.b", b"/a./b", b"/.well-known/", b"/.well-known/acme-challenge/token"]
)
def test_it_does_not(path: bytes) -> None:
    assert not has_dotfile(path)
