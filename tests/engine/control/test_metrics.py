"""`GET /metrics` of a service: what it counts, and which tokens read what."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from svc_tui.client import Client
from tests.svc_tui.hosted import Hosted, deploy, static_shop


def scrape(hosted: Hosted, token: str) -> dict[tuple[str, str], float]:
    """Return the samples by name and project; those of several labels are added."""
    response = httpx.get(f"{hosted.control}/metrics", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    samples: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            key = sample.name, sample.labels.get("project", "")
            samples[key] = samples.get(key, 0) + sample.value
    return samples


def token(client: Client, name: str, **payload: Any) -> str:
    created = client.call("POST", "/v1/tokens", {"name": name, "role": "viewer", "days": 1} | payload)
    return str(created["token"])


def test_metrics_have_the_projects_of_the_token(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        for _ in range(3):
            assert hosted.get().text == "one"
        assert hosted.get(host="nothing.apps.example").status_code == 404
        every = scrape(hosted, token(client, "prometheus", projects=["*"]))
        assert every["svc_requests_total", "shop"] == every["svc_request_duration_seconds_count", "shop"] == 3
        assert every["svc_requests_total", ""] == 1
        assert 0 < every["svc_memory_used_bytes", ""] <= every["svc_memory_budget_bytes", ""]
        own = scrape(hosted, token(client, "of-shop", projects=["shop"]))
        assert own["svc_requests_total", "shop"] == 3 and {project for _, project in own} == {"shop"}
        assert scrape(hosted, token(client, "of-blog", projects=["blog"])) == {}


def test_metrics_require_a_token(tmp_path: Path) -> None:
    with Hosted(tmp_path / "data") as hosted:
        for headers in ({}, {"authorization": "Bearer wrong"}):
            response = httpx.get(f"{hosted.control}/metrics", headers=headers)
            assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")


@pytest.mark.slow
def test_metrics_have_the_requests_of_all_workers(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data", workers=2) as hosted, hosted.claim() as client:
        deploy(client, root)
        for _ in range(20):
            assert hosted.get().text == "one"
        reader = token(client, "prometheus", projects=["*"])
        while scrape(hosted, reader).get(("svc_requests_total", "shop"), 0) < 20:
            pass
        assert scrape(hosted, reader)["svc_requests_total", "shop"] == 20
