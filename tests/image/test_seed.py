"""A seed's keys and files go where they may, and nowhere else."""

import base64
import gzip
import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def seed(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("usr/lib/appliance/seed")


def test_keys_come_from_wherever_cloud_init_has_them(seed: ModuleType) -> None:
    told = {
        "ssh_authorized_keys": ["ssh-ed25519 B"],
        "public-keys": {"0": "ssh-ed25519 C"},
        "users": ["default", {"name": "root", "ssh_authorized_keys": ["ssh-ed25519 D"]}],
    }
    found = {"authorized_keys": b"\nssh-ed25519 A\n"}
    assert seed.keys(found, told) == [f"ssh-ed25519 {each}" for each in "ABCD"]


def test_files_may_be_packed(seed: ModuleType) -> None:
    packed = base64.b64encode(gzip.compress(b"text")).decode()
    told = {
        "write_files": [
            {"path": "/srv/www/a", "content": "plain"},
            {"path": "/etc/x", "content": packed, "encoding": "gz+b64", "permissions": "0600"},
        ]
    }
    assert seed.files(told) == {
        Path("/srv/www/a"): (b"plain", 0o644),
        Path("/etc/x"): (b"text", 0o600),
    }


@pytest.mark.parametrize("path", ["/usr/bin/edgebox", "/etc/../root/.profile", "etc/x", "/etc"])
def test_files_are_written_to_what_lasts_only(
    seed: ModuleType, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seed.files({"write_files": [{"path": path, "content": "x"}]}) == {}
    assert "only below /etc/ and /srv/" in capsys.readouterr().out


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_a_site_is_replaced_in_one_step(
    seed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "www"
    monkeypatch.setattr(seed, "SITE", site)
    seed.publish("docroot.tar.gz", tar({"index.html": b"0", "only-0": b""}))
    over, seen = threading.Event(), set()

    def visit() -> None:
        while not over.is_set():
            seen.add((site / "index.html").read_bytes())

    visitor = threading.Thread(target=visit)
    visitor.start()
    for number in range(1, 30):
        seed.publish("docroot.tar.gz", tar({"index.html": b"%d" % number}))
        assert visitor.is_alive()  # a site that was not there would have ended it
    over.set()
    visitor.join()
    assert {b"%d" % number for number in range(30)} >= seen > {b"0"}
    assert [path.name for path in tmp_path.iterdir()] == ["www"]
    assert [path.name for path in site.iterdir()] == ["index.html"]
