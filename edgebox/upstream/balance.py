"""Which of several servers is asked next. Decisions alone: no clock, no socket.

Whoever calls has sorted out servers that are down or full; each method chooses among what
is left, whatever that is from one call to the next. Random numbers are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar


class Candidate(Protocol):
    """What a choice depends on: a name that stays, a weight from 1, requests in hand."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def active(self) -> int: ...


C = TypeVar("C", bound=Candidate)


class Balance(Protocol):
    """A method of choosing."""

    def choose(self, candidates: Sequence[C], key: bytes) -> C:
        """One of `candidates`, of which there is at least one. `key`: what is asked for."""
        ...


class RoundRobin:
    """In turn, by weight, as evenly spread as the weights allow.

    Each turn every candidate gains its weight; the richest is chosen and pays what all have
    gained. Weights 5, 1, 1 give a a b a c a a, not five in a row.
    """

    def __init__(self) -> None:
        self._credit: dict[str, int] = {}

    def choose(self, candidates: Sequence[C], key: bytes) -> C:
        if len(candidates) == 1:
            return candidates[0]
        credit = self._credit
        chosen, total = candidates[0], 0
        for candidate in candidates:
            total += candidate.weight
            credit[candidate.name] = credit.get(candidate.name, 0) + candidate.weight
            if credit[candidate.name] > credit[chosen.name]:
                chosen = candidate
        credit[chosen.name] -= total
        return chosen


class LeastConnections:
    """The one with the fewest requests in hand for its weight; equals take turns."""

    def __init__(self) -> None:
        self._turns = RoundRobin()

    def choose(self, candidates: Sequence[C], key: bytes) -> C:
        least = min(_load(candidate) for candidate in candidates)
        return self._turns.choose([c for c in candidates if _load(c) == least], key)


class RandomTwo:
    """The less loaded of two drawn by weight: nearly as even as asking them all.

    Several workers that do not know of each other do not all fall upon the same server.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` gives a number from 0 up to but not including 1."""
        self._random = random

    def choose(self, candidates: Sequence[C], key: bytes) -> C:
        first = self._draw(candidates)
        others = [candidate for candidate in candidates if candidate is not first]
        if not others:
            return first
        second = self._draw(others)
        return second if _load(second) < _load(first) else first

    def _draw(self, candidates: Sequence[C]) -> C:
        at = self._random() * sum(candidate.weight for candidate in candidates)
        for candidate in candidates:
            at -= candidate.weight
            if at < 0:
                return candidate
        return candidates[-1]  # rounding


class Hash:
    """Always the same one for a key, while it is there (rendezvous hashing).

    Each candidate draws a number from its name and the key, and the best draw wins. So when
    one goes, only its own keys move, to all the others alike, and come back with it.
    """

    def choose(self, candidates: Sequence[C], key: bytes) -> C:
        return max(candidates, key=lambda candidate: _draw_for(candidate, key))


def _load(candidate: Candidate) -> float:
    """Requests in hand a unit of weight, were this one given to it, too."""
    return (candidate.active + 1) / candidate.weight


def _draw_for(candidate: Candidate, key: bytes) -> float:
    """Exponential with the weight as rate, so that shares are as the weights."""
    digest = blake2b(candidate.name.encode() + b"\0" + key, digest_size=8).digest()
    # 52 bits and a half: neither 0 nor, rounded to a double, 1.
    uniform = ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52
    return candidate.weight / -math.log(uniform)


def make_balance(name: str, random: Callable[[], float]) -> Balance:
    """The method that `upstream.balance` names."""
    match name:
        case "least-connections":
            return LeastConnections()
        case "random-two":
            return RandomTwo(random)
        case "hash":
            return Hash()
        case _:
            return RoundRobin()
