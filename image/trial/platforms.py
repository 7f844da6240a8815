"""Step: the buses and cards of other hypervisors and of bare metal, as far as qemu has them."""

import time

from trial.bench import Bench
from trial.hardware import CD, NVME, PVSCSI, SATA, SCSI, USB, VIRTIO, Hardware
from trial.seed import disc, volume

# Disk, seed, card, firmware. Between them each bus is booted from by one firmware at least.
PLATFORMS = {
    "as Proxmox has it: virtio-scsi, the seed a CD": (SCSI, CD, "virtio-net-pci", "bios"),
    "as VMware has it: PVSCSI, vmxnet3, the seed a CD": (PVSCSI, CD, "vmxnet3", "bios"),
    "as a cloud has it: NVMe, the seed a second volume": (NVME, VIRTIO, "virtio-net-pci", "uefi"),
    "as bare metal has it: SATA, e1000e, the seed a USB stick": (SATA, USB, "e1000e", "bios"),
}


def platforms(bench: Bench) -> None:
    """On other buses and cards, too, a new disk and a seed make a box that serves the site."""
    for number, (what, (disk_at, seed_at, card, firmware)) in enumerate(PLATFORMS.items()):
        began = time.monotonic()
        files = bench.site(f"platform {number}\n".encode(), "one")
        make = disc if seed_at == CD else volume
        bench.boot_with(
            Hardware(
                bench.new_disk(f"platform-{number}"), bench.where, bench.accel, firmware,
                make(bench.where / f"platform-{number}.seed", files),
                disk_at=disk_at, seed_at=seed_at, network_card=card,
            )
        )  # fmt: skip
        bench.wait_for_site()
        print(f"  {what}: {time.monotonic() - began:.0f} s", flush=True)
