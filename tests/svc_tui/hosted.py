"""A service as run by `svc serve`, on a thread of the test, and deploys as by `svc deploy`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from engine.alerts.alerts import Target
from engine.certificates.settings import AcmeSettings
from engine.http.sockets import bind, bind_reuseport
from engine.http.tls import Certificate
from engine.manifest.egress import Collector
from engine.manifest.load import load
from svc_tui.background_loop import BackgroundLoop
from svc_tui.client import Client
from svc_tui.deploy import uploader
from svc_tui.deploy.format import DeployProgress
from svc_tui.serve.runtime import ServiceSettings
from svc_tui.serve.server import run_service
from tests.engine.control.service import quick

MANIFEST = '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
PASSWORD = "correct horse battery"


def static_shop(root: Path) -> Path:
    """Make the project of `MANIFEST` in a new folder, and return the folder."""
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    (root / "site" / "index.html").write_text("one")
    return root


class RecordingReporter:
    """A reporter that stores its messages."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.unchanged: list[bool] = []

    def __call__(self, event: DeployProgress) -> None:
        if event.step == "build" and not event.transient:
            self.unchanged.append(event.text.endswith("unchanged"))
        elif event.step in ("policy", "activate"):
            self.steps.append(event.step)


class Hosted:
    """A service that runs on a thread: its control API, its public address, and its messages."""

    def __init__(
        self,
        data: Path,
        certificate: Certificate | None = None,
        workers: int = 1,
        otlp: Collector | None = None,
        notify: Sequence[Target] = (),
        acme: AcmeSettings | None = None,
        http_port: int = 0,
        region: str = "",
    ) -> None:
        self.data = data
        self.output: list[str] = []
        self.token = ""
        public = bind_reuseport("127.0.0.1", 0, workers) if workers > 1 else [bind("127.0.0.1", 0)]
        control = bind("127.0.0.1", 0)
        scheme = "https" if certificate or acme else "http"
        self.plain = bind("127.0.0.1", http_port) if acme else []
        self.public = f"{scheme}://127.0.0.1:{public[0][0].getsockname()[1]}"
        self.control = f"{scheme}://127.0.0.1:{control[0].getsockname()[1]}"
        settings = ServiceSettings(
            data=data,
            public=public,
            control=control,
            domain="apps.example",
            origin=f"{scheme}://{{}}:8080",
            certificate=certificate,
            acme=acme,
            plain=self.plain,
            grace=1.0,
            log=lambda level, text: self.output.append(text),
            passwords=quick(),
            otlp=otlp,
            notify=notify,
            region=region,
        )
        self._thread = BackgroundLoop(lambda stop: run_service(settings, stop), "service")
        self._thread.ready.result(60)

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._thread.stop()
        self._thread.finished.result()

    def get(self, path: str = "/", host: str = "web--shop.apps.example") -> httpx.Response:
        return httpx.get(f"{self.public}{path}", headers={"host": host}, timeout=60)

    def claim(self) -> Client:
        """Become the owner, and return a client with a session."""
        code = self.output[0].rpartition(" ")[2]
        with Client(self.control, "") as client:
            payload = {"code": code, "user": "ann", "password": PASSWORD}
            self.token = client.call("POST", "/v1/claim", payload)["token"]
        return Client(self.control, self.token)

    def package(self, kind: str) -> str:
        """Return the name of the one package of this kind that was uploaded."""
        mark = f'"kind":"{kind}"'.encode()
        files = (path for path in (self.data / "blobs").rglob("*") if path.is_file())
        (found,) = (path.name for path in files if mark in path.read_bytes())
        return found


def deploy(
    client: Client, root: Path, reporter: RecordingReporter | None = None, **fields: Any
) -> dict[str, Any]:
    """Deploy as `svc deploy` does; return the live deployment, with the missing and uploaded blobs."""
    reporter = reporter or RecordingReporter()
    bundle = asyncio.run(uploader.build(load(root), root.parent / "cache", reporter))
    planned = uploader.plan(client, bundle)
    sent = uploader.upload(client, bundle, planned["missing"], reporter)
    options = {"commit": "", "message": "", "allow": False, "discard": False} | fields
    revision = options.pop("revision", planned["revision"])
    return uploader.deploy(client, bundle, revision, reporter, **options) | {"sent": sent, "plan": planned}
