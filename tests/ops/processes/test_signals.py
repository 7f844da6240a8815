"""Signals come to the loop, and are as before when it is over."""

from __future__ import annotations

import os
import selectors
import signal

from edgebox.ops.processes.signals import signals


def test_actions_run_in_the_loop_and_not_where_the_signal_came() -> None:
    heard: list[int] = []
    before = signal.getsignal(signal.SIGUSR1)
    with selectors.DefaultSelector() as selector:
        with signals(selector, {signal.SIGUSR1: lambda: heard.append(1)}):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert heard == []
            for key, mask in selector.select(5):
                key.data(mask)
            assert heard == [1]
        assert not selector.get_map()
    assert signal.getsignal(signal.SIGUSR1) == before
