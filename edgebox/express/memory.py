"""What the express lane remembers: heads, and the answers of this epoch.

Three levels, each cheaper to ask than the next:

    hits      the octets of a whole head → what to send. This epoch only.
    heads     a header block (all after the request line) → what in it decides an answer.
              Independent of time. Browsers repeat their block for every path.
    answers   the deciding fields and a request line → an answer. This epoch only.

Heads that differ only in what decides nothing (cookies, say) share their answers, so
there is one rendering an object and epoch, however many clients ask for it. All of it
is bounded and counted; what is full is emptied, since a block is soon learned again.
"""

from __future__ import annotations

from edgebox.http.headers import Fields, Headers
from edgebox.memory.ledger import Ledger
from edgebox.observe.counters import Tally

ENTRY = 200  # octets that a dict entry with its tuple takes, roughly (2026-11-30, CPython 3.11)

MARK = 64  # octets of an integer in a set

# Where heads are many, few repeat within a second: remembering each then costs more than
# asking the other two levels.
MOST_HITS = 1024

# A rendered answer: what to send (head and body in one, or apart), its octets, whether the
# connection goes on, the status, the access log's piece, our part of Cache-Status, and its count.
Answer = tuple[bytes | tuple[bytes, bytes], int, bool, int, bytes, bytes, Tally]


class Deciding:
    """The fields of a head that can change an answer, and the answers they got."""

    __slots__ = ("answers", "headers", "host")

    def __init__(self, headers: Headers, host: bytes | None) -> None:
        self.headers = headers
        self.host = host
        self.answers: dict[bytes, Answer] = {}


class Memory:
    """Bounded look-up tables. The lane reads `hits` and `heads` directly."""

    def __init__(self, ledger: Ledger, heads_limit: int, answers_limit: int) -> None:
        """Limits are in octets."""
        self._heads_account = ledger.account("heads")
        self._answers_account = ledger.account("answers")
        self._limits = (heads_limit, answers_limit)
        self.hits: dict[bytes, tuple[Answer, bytes]] = {}
        self.heads: dict[bytes, tuple[Deciding, bytes]] = {}
        self._seen: set[int] = set()  # hashes of blocks that came once
        self._deciding: dict[object, Deciding] = {}

    def learn(
        self, block: bytes, fields: Fields, host: bytes | None, tail: bytes
    ) -> tuple[Deciding, bytes]:
        """What decides in a header block, with `tail`, its piece of the access log."""
        key = (fields, host)
        deciding = self._deciding.get(key)
        if deciding is None:
            self._charge_head(4 * ENTRY + sum(len(n) + len(v) for n, v in fields))
            deciding = self._deciding[key] = Deciding(Headers(fields), host)
        known = deciding, tail
        self.meet(block, known)
        return known

    def meet(self, block: bytes, known: tuple[Deciding, bytes]) -> None:
        """A block came of which `known` is known: it is remembered from its second time on.

        One that never comes again, with a new cookie for each request, is not worth its
        room: it would push out those that do.
        """
        mark = hash(block)
        again = mark in self._seen
        if self._charge_head(len(block) + len(known[1]) + ENTRY if again else MARK):
            # `known` is forgotten too: what held on to it would miss that its answers age.
            return
        if again:
            self.heads[block] = known
        else:
            self._seen.add(mark)

    def _charge_head(self, size: int) -> bool:
        """Whether all heads were forgotten for it."""
        full = self._heads_account.held + size > self._limits[0]
        if full:
            self.forget_heads()
        self._heads_account.charge(size)
        return full

    def keep(self, deciding: Deciding, line: bytes, answer: Answer) -> None:
        """Remember an answer until the epoch turns."""
        wire = answer[0]
        # A body that is sent apart from its head belongs to the working set, not to us.
        size = len(wire if isinstance(wire, bytes) else wire[0]) + len(line) + ENTRY
        if self._make_room(size):
            deciding.answers[line] = answer

    def hit(self, head: bytes, answer: Answer, tail: bytes) -> None:
        """Remember the answer to exactly these octets."""
        if len(self.hits) < MOST_HITS and self._make_room(len(head) + ENTRY):
            self.hits[head] = (answer, tail)

    def _make_room(self, size: int) -> bool:
        # Full means full until the epoch turns: within a second there is nothing to gain
        # from throwing out what was asked for in this very second.
        if self._answers_account.held + size > self._limits[1]:
            return False
        self._answers_account.charge(size)
        return True

    def forget_answers(self) -> None:
        """The epoch has turned, or something that answers were made of has changed."""
        self.hits.clear()
        for deciding in self._deciding.values():
            deciding.answers.clear()
        self._answers_account.refund(self._answers_account.held)

    def forget_heads(self) -> None:
        self.forget_answers()
        self.heads.clear()
        self._seen.clear()
        self._deciding.clear()
        self._heads_account.refund(self._heads_account.held)

    def statistics(self) -> dict[str, int]:
        return {
            "hits": len(self.hits),
            "heads": len(self.heads),
            "deciding": len(self._deciding),
            "heads_octets": self._heads_account.held,
            "answers_octets": self._answers_account.held,
        }
