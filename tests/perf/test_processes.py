"""CPU time, switches and memory are read for all threads of all descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from perf.processes import Task, Usage, alive, family, marked, own_memory, spent, usage


def test_what_was_spent_counts_new_threads_whole() -> None:
    before = Usage({1: Task(1, 100, 5, 1), 2: Task(1, 50, 2, 0)})
    after = Usage({1: Task(1, 300, 8, 2), 2: Task(1, 50, 2, 0), 9: Task(8, 70, 1, 0)})
    difference = spent(before, after)
    assert (difference.nanoseconds, difference.voluntary, difference.involuntary) == (270, 4, 1)
    assert difference.lost_processes == ()


def test_a_lost_process_and_an_ended_thread_are_told_apart() -> None:
    before = Usage({1: Task(1, 100, 0, 0), 2: Task(1, 50, 0, 0), 3: Task(3, 9, 0, 0)})
    difference = spent(before, Usage({1: Task(1, 120, 0, 0)}))
    assert difference.lost_processes == (3,)
    assert difference.ended_threads == 2


def test_a_child_belongs_to_the_family_until_it_ends() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in family(os.getpid())
        assert alive(child.pid)
    finally:
        child.kill()
        child.wait()
        if child.stdin is not None:
            child.stdin.close()
    assert not alive(child.pid)
    assert child.pid not in family(os.getpid())
    assert usage([child.pid]) == Usage({})


def test_who_bears_a_mark_is_found_when_its_parent_has_ended() -> None:
    mark = f"EDGEBOX_TEST={os.getpid()}"
    sleeps = [sys.executable, "-c", "import time; time.sleep(30)"]
    code = f"import subprocess; print(subprocess.Popen({sleeps!r}, stdout=-3, stderr=-3).pid)"
    name, _, value = mark.partition("=")
    told = subprocess.run(
        [sys.executable, "-c", code], env={name: value}, capture_output=True, check=True
    )
    (orphan,) = marked(mark)
    os.kill(orphan, signal.SIGKILL)
    assert orphan == int(told.stdout)
    assert marked(mark + "0") == []


def test_every_thread_is_seen_and_time_only_grows() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        before = usage([os.getpid()])
        sum(range(100_000))
        time.sleep(0.001)  # the scheduler adds up when a thread leaves its CPU
        after = usage([os.getpid()])
    finally:
        over.set()
        thread.join()
    assert thread.native_id in before.tasks
    assert spent(before, after).nanoseconds > 0


def test_memory_is_in_octets() -> None:
    assert own_memory([os.getpid()]) > 1_000_000
