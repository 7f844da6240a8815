"""Steps: what outlives a shutdown, a larger disk, and power that goes at any moment."""

import random
import subprocess
import threading
import time

from trial.bench import WELL, Bench
from trial.failure import Failed, run, wait_until
from trial.inside import GIB
from trial.origin import body_of
from trial.seed import archive, connect
from trial.serving import KEPT


def reboot(bench: Bench) -> None:
    """After a shutdown the box comes back with its site, and with the answers that it kept."""
    asked = bench.origin.asked[KEPT]
    bench.machine.power_off()
    run("qemu-img", "resize", "-q", bench.disk, "9G")
    machine = bench.boot()
    bench.wait_for_site()
    if machine.body(KEPT) != body_of(KEPT) or bench.origin.asked[KEPT] != asked:
        raise Failed("the cache was lost: the upstream was asked again")


def growth(bench: Bench) -> None:
    """The disk, 1 GiB larger since the reboot, is used as a whole."""
    size = int(bench.inside("findmnt -nbo SIZE /data"))
    if size < 7.5 * GIB:
        raise Failed(f"the data partition has {size / GIB:.2f} GiB")
    print(f"  data partition: {size / GIB:.2f} GiB of a disk of 9 GiB", flush=True)


def power_cuts(bench: Bench) -> None:
    """The power goes in the middle of writing: site, answers, slot and health are there again.

    Each time answers are being stored and a new site is put in; in the first cut a new system is
    being written, too. Of the site either the old or the new is there, as a whole.
    """
    slot = bench.slot()
    bench.machine.body(KEPT)
    bench.inside("sync")  # what is stored is promised some seconds later: a disk's own habit
    pads = {bench.page: b""}  # what else belongs to a site: as a whole it is there, or not
    for cut in range(bench.extent.cuts):
        asked = bench.origin.asked[KEPT]
        began = time.monotonic()
        new = f"site of cut {cut}\n".encode()
        pads[new] = random.randbytes(1 << 21)
        seed = bench.seed("cut", {"docroot.tar.gz": archive({"index.html": new, "pad": pads[new]})})
        upgrade = threading.Thread(target=_begin_upgrade, args=[bench, bench.machine.ports[22]])
        if cut == 0:
            upgrade.start()
        bench.machine.insert(seed)
        number = 0
        end = time.monotonic() + random.uniform(0.5, 12)
        while time.monotonic() < end:
            bench.machine.body(f"/app/large-{cut}-{number}", seconds=5)
            number += 1
        bench.machine.pull_the_plug()
        if cut == 0:
            upgrade.join()
        bench.boot()
        wait_until(lambda: bench.machine.body("/"), "the site")
        found = bench.machine.body("/")
        if found not in (bench.page, new) or bench.machine.body("/pad") != pads[found]:
            raise Failed(f"cut {cut + 1}: the site is {found!r}")
        bench.page = found
        bench.wait_for_site()
        for each in range(number):
            name = f"/app/large-{cut}-{each}"
            if (got := bench.machine.body(name)) != body_of(name):
                raise Failed(f"cut {cut + 1}: {name}: {len(got)} octets")
        if bench.machine.body(KEPT) != body_of(KEPT) or bench.origin.asked[KEPT] != asked:
            raise Failed(f"cut {cut + 1}: an answer stored before is gone")
        bench.machine.wait(WELL)
        if bench.slot() != slot:
            raise Failed(f"cut {cut + 1}: it runs {bench.slot()}, not {slot}")
        which = "new" if found == new else "old"
        print(f"  cut {cut + 1} of {bench.extent.cuts}: {number} answers being stored, the {which} "
              f"site; {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip


def _begin_upgrade(bench: Bench, port: int) -> None:
    """Sends a system to a box that will not live to have it all."""
    try:
        connect(port, bench.key, "appliance upgrade -", bench.system, 60)
    except (Failed, OSError, subprocess.SubprocessError):
        pass  # as is meant
