"""Alerts of a service: sent to a webhook, listed by the API, tested by `svc notify test`."""

from pathlib import Path

import pytest

from engine.alerts.alerts import parse_target
from engine.errors import InvalidUsage
from engine.http.tls import Certificate
from svc_tui.client import ApiError, Client
from svc_tui.commands.serve import serve
from svc_tui.main import run
from tests.engine.alerts.webhook import receiving
from tests.engine.control.test_metrics import token
from tests.support.certificates import self_signed
from tests.support.waiting import until
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop


def failing(root: Path) -> None:
    (root / "svc.toml").write_text(MANIFEST.replace("\n\n", '\ncheck = "/missing"\n\n', 1))


def test_failed_deploy_is_sent_once_and_its_end_after_the_next_deploy(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with receiving() as webhook:
        target = parse_target(webhook.url)
        with Hosted(tmp_path / "data", notify=[target]) as hosted, hosted.claim() as client:
            failing(root)
            for _ in range(2):
                with pytest.raises(ApiError, match="health check failed"):
                    deploy(client, root)
            until(lambda: bool(webhook.alerts))
            (alert,) = client.call("GET", "/v1/alerts")["alerts"]
            assert webhook.alerts == [alert]
            assert (alert["kind"], alert["project"], alert["severity"]) == ("deploy-failed", "shop", "error")
            assert alert["text"].startswith("a deploy of shop failed: health check failed: resource web")
            assert (alert["url"], alert["until"]) == ("http://shop.apps.example:8080", None)
            (root / "svc.toml").write_text(MANIFEST)
            deploy(client, root)
            until(lambda: len(webhook.alerts) == 2)
            assert webhook.alerts[1] == alert | {"until": webhook.alerts[1]["until"]}
            assert webhook.alerts[1]["until"] > alert["since"]
            assert client.call("GET", "/v1/alerts") == {"alerts": []}


def test_alerts_are_listed_for_viewers_of_their_project_and_of_the_service(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    with (
        Hosted(tmp_path / "data", Certificate(*self_signed(tmp_path / "tls"))) as hosted,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "certificate.pem"))
        with hosted.claim() as client:
            (alert,) = client.call("GET", "/v1/alerts")["alerts"]
            assert (alert["kind"], alert["project"], alert["severity"]) == ("certificate", None, "warning")
            assert "certificate.pem expires in 0 days" in alert["text"]
            reader = token(client, "of-shop", projects=["shop"])
            with Client(hosted.control, reader) as limited:
                assert limited.call("GET", "/v1/alerts") == {"alerts": []}
                with pytest.raises(ApiError, match="requires the role owner"):
                    limited.call("POST", "/v1/alerts/test", {})


def test_service_that_stops_waits_for_no_webhook_and_reports_the_lost_alert(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    failing(root)
    with receiving() as webhook:
        webhook.status = 0
        hosted = Hosted(tmp_path / "data", notify=[parse_target(webhook.url)])
        with hosted, hosted.claim() as client:
            with pytest.raises(ApiError, match="health check failed"):
                deploy(client, root)
            until(lambda: webhook.requests == 1)
            assert client.call("GET", "/v1/health")["status"] == "ok"
        token_of_ann = hosted.token
        lost = [line for line in hosted.output if "the alert was not delivered" in line]
        assert len(lost) == 1 and "(the service stops): svc: deploy-failed (shop)" in lost[0]
        assert "secret-path" not in "".join(hosted.output)
    with Hosted(tmp_path / "data") as hosted, Client(hosted.control, token_of_ann) as client:
        lines = client.lines("GET", "/v1/projects/shop/logs", params={"level": "warn"})
        assert any("the alert was not delivered" in line["body"] for line in lines)


def test_notify_test_prints_the_result_for_each_receiver(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as first, receiving() as second:
        targets = [parse_target(webhook.url) for webhook in (first, second)]
        with Hosted(tmp_path / "data", notify=targets) as hosted, hosted.claim():
            monkeypatch.setenv("SVC_URL", hosted.control)
            monkeypatch.setenv("SVC_TOKEN", hosted.token)
            assert run(["notify", "test"]) == 0
            assert capsys.readouterr().out == f"{first.name}  accepted\n{second.name}  accepted\n"
            assert [alert["kind"] for alert in first.alerts + second.alerts] == ["test", "test"]
            second.status = 500
            assert run(["notify", "test"]) == 1
            printed = capsys.readouterr()
            assert f"{second.name}  status 500" in printed.out
            assert f"{second.name} did not accept the test" in printed.err


def test_notify_test_of_a_service_without_receivers_names_the_option(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Hosted(tmp_path / "data") as hosted, hosted.claim():
        monkeypatch.setenv("SVC_URL", hosted.control)
        monkeypatch.setenv("SVC_TOKEN", hosted.token)
        assert run(["notify", "test"]) == 1
        assert "svc serve --notify URL" in capsys.readouterr().err


def test_serve_refuses_an_invalid_receiver_before_it_starts() -> None:
    with pytest.raises(InvalidUsage, match="--notify requires a URL with a scheme"):
        serve(notify=["hook.example.com"])
