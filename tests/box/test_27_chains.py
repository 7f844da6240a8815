"""Boxes in a row: as many as one likes pass a request on, and none that goes in circles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.box.conftest import ServeApp, Start, ask, free_port

pytestmark = pytest.mark.slow


def test_three_boxes_on_one_machine_with_nothing_configured(
    start: Start, serve_app: ServeApp
) -> None:
    inner = start("--upstream", serve_app("shop:app").url)
    middle = start("--upstream", inner.url)
    outer = start("--upstream", middle.url)
    reply = ask(outer, "/whoami")
    assert reply.status == 200
    fields = json.loads(reply.body)["fields"]
    passed = [via.split()[1] for via in fields["Via"][0].split(", ")]
    assert len(set(passed)) == 3
    assert fields["Cdn-Loop"][0].split(", ") == passed


def test_a_circle_of_two_is_found(start: Start) -> None:
    port = free_port()
    one = start("--upstream", f"http://127.0.0.1:{port}")
    start("--upstream", one.url, "--listen", f"127.0.0.1:{port}")
    assert ask(one, "/").status == 508


def test_a_box_that_is_its_own_upstream_is_found(start: Start, tmp_path: Path) -> None:
    port = free_port()
    box = start("--upstream", f"http://127.0.0.1:{port}", "--listen", f"127.0.0.1:{port}")
    assert ask(box, "/").status == 508


@pytest.mark.parametrize("field", ["Via", "CDN-Loop"])
def test_a_circle_is_found_before_a_hot_answer_is(
    field: str, start: Start, serve_app: ServeApp
) -> None:
    box = start("--upstream", serve_app("shop:app").url)
    fields = json.loads(ask(box, "/whoami").body)["fields"]
    ours = fields["Via"][0] if field == "Via" else fields["Cdn-Loop"][0]
    for _ in range(3):  # the last comes from memory
        assert ask(box, "/").status == 200
    assert ask(box, "/", **{field.replace("-", "_"): ours}).status == 508
