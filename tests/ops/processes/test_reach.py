"""Which files a worker may open, and what they are called from inside."""

from __future__ import annotations

from pathlib import Path

from edgebox.config.schema import Cache, Compression, Config, Log, Route, Server, Site
from edgebox.config.upstreams import Upstream, UpstreamServer, UpstreamTls
from edgebox.ops.processes.reach import inside, owned, readable, writable


def test_without_a_chroot_nothing_changes() -> None:
    config = Config()
    assert inside(config) is config


def test_paths_lose_the_chroot_and_helpers_are_not_started() -> None:
    upstream = Upstream(
        servers=("unix:/jail/run/app", UpstreamServer(url="unix:/jail/b"), "http://127.0.0.1:1"),
        tls=UpstreamTls(ca="/jail/ca.pem"),
    )
    seen = inside(
        Config(
            server=Server(chroot="/jail/"),
            site=(
                Site(root="/jail/www", route=(Route(accel="/jail/x", upstream="unix:/jail/c"),)),
                Site(hosts=("a",), root="/jail"),
            ),
            upstream={"app": upstream},
            log=Log(access="/jail/log/access.log", error="-"),
            cache=Cache(dir="/jail/cache"),
            compression=Compression(dir="/jail/variants"),
        )
    )
    assert [site.root for site in seen.site] == ["/www", "/"]
    assert seen.site[0].route[0] == Route(accel="/x", upstream="unix:/c")
    servers = ("unix:/run/app", UpstreamServer(url="unix:/b"), "http://127.0.0.1:1")
    assert seen.upstream["app"].servers == servers
    assert seen.upstream["app"].tls.ca == "/ca.pem"
    assert (seen.log.access, seen.log.error) == ("/log/access.log", "-")
    assert seen.cache.dir == ""
    assert not seen.compression.enabled


def config_for(tmp_path: Path, **site: str) -> Config:
    return Config(
        site=(Site(root=str(tmp_path / "www"), **site),),  # type: ignore[arg-type]
        log=Log(access=str(tmp_path / "log" / "a.log"), error="off"),
        cache=Cache(dir=str(tmp_path / "cache")),
        compression=Compression(dir=str(tmp_path / "variants")),
    )


def test_roots_are_read_and_caches_and_logs_are_written(tmp_path: Path) -> None:
    config = config_for(tmp_path)
    assert str(tmp_path / "www") in readable(config)
    assert str(tmp_path) not in readable(config)
    assert "/" not in readable(config)
    assert {str(tmp_path / name) for name in ("log", "cache", "variants")} < set(writable(config))
    assert str(tmp_path / "www") not in writable(config)
    assert owned(config) == [str(tmp_path / name) for name in ("variants", "cache")]


def test_behind_a_link_its_next_target_may_be_read_as_well(tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    (releases / "1").mkdir(parents=True)
    (tmp_path / "www").symlink_to(releases / "1")
    assert str(releases) in readable(config_for(tmp_path))
    assert str(tmp_path) not in readable(config_for(tmp_path))


def test_who_follows_every_link_reads_everything(tmp_path: Path) -> None:
    assert "/" in readable(config_for(tmp_path, symlinks="follow"))
