"""/.well-known/ is served although other dotfiles are not (RFC 8615)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire import configure, serving


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
async def test_who_proves_to_be_the_owner_of_a_site_need_not_open_his_dotfiles(
    root: Path, express: bool
) -> None:
    (root / ".well-known" / "acme-challenge").mkdir(parents=True)
    (root / ".well-known" / "acme-challenge" / "token").write_bytes(b"proof")
    (root / ".well-known" / ".git").write_bytes(b"private")
    async with serving(configure(root, server={"express": express})) as server:
        assert (await server.get("/.well-known/acme-challenge/token")).body == b"proof"
        for hidden in ("/.well-known/.git", "/.well-known", "/.well-known/../.secret", "/.secret"):
            assert (await server.get(hidden)).status == 404
