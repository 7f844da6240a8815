"""What an owner gives a box: volumes, archives, a configuration, keys."""

import subprocess
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from trial.failure import Failed, run

Content = bytes | Path


def put(where: Path, files: Mapping[str, Content]) -> list[Path]:
    """The files in a directory; those that are there already are taken as they are."""
    paths = []
    for name, content in files.items():
        path = where / name
        if isinstance(content, Path):
            path = content
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        paths.append(path)
    return paths


def volume(path: Path, files: Mapping[str, Content]) -> Path:
    """A FAT disk labelled CIDATA."""
    path.unlink(missing_ok=True)
    sources = put(path.with_suffix(".files"), files)
    size = sum(source.stat().st_size for source in sources)
    run("mkfs.vfat", "-C", "-n", "CIDATA", path, size // 1024 + 4096)
    for name, source in zip(files, sources, strict=True):
        run("mcopy", "-i", path, source, f"::{name}")
    return path


def disc(path: Path, files: Mapping[str, Content]) -> Path:
    """An ISO labelled cidata, made as docs/appliance.md has it."""
    sources = put(path.with_suffix(".files"), files)
    run("genisoimage", "-quiet", "-V", "cidata", "-J", "-r", "-o", path, *sources)
    return path


def archive(files: Mapping[str, bytes]) -> bytes:
    """A docroot.tar.gz."""
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, BytesIO(content))
    return out.getvalue()


def configuration(upstream: int, header: str = "one", nic: str = "") -> bytes:
    return f"""
[server]
listen = ["*:80"]
[status]
listen = "*:9180"
allow = ["10.0.2.0/24", "127.0.0.0/8"]
{nic}
[[site]]
hosts = ["*"]
root = "/srv/www"
headers = {{ X-Box = "{header}" }}
[[site.route]]
path = "/app/"
upstream = "http://10.0.2.2:{upstream}"
""".encode()


class Key:
    """A key of SSH."""

    def __init__(self, path: Path) -> None:
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "owner", "-f", path)
        self.path = path
        self.public = path.with_suffix(".pub").read_bytes()

    def sign(self, path: Path) -> Path:
        """Signs a file as docs/appliance.md has it; gives the signature's path."""
        signature = path.with_name(path.name + ".sig")
        signature.unlink(missing_ok=True)
        run("ssh-keygen", "-Y", "sign", "-q", "-f", self.path, "-n", "edgebox", path)
        return signature


def connect(
    port: int, key: Key | None, command: str, given: Path | None = None, seconds: float = 300
) -> subprocess.CompletedProcess[bytes]:
    """`ssh root@box COMMAND < given`, with that key and no other way to say who we are."""
    words = ["ssh", "-F", "none", "-p", str(port), "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
             "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
             "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8",  # it may be restarting
             "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "ConnectTimeout=120",
             "root@127.0.0.1", command]  # fmt: skip
    words[1:1] = ["-i", str(key.path)] if key else ["-o", "PubkeyAuthentication=no"]
    source = given.open("rb") if given else None
    try:
        return subprocess.run(
            words, stdin=source or subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"ssh … {command}: not within {seconds:.0f} s") from None
    finally:
        if source:
            source.close()
