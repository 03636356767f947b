"""js applications on a real service are stored and sent as their difference from one template."""

import asyncio
import shutil
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from engine.manifest.load import load
from svc_tui.client import Client
from svc_tui.deploy import uploader
from tests.support.full_disk import on_small_disk
from tests.support.service import share_code
from tests.svc_tui.hosted import Hosted, RecordingReporter

pytestmark = pytest.mark.slow
MAX_SENT_BYTES = 400 << 10


def application(root: Path, name: str, text: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "svc.toml").write_text(
        f'[project]\nname = "{name}"\n\n[resource.web]\nlane = "js"\npublic = true\n'
    )
    (root / "index.js").write_text(f"export default {{ fetch: () => new Response('{text}') }};\n")
    return root


BACKGROUND = """
import { jobs } from '@svc/guest';
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/') await jobs.add('/job', {}, { delay: 1 });
    else console.log('begins', pathname);
    return new Response('added');
  },
  scheduled: ({ path }) => console.log('begins', path),
};
"""


def bundled(root: Path, cache: Path) -> uploader.Bundle:
    return asyncio.run(uploader.build(load(root), cache, RecordingReporter()))


def send(client: Client, bundle: uploader.Bundle) -> int:
    """Deploy a bundle; return the bytes that were sent before."""
    planned = uploader.plan(client, bundle)
    sent = uploader.upload(client, bundle, planned["missing"], RecordingReporter())
    options = {"commit": "", "message": "", "allow": False}
    uploader.deploy(client, bundle, planned["revision"], RecordingReporter(), **options)
    return sent


def answers(hosted: Hosted, name: str) -> str:
    # A service that starts without machine code answers 503 if it compiles for long.
    for _ in range(60):
        answer = httpx.get(hosted.public, headers={"host": f"web--{name}.apps.example"}, timeout=300)
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            break
    return answer.text


def test_applications_share_a_template(tmp_path: Path, cache: Path) -> None:
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        share_code(hosted.data, cache)
        first = bundled(application(tmp_path / "one", "one", "first"), cache)
        assert send(client, first) < 6 << 20
        second = bundled(application(tmp_path / "two", "two", "second"), cache)
        assert send(client, second) < MAX_SENT_BYTES
        assert send(client, bundled(application(tmp_path / "one", "one", "changed"), cache)) < MAX_SENT_BYTES
        assert (answers(hosted, "one"), answers(hosted, "two")) == ("changed", "second")
    # Without their memories, the components are put together again.
    shutil.rmtree(tmp_path / "data" / "cache")
    share_code(tmp_path / "data", cache)
    with Hosted(tmp_path / "data") as hosted:
        assert (answers(hosted, "one"), answers(hosted, "two")) == ("changed", "second")


def test_template_that_is_collected_during_a_deploy_is_sent_again(tmp_path: Path, cache: Path) -> None:
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        share_code(hosted.data, cache)
        bundle = bundled(application(tmp_path / "one", "one", "first"), cache)
        planned = uploader.plan(client, bundle)
        uploader.upload(client, bundle, planned["missing"], RecordingReporter())
        template = bundle.packed["web"].package.template
        assert template is not None
        (tmp_path / "data" / "blobs" / template.digest).unlink()
        options = {"commit": "", "message": "", "allow": False}
        uploader.deploy(client, bundle, planned["revision"], RecordingReporter(), **options)
        assert answers(hosted, "one") == "first"


def test_damaged_difference_is_sent_again(tmp_path: Path, cache: Path) -> None:
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        share_code(hosted.data, cache)
        send(client, bundled(application(tmp_path / "one", "one", "first"), cache))
        bundle = bundled(application(tmp_path / "one", "one", "second"), cache)
        uploader.upload(client, bundle, uploader.plan(client, bundle)["missing"], RecordingReporter())
        own = bundle.packed["web"].package.files["component.wasm"].stored[0]
        blob = tmp_path / "data" / "blobs" / own.digest
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes()[:-1])
        assert answers(hosted, "one") == "first"
        send(client, bundle)
        assert answers(hosted, "one") == "second"


def test_full_disk_while_a_component_is_put_together_leaves_the_live_version(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC_TEST_CACHE", str(cache))
    (tmp_path / "disk").mkdir()
    on_small_disk("tests.svc_tui.full_disk_components", tmp_path / "disk", "data", 96)


def test_schedule_and_job_wake_a_project_without_requests_and_a_follower_sees_them(
    tmp_path: Path, cache: Path
) -> None:
    root = application(tmp_path / "one", "one", "")
    (root / "index.js").write_text(BACKGROUND)
    with (root / "svc.toml").open("a") as manifest:
        manifest.write('schedules = { "/schedule" = "@yearly" }\n')
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        share_code(hosted.data, cache)
        send(client, bundled(root, cache))
        assert answers(hosted, "one") == "added"
        token = hosted.token
    # From here on, no request of a client loads the resource or opens the database of its jobs.
    wanted = {"begins /schedule", "begins /job"}
    with Hosted(tmp_path / "data") as hosted, Client(hosted.control, token) as client:
        result = client.call(
            "POST", "/v1/projects/one/schedules/run", {"resource": "web", "path": "/schedule"}
        )
        assert result["state"] == "succeeded"
        for record in client.lines("GET", "/v1/projects/one/logs", params={"follow": True}):
            wanted.discard(record.get("body", ""))
            if not wanted:
                break
