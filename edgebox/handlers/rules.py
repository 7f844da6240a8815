"""What a route to app servers goes by."""

from __future__ import annotations

from dataclasses import dataclass

from edgebox.cache.flight import RoutePolicy
from edgebox.handlers.accel import Accel
from edgebox.handlers.forward import ForwardRules
from edgebox.http.tracing import UNTRACED, TracingRules


@dataclass(frozen=True, slots=True)
class ProxyRules:
    """How one route is passed on. `body_size`: octets of a request body, 413 beyond.

    `accel`: what becomes of answers that name a file. `tracing`: what names a request bears.
    """

    forward: ForwardRules
    policy: RoutePolicy
    body_size: int
    accel: Accel
    tracing: TracingRules = UNTRACED
