"""Frames of other sites: a playground that is asked for with ?embed=1, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.studio.support.browsers import Visit

FANG = "/papers/fang-2022-attention-enables-zero-approximation-error"


def test_a_playground_may_be_framed_when_it_is_asked_for_so(client: Any) -> None:
    headers = client.get("/playground/nothing?p=x^2&embed=1").headers
    assert "frame-ancestors *" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "x-frame-options" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/playground/nothing",
        "/playground/nothing?embed=0",
        "/playground/nothing?embed=11",
        "/playground/nothing?embed=1&embed=1",
        "/playground?embed=1",
        "/playground/a/b?embed=1",
        f"{FANG}?embed=1",
        "/login?embed=1",
        "/?embed=1",
        "/papers/../playground/nothing/?embed=1",
    ],
)
def test_nothing_else_is_framed(client: Any, path: str) -> None:
    headers = client.get(path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


def test_at_a_desk_of_one_nothing_is_framed(settings: Any) -> None:
    from dataclasses import replace

    from starlette.testclient import TestClient

    from exactformer.studio.app import create_app

    app = create_app(replace(settings, single_user=True))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        headers = client.get("/playground/nothing?embed=1").headers
    assert headers["x-frame-options"] == "DENY"


def test_an_embedded_page_shows_the_content_alone(visit: Visit) -> None:
    page = visit.page()
    page.goto("/playground/couplings?embed=1")
    assert not page.locator(".site-header").is_visible()
    page.locator("h1").wait_for()
