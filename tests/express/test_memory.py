"""What the lane remembers is bounded, and nothing in it outlives its second."""

from __future__ import annotations

from edgebox.express.memory import Answer, Deciding, Memory
from edgebox.memory.ledger import Ledger

MIB = 1024 * 1024
ANSWER: Answer = (b"HTTP/1.1 200 OK\r\n\r\n", 19, True, 200, b"")
LINE = b"GET / HTTP/1.1"


def make(heads: int = MIB, answers: int = MIB) -> Memory:
    return Memory(Ledger(2 * MIB), heads, answers)


def learn(memory: Memory, block: bytes) -> Deciding:
    return memory.learn(block, ((b"range", b"bytes=0-"),), b"a", b"tail")[0]


def test_a_block_is_remembered_from_its_second_time_on() -> None:
    memory = make()
    learn(memory, b"one")
    assert not memory.heads
    learn(memory, b"one")
    assert list(memory.heads) == [b"one"]


def test_whatever_is_found_again_forgets_its_answers_with_the_epoch() -> None:
    """Also where learning a head made the memory forget all others, at any moment."""
    for limit in range(0, 6000, 50):
        memory = make(heads=limit)
        for n in [*range(8), *range(8), *range(8)]:
            block = b"block %d" % n * 5
            known = memory.heads.get(block)
            if known is None:
                deciding = learn(memory, block)
                memory.meet(block + b" with a cookie", (deciding, b"tail"))
            else:
                deciding = known[0]
            memory.keep(deciding, LINE, ANSWER)
        memory.forget_answers()
        assert not any(deciding.answers for deciding, _ in memory.heads.values())


def test_heads_and_answers_stay_within_their_limits() -> None:
    memory = make(heads=10_000, answers=10_000)
    for n in range(1000):
        block = b"block %d" % n
        for _ in range(2):
            memory.keep(learn(memory, block), b"GET /%d HTTP/1.1" % n, ANSWER)
        statistics = memory.statistics()
        assert statistics["heads_octets"] <= 10_000
        assert statistics["answers_octets"] <= 10_000
