"""What is given up is gone: seen from processes that have given it up."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from edgebox.ops.processes.privileges import PrivilegeError, find_identity, landlock_version, own
from tests.box.conftest import lack

pytestmark = pytest.mark.slow

US = pwd.getpwuid(os.geteuid()).pw_name


def attempt(code: str, *arguments: str) -> str:
    """What a process says that runs `code` with the room's functions at hand."""
    whole = f"import os, sys\nfrom edgebox.ops.processes.privileges import *\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", whole, *arguments], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


def need_root() -> None:
    if os.geteuid() != 0:
        lack("needs root")


def test_nobody_is_asked_for_and_nobody_becomes() -> None:
    assert find_identity("", "") is None


def test_users_and_groups_that_are_not_there_say_so() -> None:
    with pytest.raises(PrivilegeError, match="no user 'no such'"):
        find_identity("no such", "")
    with pytest.raises(PrivilegeError, match="no group 'no such'"):
        find_identity(US, "no such")


def test_to_become_ourselves_takes_no_privilege() -> None:
    identity = find_identity(US, "")
    assert identity is not None
    assert identity.user == os.geteuid()


def test_who_has_become_somebody_cannot_go_back() -> None:
    need_root()
    said = attempt(
        "identity = find_identity('nobody', '')\n"
        "become(identity)\n"
        "forbid_new_privileges()\n"
        "assert os.getresuid() == (identity.user,) * 3, os.getresuid()\n"
        "assert os.getresgid() == (identity.group,) * 3, os.getresgid()\n"
        "assert 0 not in os.getgroups()\n"
        "try:\n    os.setuid(0)\n"
        "except PermissionError:\n    pass\n"
        "else:\n    print('root again')\n"
        "lines = open('/proc/self/status').read().split('\\n')\n"
        "print([l for l in lines if l.startswith(('NoNewPrivs', 'CapEff', 'CapPrm', 'CapAmb'))])"
    )
    nothing = "0000000000000000"
    assert said == str(
        [f"CapPrm:\t{nothing}", f"CapEff:\t{nothing}", f"CapAmb:\t{nothing}", "NoNewPrivs:\t1"]
    )


def test_below_a_chroot_nothing_else_is(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "inside").write_text("x")
    said = attempt("enter_chroot(sys.argv[1])\nprint(sorted(os.listdir('/')))", str(tmp_path))
    assert said == "['inside']"
    code = "try:\n    enter_chroot(sys.argv[1])\nexcept PrivilegeError as e:\n    print(e)"
    assert attempt(code, "/no such") == "server.chroot: /no such: No such file or directory"
    code = f"enter_chroot(sys.argv[1])\n{code.replace('enter_chroot', 'need_proc')}"
    why = f"{tmp_path} has no /proc: mount -t proc proc {tmp_path}/proc"
    assert attempt(code, str(tmp_path)) == f"server.chroot: {why}"


def test_below_a_chroot_hosts_have_names(tmp_path: Path) -> None:
    need_root()
    said = attempt(
        "import edgebox.ops.processes.child\nenter_chroot(sys.argv[1])\n"
        "print('app.example'.encode('idna'))",
        str(tmp_path),
    )
    assert said == "b'app.example'"


def test_landlock_lets_nothing_be_opened_but_what_is_listed(tmp_path: Path) -> None:
    if not landlock_version():
        lack("needs a kernel with landlock")
    for name in ("read", "write", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    said = attempt(
        "base = sys.argv[1]\n"
        "forbid_new_privileges()\n"
        "assert confine([base + '/read', '/no such', '/usr', '/proc'], [base + '/write'])\n"
        "def may(path, mode):\n"
        "    try:\n        open(base + path, mode).close()\n"
        "    except PermissionError:\n        return False\n"
        "    return True\n"
        "print(may('/read/file', 'r'), may('/read/file', 'a'), may('/read/new', 'w'))\n"
        "print(may('/write/file', 'r'), may('/write/file', 'w'), may('/write/new', 'w'))\n"
        "os.mkdir(base + '/write/a')\n"
        "os.rename(base + '/write/new', base + '/write/a/new')\n"
        "print(may('/hidden/file', 'r'), may('/new', 'w'))\n",
        str(tmp_path),
    )
    assert said.split("\n") == ["True False False", "True True True", "False False"]


def test_single_files_can_be_listed_too(tmp_path: Path) -> None:
    if not landlock_version():
        lack("needs a kernel with landlock")
    (tmp_path / "one").write_text("x")
    (tmp_path / "other").write_text("x")
    said = attempt(
        "forbid_new_privileges()\n"
        "confine([], [sys.argv[1] + '/one'])\n"
        "open(sys.argv[1] + '/one', 'r+').close()\n"
        "try:\n    open(sys.argv[1] + '/other')\nexcept PermissionError:\n    print('refused')",
        str(tmp_path),
    )
    assert said == "refused"


def test_what_is_made_for_somebody_is_his_and_what_is_there_stays(tmp_path: Path) -> None:
    need_root()
    identity = find_identity("nobody", "")
    assert identity is not None
    (tmp_path / "there").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("there", "link", "new"):
        own(str(tmp_path / name), identity, directory=False)
    own(str(tmp_path / "a" / "directory"), identity, directory=True)
    assert (tmp_path / "there").stat().st_uid == 0
    assert not (tmp_path / "target").exists()
    assert (tmp_path / "new").stat().st_uid == identity.user
    assert (tmp_path / "a").stat().st_uid == 0
    assert (tmp_path / "a" / "directory").stat().st_uid == identity.user
    own(str(tmp_path / "a" / "directory"), identity, directory=True)
