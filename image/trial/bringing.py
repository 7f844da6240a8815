"""Steps on a second box: UEFI, a fixed address, another card, an ISO, and system credentials."""

import base64
import re

from trial.bench import Bench
from trial.failure import Failed
from trial.hardware import CD, Hardware
from trial.seed import archive, configuration, disc
from trial.serving import greeting

ADDRESS = "10.0.2.77"
NETWORK = f"""version: 2
ethernets:
  all:
    match: {{name: "e*"}}
    addresses: [{ADDRESS}/24]
    gateway4: 10.0.2.2
    nameservers: {{addresses: [10.0.2.3]}}
"""


def uefi(bench: Bench) -> None:
    """UEFI boots the same disk: addresses come from a seed on a CD, the rest from credentials."""
    seed = disc(
        bench.where / "network.iso",
        {"network-config": NETWORK.encode(), "meta-data": b"local-hostname: edge-two\n"},
    )
    docroot = bench.where / "docroot.tar.gz"
    bench.page, bench.header = b"from a credential\n", "one"
    docroot.write_bytes(archive({"index.html": bench.page}))
    told = base64.b64encode(configuration(bench.origin.port)).decode()
    bench.boot_with(
        Hardware(
            bench.new_disk("second"), bench.where, bench.accel, "uefi", seed,
            seed_at=CD,
            network_card="e1000e",
            address=ADDRESS,
            extra=(
                "-smbios", f"type=11,value=io.systemd.credential.binary:edgebox.toml={told}",
                "-fw_cfg", f"name=opt/io.systemd.credentials/docroot.tar.gz,file={docroot}",
            ),
        )
    )  # fmt: skip


def static_address(bench: Bench) -> None:
    """It has the address of the seed's network-config and no other, and reaches its upstream."""
    if not bench.machine.body("/app/static").startswith(b"/app/static "):
        raise Failed("no upstream's answer")
    bench.machine.wait(re.compile(rb"appliance: \S+  10\.0\.2\.77/24  1 Gbit/s"))
    if b"10.0.2.15" in bytes(bench.machine.console):
        raise Failed("it asked for an address, too")


def credentials(bench: Bench) -> None:
    """Configuration and site came as systemd's credentials, by SMBIOS and by fw_cfg."""
    bench.wait_for_site()
    bench.machine.wait(re.compile(rb"on edge-two, slot a: all is well"))


def no_key(bench: Bench) -> None:
    """Without a key in the seed there is no SSH."""
    if greeting(bench.machine):
        raise Failed("SSH answers")
