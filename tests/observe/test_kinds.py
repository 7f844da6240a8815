from __future__ import annotations

import pytest

from edgebox.cache.reasons import ServeReason
from edgebox.http.message import Response
from edgebox.observe.kinds import KINDS, kind_of


@pytest.mark.parametrize(
    ("label", "status", "kind"),
    [
        ("-", 200, "file"),
        ("-", 404, "file"),
        ("-", 502, ""),
        (ServeReason.FRESH.key, 200, "hit"),
        (ServeReason.WHILE_REVALIDATE.key, 200, "stale"),
        (ServeReason.STALE_IF_ERROR.key, 200, "stale"),
        (ServeReason.STALE.key, 200, "miss"),
        (ServeReason.NOTHING_STORED.key, 500, "miss"),
    ],
)
def test_an_answer_is_of_the_kind_that_its_label_says(label: str, status: int, kind: str) -> None:
    assert kind_of(Response(status, label=label)) == kind


def test_every_reason_has_a_kind() -> None:
    assert {kind_of(Response(200, label=reason.key)) for reason in ServeReason} <= set(KINDS)
