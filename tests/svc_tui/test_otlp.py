"""A service that sends to collectors: its operator's, and the one that a project names."""

from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from engine import otlp
from engine.errors import InvalidUsage, SvcError
from engine.manifest.egress import parse_collector
from svc_tui.client import ApiError
from svc_tui.commands.serve import serve
from tests.engine.control.test_metrics import scrape, token
from tests.engine.otlp.collector import attributes_of, collecting
from tests.support.service import share_machine_code
from tests.support.waiting import until
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def get(hosted: Hosted, path: str = "/") -> httpx.Response:
    headers = {"host": "web--shop.apps.example", "traceparent": TRACEPARENT}
    return httpx.get(f"{hosted.public}{path}", headers=headers, timeout=60)


def test_service_sends_spans_of_the_callers_trace_and_metrics(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with collecting() as collector:
        with (
            Hosted(tmp_path / "data", otlp=parse_collector(collector.url)) as hosted,
            hosted.claim() as client,
        ):
            deploy(client, root)
            answer = get(hosted)
            span = collector.span("GET web")
            _, trace_id, parent, _ = TRACEPARENT.split("-")
            assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace_id, parent)
            assert attributes_of(span)["svc.request_id"] == answer.headers["x-request-id"]
            reader = token(client, "prometheus", projects=["*"])
            until(lambda: scrape(hosted, reader).get(("svc_otlp_sent_total", ""), 0) >= 1)
        sent = {(service, metric.name) for service, metric in collector.metrics}
        assert ("shop/web", "svc.requests") in sent and ("svc", "svc.memory.used") in sent


def test_project_sends_its_own_records_from_the_deploy_that_names_a_collector(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with collecting() as first, collecting() as second:
        with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
            deploy(client, root)
            get(hosted)
            for collector, path in ((first, "/one"), (second, "/two")):
                manifest = MANIFEST.replace("\n\n", f'\notlp = "{collector.url}"\n\n', 1)
                (root / "svc.toml").write_text(manifest)
                deploy(client, root)
                get(hosted, path)
                span = collector.span("GET web")
                assert attributes_of(span)["url.path"] == path
            (root / "svc.toml").write_text(MANIFEST)
            deploy(client, root)
            get(hosted, "/three")
        paths = [attributes_of(span)["url.path"] for _, span in first.spans + second.spans]
        assert paths == ["/one", "/two"]


def test_headers_of_a_project_are_secrets(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with collecting() as collector:
        otlp = f'\notlp = "{collector.url}"\notlp_headers = {{ authorization = "OTLP_TOKEN" }}\n\n'
        (root / "svc.toml").write_text(MANIFEST.replace("\n\n", otlp, 1))
        with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
            with pytest.raises(ApiError, match="the header authorization of otlp_headers needs the secret"):
                deploy(client, root)
            secret = "/v1/projects/shop/secrets/OTLP_TOKEN"
            client.call("PUT", secret, {"value": "Bearer one"})
            deploy(client, root)
            get(hosted)
            until(lambda: bool(collector.spans))
            client.call("PUT", secret, {"value": "Bearer two"})
            get(hosted)
            until(lambda: len(collector.spans) == 2)
            assert {each["authorization"] for each in collector.headers} == {"Bearer one", "Bearer two"}
            client.call("PUT", secret, {"value": "two\nlines"})
            get(hosted)

            def warned() -> bool:
                lines = client.lines("GET", "/v1/projects/shop/logs", params={"level": "warn"})
                return any("header value in the secret of authorization" in line["body"] for line in lines)

            until(warned)
    assert "Bearer" not in "".join(hosted.output)


def test_project_without_the_packages_on_the_service_gets_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "PACKAGES", ("opentelemetry.missing",))
    root = static_shop(tmp_path / "shop")
    manifest = MANIFEST.replace("\n\n", '\notlp = "http://127.0.0.1:1"\n\n', 1)
    (root / "svc.toml").write_text(manifest)
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        get(hosted)

        def warned() -> bool:
            lines = client.lines("GET", "/v1/projects/shop/logs", params={"level": "warn"})
            return any("nothing is sent to http://127.0.0.1:1" in line["body"] for line in lines)

        until(warned)


def test_serve_without_the_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "PACKAGES", ("opentelemetry.missing.part",))
    with pytest.raises(SvcError) as caught:
        serve(otlp="http://127.0.0.1:4318")
    assert caught.value.code == "otlp-not-installed"
    assert "pip install 'svc-tui[otlp]'" in caught.value.hint


def test_serve_rejects_an_invalid_url() -> None:
    with pytest.raises(InvalidUsage, match="--otlp collector:4318 is not the URL of a collector"):
        serve(otlp="collector:4318")


GUEST = """
export default {
  async fetch(request, env) {
    console.log('counting');
    const point = { asInt: '2', attributes: [{ key: 'lane', value: { stringValue: 'js' } }] };
    const sum = { dataPoints: [point], aggregationTemporality: 2, isMonotonic: true };
    const body = { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'orders', sum }] }] }] };
    const answer = await fetch(`${env.SVC_TELEMETRY_ENDPOINT}/v1/metrics`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return new Response(`${answer.status} ${await answer.text()}`);
  },
};
"""


@pytest.mark.slow(seconds=40)
def test_metrics_of_a_guest_reach_sql_prometheus_and_the_collector(tmp_path: Path, cache: Path) -> None:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "svc.toml").write_text('[project]\nname = "shop"\n[resource.web]\nlane = "js"\npublic = true\n')
    (root / "src" / "index.js").write_text(GUEST)
    (tmp_path / "cache").symlink_to(cache)
    with collecting() as collector:
        otlp = parse_collector(collector.url)
        with Hosted(tmp_path / "data", workers=2, otlp=otlp) as hosted, hosted.claim() as client:
            share_machine_code(hosted.data, cache)
            deploy(client, root)
            assert [get(hosted).text for _ in range(3)] == ["200 {}"] * 3
            sql = {"sql": "select resource, value, attributes ->> 'lane' as lane from metrics"}

            def counted() -> bool:
                with suppress(ApiError):  # The timeline has no tables yet.
                    found = client.call("POST", "/v1/projects/shop/logs/sql", sql)["rows"]
                    return bool(found == [{"resource": "web", "value": 6, "lane": "js"}])
                return False

            until(counted)
            reader = token(client, "of-shop", projects=["shop"])
            headers = {"authorization": f"Bearer {reader}"}
            answer = httpx.get(f"{hosted.control}/v1/projects/shop/metrics", headers=headers, timeout=60)
            assert 'orders_total{lane="js",project="shop",resource="web"} 6.0' in answer.text
            stranger = {"authorization": f"Bearer {token(client, 'of-blog', projects=['blog'])}"}
            refused = httpx.get(f"{hosted.control}/v1/projects/shop/metrics", headers=stranger, timeout=60)
            assert refused.status_code in (403, 404)
        spans = {(span.trace_id, span.span_id) for _, span in collector.spans}
        lines = [line for _, line in collector.logs if line.body.string_value == "counting"]
        assert len(lines) == 3 and all((line.trace_id, line.span_id) in spans for line in lines)
        found = {metric.name: (service, metric) for service, metric in collector.metrics}
        service, orders = found["orders"]
        assert service == "shop/web" and orders.sum.data_points[0].as_double == 6
