"""Nothing outside the root is opened, nothing but files is opened, nothing blocks."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.files import opener
from edgebox.files.entry import Directory, Docroot, Identity, Missing, Symlinks
from edgebox.files.opener import Opened, Opening, check_kernel, identify, open_file

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def www(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "page").write_bytes(b"outside")
    root = tmp_path / "www"
    (root / "sub").mkdir(parents=True)
    (root / "page").write_bytes(b"page")
    (root / "sub" / "deep").write_bytes(b"deep")
    return root


def look(
    root: Path, path: bytes, symlinks: Symlinks = "within-root", nowait: bool = False
) -> object:
    """The octets of the file, or what else there is."""
    return taken(open_file(Docroot(os.fsencode(root), symlinks), path, nowait=nowait))


def taken(opening: Opening) -> object:
    if not isinstance(opening, Opened):
        return opening
    try:
        assert Identity.of(opening.status) == Identity.of(os.fstat(opening.fd))
        assert not os.get_inheritable(opening.fd)
        return os.read(opening.fd, 100)
    finally:
        os.close(opening.fd)


@pytest.mark.parametrize("symlinks", ["within-root", "follow", "never"])
@pytest.mark.parametrize("nowait", [False, True])
def test_files_and_directories_are_found(www: Path, symlinks: Symlinks, nowait: bool) -> None:
    look(www, b"/sub/deep", symlinks)  # now its names are in the kernel's cache
    assert look(www, b"/page", symlinks, nowait) == b"page"
    assert look(www, b"/sub/deep", symlinks, nowait) == b"deep"
    for path in (b"/", b"/sub", b"/sub/"):
        assert look(www, path, symlinks, nowait) == Directory(path)


@pytest.mark.parametrize("symlinks", ["within-root", "follow", "never"])
@pytest.mark.parametrize(
    "path",
    [
        b"/none",
        b"/none/page",
        b"/page/below",
        b"/page/",
        b"/" + b"x" * 300,
        b"/" + b"x/" * 3000,
        b"/page\0.html",
        b"/../secret",
        b"/sub/../../secret",
        b"/sub/..",
        b"//../secret",
    ],
)
def test_what_is_not_there_is_not_found(www: Path, path: bytes, symlinks: Symlinks) -> None:
    assert look(www, path, symlinks) is Missing.NOT_FOUND


def test_a_missing_root_is_not_found(tmp_path: Path) -> None:
    assert look(tmp_path / "none", b"/page") is Missing.NOT_FOUND


def test_an_absolute_path_in_the_path_stays_below_the_root(www: Path) -> None:
    assert look(www, b"//etc/passwd") is Missing.NOT_FOUND
    assert look(www, b"//etc/passwd", "follow") is Missing.NOT_FOUND
    assert look(www, b"//page") == b"page"


LINKS = {
    # name: (target, what within-root gives, what follow gives)
    "to-file": ("page", b"page", b"page"),
    "to-deep": ("sub/deep", b"deep", b"deep"),
    "sub/up": ("../page", b"page", b"page"),
    "absolute": ("{www}/page", b"page", b"page"),
    "absolute-root": ("{www}", Directory(b"/absolute-root"), Directory(b"/absolute-root")),
    "out": ("../secret", Missing.OUTSIDE, b"secret"),
    "out-absolute": ("{www}/../secret", Missing.OUTSIDE, b"secret"),
    "passwd": ("/etc/hostname", Missing.OUTSIDE, None),
    "dangling": ("nowhere", Missing.NOT_FOUND, Missing.NOT_FOUND),
    "dangling-out": ("{www}/../nowhere", Missing.NOT_FOUND, Missing.NOT_FOUND),
    "loop": ("loop", Missing.NOT_FOUND, Missing.NOT_FOUND),
    "magic": ("/proc/self/exe", Missing.OUTSIDE, Missing.NOT_FOUND),
}


@pytest.mark.parametrize("name", LINKS)
def test_symlinks_lead_as_far_as_the_policy_says(www: Path, name: str) -> None:
    target, within, follow = LINKS[name]
    (www / name).symlink_to(target.format(www=www))
    path = b"/" + name.encode()
    assert look(www, path, "within-root") == within
    assert look(www, path, "never") is Missing.OUTSIDE
    if follow is not None:
        assert look(www, path, "follow") == follow


def test_directory_symlinks_obey_too(www: Path) -> None:
    (www / "in").symlink_to("sub")
    (www / "in-absolute").symlink_to(www / "sub")
    (www / "out").symlink_to("../outside")
    (www / "out-absolute").symlink_to(www.parent / "outside")
    for name in (b"/in/", b"/in-absolute/"):
        assert look(www, name + b"deep") == b"deep"
        assert look(www, name + b"deep", "never") is Missing.OUTSIDE
    for name in (b"/out/", b"/out-absolute/"):
        assert look(www, name + b"page") is Missing.OUTSIDE
        assert look(www, name + b"page", "never") is Missing.OUTSIDE
        assert look(www, name + b"page", "follow") == b"outside"


def test_a_slash_after_an_absolute_symlink_to_a_file_still_asks_for_a_directory(www: Path) -> None:
    (www / "link").symlink_to(www / "page")
    assert look(www, b"/link/") is Missing.NOT_FOUND


def test_the_root_may_be_a_symlink_and_is_followed_anew_each_time(www: Path) -> None:
    current = www.parent / "current"
    current.symlink_to("www")
    assert look(current, b"/page", "never") == b"page"
    (www / "absolute").symlink_to(current / "page")
    assert look(current, b"/absolute") == b"page"
    current.unlink()
    current.symlink_to("outside")
    assert look(current, b"/page", "never") == b"outside"


def test_the_whole_file_system_can_be_a_root(www: Path) -> None:
    path = os.fsencode(www / "page")
    (www / "absolute").symlink_to(www / "page")
    assert look(Path("/"), path) == b"page"
    assert look(Path("/"), os.fsencode(www / "absolute")) == b"page"


def test_nowait_leaves_to_a_thread_what_must_read_the_disk(www: Path) -> None:
    (www / "absolute").symlink_to(www / "page")
    docroot = Docroot(os.fsencode(www))
    assert open_file(docroot, b"/absolute", nowait=True) is None
    assert identify(docroot, b"/absolute", nowait=True) is None
    assert look(www, b"/absolute", "never", nowait=True) is Missing.OUTSIDE
    never_asked_for = open_file(docroot, b"/never-asked-for", nowait=True)
    assert never_asked_for in (None, Missing.NOT_FOUND)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="mount a tmpfs on /dev/shm")
def test_nothing_has_to_be_waited_for_in_memory() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        root = Path(directory)
        (root / "page").write_bytes(b"page")
        (root / "out").symlink_to("/etc/hostname")
        (root / "never").symlink_to("page")
        for _ in range(2):
            assert look(root, b"/page", nowait=True) == b"page"
            assert look(root, b"/none", nowait=True) is Missing.NOT_FOUND
            assert look(root, b"/none/deeper", nowait=True) is Missing.NOT_FOUND
            assert look(root, b"/page/below", nowait=True) is Missing.NOT_FOUND
            assert look(root, b"/out", nowait=True) is None
            assert look(root, b"/out") is Missing.OUTSIDE
            assert look(root, b"/never", "never", nowait=True) is Missing.OUTSIDE


def test_identify_tells_what_an_opened_file_tells(www: Path) -> None:
    docroot = Docroot(os.fsencode(www))
    assert identify(docroot, b"/page", nowait=False) == Identity.of(os.stat(www / "page"))
    assert identify(docroot, b"/sub", nowait=False) == Directory(b"/sub")
    assert identify(docroot, b"/none", nowait=False) is Missing.NOT_FOUND


@pytest.mark.parametrize("nowait", [False, True])
def test_a_fifo_is_not_touched(www: Path, nowait: bool) -> None:
    os.mkfifo(www / "fifo")
    # A reader, even for a moment, would let this writer in.
    for _ in range(2):
        assert look(www, b"/fifo", nowait=nowait) is Missing.NOT_FOUND
        with pytest.raises(OSError, match="No such device") as error:
            os.open(www / "fifo", os.O_WRONLY | os.O_NONBLOCK)
        assert error.value.errno == errno.ENXIO


def test_sockets_and_devices_are_not_found(tmp_path: Path, www: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(www)  # such addresses are short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        assert look(www, b"/socket") is Missing.NOT_FOUND
    assert look(Path("/dev"), b"/null", "follow") is Missing.NOT_FOUND
    assert look(Path("/dev"), b"/tty", "follow") is Missing.NOT_FOUND


@pytest.mark.parametrize("spare", [0, 1])
def test_without_descriptors_it_says_so(
    www: Path, spare: int, descriptors_to_spare: Callable[[int], AbstractContextManager[None]]
) -> None:
    with descriptors_to_spare(spare):
        found = open_file(Docroot(os.fsencode(www)), b"/page", nowait=False)
    assert found is Missing.NO_DESCRIPTORS
    assert look(www, b"/page") == b"page"


def test_what_may_not_be_read_is_forbidden() -> None:
    with tempfile.TemporaryDirectory() as directory:  # tmp_path is its owner's alone
        root = Path(directory)
        root.chmod(0o755)
        (root / "closed").mkdir()
        (root / "closed" / "page").write_bytes(b"page")
        (root / "page").write_bytes(b"page")
        (root / "page").chmod(0)
        (root / "closed").chmod(0)
        script = (
            "import os, sys\n"
            "from edgebox.files.entry import Docroot, Missing\n"
            "from edgebox.files.opener import open_file\n"
            "if os.geteuid() == 0:\n"
            "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "docroot = Docroot(os.fsencode(sys.argv[1]))\n"
            "for path in (b'/page', b'/closed/page', b'/closed/none'):\n"
            "    found = open_file(docroot, path, nowait=False)\n"
            "    assert found is Missing.FORBIDDEN, (path, found)\n"
            "    found = open_file(docroot, path, nowait=True)\n"
            "    assert found in (None, Missing.FORBIDDEN), (path, found)\n"
        )
        subprocess.run([sys.executable, "-c", script, directory], check=True, timeout=30)
        (root / "closed").chmod(0o755)


def test_this_kernel_will_do() -> None:
    check_kernel()


def test_a_kernel_without_openat2_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opener, "_OPENAT2", 4095)  # no such system call: ENOSYS
    with pytest.raises(RuntimeError, match=r"Linux 5\.12"):
        check_kernel()


@pytest.fixture
def maze(www: Path) -> Path:
    """A root with every way out that symlinks can make."""
    (www / "up").symlink_to("..")
    (www / "sub" / "up").symlink_to("../..")
    (www / "sub" / "out").symlink_to(www.parent / "secret")
    (www / "root").symlink_to("/")
    return www


names = st.sampled_from(
    ["page", "sub", "deep", "up", "out", "root", "..", ".", "", "secret", "etc"]
)


@given(parts=st.lists(names, max_size=6), symlinks=st.sampled_from(["within-root", "never"]))
def test_no_path_at_all_leads_outside(maze: Path, parts: list[str], symlinks: Symlinks) -> None:
    found = look(maze, b"/" + "/".join(parts).encode(), symlinks)
    assert found in (b"page", b"deep") or isinstance(found, Directory | Missing)
    if isinstance(found, Directory):
        assert set(parts) <= {"sub", ".", ""}
