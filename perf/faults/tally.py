"""What became of every request of a load, and what can be worked out from it. Pure.

Times are CLOCK_MONOTONIC seconds. A request is lost if it was sent and nothing whole came
back; of a connection that could not be made nothing was sent, so it is refused, not lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mishap:
    """A request that was lost or answered wrongly; `port` is the client's, so its connection."""

    at: float
    port: int
    path: str
    why: str
    first: bool = True  # request of its connection

    @property
    def crossed(self) -> bool:
        """Whether it met, on its way, the closing of a connection on which nothing was asked for.

        HTTP/1.1 has no means against that but to ask again (RFC 9112, section 9.3.1).
        """
        return self.why.startswith("closed,") and not self.first


@dataclass
class Tally:
    """All of a load. `answers`: when each was asked for, and how many seconds it took."""

    sent: int = 0
    right: int = 0
    refused: int = 0
    named: Counter[int] = field(default_factory=Counter)
    lost: list[Mishap] = field(default_factory=list)
    wrong: list[Mishap] = field(default_factory=list)
    answers: list[tuple[float, float]] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return self.right + self.named.total() + len(self.wrong)


@dataclass(frozen=True, slots=True)
class Blow:
    """Something that was killed. `ports`: the clients that it had connections to."""

    at: float
    ports: frozenset[int] = frozenset()
    prefix: str = ""  # of the paths that it answered; "" is none


IN_HAND = 2.0  # seconds after a death within which a client hears of it, on a busy machine


def explained(mishap: Mishap, blows: Sequence[Blow]) -> bool:
    """Whether it was in hand of something that was killed just before."""
    return any(
        blow.at <= mishap.at <= blow.at + IN_HAND
        and (
            mishap.port in blow.ports or (blow.prefix != "" and mishap.path.startswith(blow.prefix))
        )
        for blow in blows
    )


def longest_wait(answers: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """The longest that anybody waited for an answer who waited between `begin` and `end`."""
    return max((took for asked, took in answers if asked < end and asked + took > begin), default=0)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so large a share is not above; 0 of nothing."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
