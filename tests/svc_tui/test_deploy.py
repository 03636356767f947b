"""Deploys with the real client against the real service, over sockets."""

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from doors.tables.migrations.drift import write
from doors.tables.sqlite.owner import open_for_writing
from engine.control.app import internal_error
from engine.manifest.load import load
from svc_tui.client import ApiError, Client, Unreachable
from svc_tui.deploy import uploader
from tests.svc_tui.hosted import Hosted, RecordingReporter, deploy, static_shop


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data ü") as hosted:
        yield hosted


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return static_shop(tmp_path / "shop ü")


def test_deploy_returns_addresses_that_serve_the_project(hosted: Hosted, project: Path) -> None:
    reporter = RecordingReporter()
    with hosted.claim() as client:
        deployment = deploy(client, project, reporter, message="hello", commit="4f2a")
        assert [(each["resource"], each["url"]) for each in deployment["addresses"]] == [
            ("web", "http://web--shop.apps.example:8080")
        ]
        assert reporter.steps[-1] == "activate" and set(reporter.steps) == {"policy", "activate"}
        assert hosted.get().text == "one"
        assert client.call("GET", "/v1/projects") == {"projects": ["shop"]}
        listed = client.call("GET", "/v1/projects/shop/deployments")
        assert [(each["by"], each["message"], each["commit"]) for each in listed["deployments"]] == [
            ("ann", "hello", "4f2a")
        ]


def test_front_of_a_project_answers_at_its_address_in_every_process(tmp_path: Path, project: Path) -> None:
    blog = tmp_path / "blog"
    for name in ("web", "admin"):
        (blog / name).mkdir(parents=True)
        (blog / name / "index.html").write_text(name)
    tables = "".join(
        f'[resource.{name}]\nlane = "static"\npublic = true\noutput = "{name}"\n' for name in ("web", "admin")
    )
    (blog / "svc.toml").write_text(f'[project]\nname = "blog"\n{tables}')
    with Hosted(tmp_path / "data", workers=2) as hosted, hosted.claim() as client:
        assert deploy(client, project)["address"] == "http://shop.apps.example:8080"
        first = deploy(client, blog)
        assert first["address"] is None
        assert hosted.get(host="blog.apps.example").status_code == 404
        (blog / "svc.toml").write_text(f'[project]\nname = "blog"\nfront = "admin"\n{tables}')
        second = deploy(client, blog)
        (change,) = second["plan"]["changes"]
        assert (change["resource"], change["field"], change["after"]) == ("", "front", "admin")
        assert second["address"] == "http://blog.apps.example:8080"
        for _ in range(8):  # Connections go to either process.
            assert hosted.get(host="blog.apps.example").text == "admin"
            assert hosted.get(host="shop.apps.example").text == "one"
            assert hosted.get(host="web--blog.apps.example").text == "web"
        assert client.call("GET", "/v1/projects/blog/state")["address"] == "http://blog.apps.example:8080/"
        assert client.call("GET", "/v1/projects/blog/manifest")["front"] == "admin"
        assert client.call("GET", "/v1/projects/blog/deployments")["address"] == second["address"]
        id_ = first["deployment"]["id"]
        plan = client.call("GET", f"/v1/projects/blog/deployments/{id_}/rollback")
        assert [(each["field"], each["before"]) for each in plan["changes"]] == [("front", "admin")]
        payload = {"deployment": id_, "revision": plan["revision"]}
        assert client.call("POST", "/v1/projects/blog/rollback", payload)["address"] is None
        assert hosted.get(host="blog.apps.example").status_code == 404


def test_second_deploy_of_unchanged_files_uploads_nothing(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as client:
        assert deploy(client, project)["sent"] > 0
        reporter = RecordingReporter()
        second = deploy(client, project, reporter)
        assert (reporter.unchanged, second["sent"], second["plan"]["changes"]) == ([True], 0, [])


def test_deploy_runs_a_build_command_that_may_read_files_that_svc_does_not_know(
    hosted: Hosted, project: Path
) -> None:
    (project / ".gitignore").write_text(".env.local\n")
    with (project / "svc.toml").open("a") as manifest:
        manifest.write('build = "cat .env.local ../shared > site/index.html"\n')
    (project.parent / "shared").write_text("s")
    with hosted.claim() as client:
        for text in ("one", "two"):
            (project / ".env.local").write_text(text)
            deploy(client, project)
            assert hosted.get().text == f"{text}s"
        (project.parent / "shared").write_text("t")
        deploy(client, project)
        assert hosted.get().text == "twot"


def test_manifest_that_is_saved_during_the_build_is_not_deployed(tmp_path: Path) -> None:
    project = static_shop(tmp_path / "shop")
    manifest = project / "svc.toml"
    text = manifest.read_text() + 'build = "echo spa = true >> svc.toml"\n'
    manifest.write_text(text)
    bundle = asyncio.run(uploader.build(load(project), tmp_path / "cache", RecordingReporter()))
    assert bundle.manifest == text != manifest.read_text()


def test_commit_is_known_beside_files_with_names_that_are_not_utf_8(project: Path) -> None:
    def git(*words: str) -> None:
        user = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(["git", "-C", str(project), *user, *words], check=True, capture_output=True)

    git("init")
    git("config", "core.quotepath", "false")
    git("add", ".")
    git("commit", "-m", "first")
    commit = uploader.commit_of(project)
    assert len(commit) == 12
    (project / os.fsdecode(b"caf\xe9.txt")).touch()
    assert uploader.commit_of(project) == f"{commit}+"


def test_plan_names_tables_that_no_migration_makes(hosted: Hosted, project: Path) -> None:
    def warnings() -> list[dict[str, str]]:
        bundle = asyncio.run(uploader.build(load(project), project.parent / "cache", RecordingReporter()))
        found: list[dict[str, str]] = uploader.plan(client, bundle)["warnings"]
        return found

    with hosted.claim() as client:
        assert warnings() == []
        with open_for_writing(project / ".svc") as connection:
            connection.execute("create table bookings (id integer primary key, at text)")
        (warning,) = warnings()
        assert warning["message"].endswith(": table bookings") and "svc tables migration" in warning["hint"]
        write(project, project / ".svc", "bookings")
        assert warnings() == []
        (project / "tables" / "0002-more.sql").write_text("create tabel x")
        assert "tables/0002-more.sql:1: " in warnings()[0]["message"]


def test_deploy_applies_migrations_before_activation(hosted: Hosted, project: Path) -> None:
    (project / "tables").mkdir()
    (project / "tables" / "1.sql").write_text("create table note (id integer primary key, text text);")
    with hosted.claim() as client:
        deploy(client, project)
        (project / "tables" / "2.sql").write_text("create table broken (;")
        (project / "site" / "index.html").write_text("two")
        with pytest.raises(ApiError, match=r"2\.sql"):
            deploy(client, project)
    assert hosted.get().text == "one"


def test_plan_lists_new_migrations(hosted: Hosted, project: Path) -> None:
    (project / "tables").mkdir()
    first = project / "tables" / "1.sql"
    first.write_bytes(b"\xef\xbb\xbfcreate table note (id integer primary key, text text);\r\n")
    with hosted.claim() as client:
        assert deploy(client, project)["plan"]["migrations"] == ["tables/1.sql"]
        assert deploy(client, project)["plan"]["migrations"] == []
        (project / "tables" / "2.sql").write_text("create table more (id integer primary key);")
        bundle = asyncio.run(uploader.build(load(project), project.parent / "cache", RecordingReporter()))
        assert uploader.plan(client, bundle)["migrations"] == ["tables/2.sql"]
        first.write_text("create table other (id integer primary key);")
        with pytest.raises(ApiError, match=r"1\.sql was edited"):
            deploy(client, project)


def test_tampered_upload_is_rejected(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as client, pytest.raises(ApiError) as exc_info:
        path = f"/v1/projects/shop/blobs/{'0' * 64}"
        client.call("PUT", path, content=[b"tampered"], params={"size": 8, "offset": 0})
    assert exc_info.value.code == "digest-mismatch"


def test_upload_that_was_received_but_not_completed_is_completed(hosted: Hosted, project: Path) -> None:
    """A service that is killed between the last byte and the commit of an upload leaves it in this state."""
    content = b"<p>received</p>" * 100
    (project / "site" / "index.html").write_bytes(content)
    leftover = hosted.data / "uploads" / f"{sha256(content).hexdigest()}.shop"
    leftover.write_bytes(content)
    with hosted.claim() as client:
        deploy(client, project)
    assert hosted.get().content == content
    assert not leftover.exists()


def test_interrupted_upload_resumes_at_its_offset(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as client:
        bundle = asyncio.run(uploader.build(load(project), project.parent / "cache", RecordingReporter()))
        planned = uploader.plan(client, bundle)
        digest = max(planned["missing"], key=lambda each: uploader._size(bundle.contents()[each]))
        content = b"".join(uploader._chunks(bundle.contents()[digest], 0))
        path = f"/v1/projects/shop/blobs/{digest}"
        params = {"size": len(content), "offset": 0}
        assert client.call("PUT", path, content=[content[:2]], params=params) == {"received": 2}
        assert uploader.upload(client, bundle, planned["missing"], RecordingReporter()) > 0
        assert uploader.plan(client, bundle)["missing"] == []


def test_secrets_can_be_set_listed_and_removed_over_the_api(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as client:
        path = "/v1/projects/shop/secrets"
        assert client.call("PUT", f"{path}/KEY", {"value": "ü"}) == {"secrets": ["KEY"]}
        assert client.call("GET", path) == {"secrets": ["KEY"]}
        assert client.call("DELETE", f"{path}/KEY") == {"secrets": []}
        with pytest.raises(ApiError) as exc_info:
            client.call("DELETE", f"{path}/KEY")
        assert exc_info.value.code == "not-found"


def test_deploy_without_a_session_or_as_viewer_fails(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as owner, Client(hosted.control, "wrong") as stranger:
        with pytest.raises(ApiError) as exc_info:
            deploy(stranger, project)
        assert exc_info.value.code == "unauthenticated"
        payload = {"name": "ci", "role": "viewer", "projects": ["*"]}
        with Client(hosted.control, owner.call("POST", "/v1/tokens", payload)["token"]) as viewer:
            with pytest.raises(ApiError) as exc_info:
                deploy(viewer, project)
            assert exc_info.value.code == "forbidden"


def test_deployment_survives_a_restart(tmp_path: Path, project: Path) -> None:
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, project)
    shutil.rmtree(tmp_path / "data" / "unpacked")
    hosted = Hosted(tmp_path / "data")
    try:
        assert hosted.get().text == "one" and hosted.output == []
    finally:
        hosted.stop()


def test_slow_manifest_does_not_block_other_requests(hosted: Hosted) -> None:
    keys = "".join(f"key{number} = 1\n" for number in range(20_000))
    body = {"manifest": f'[project]\nname = "shop"\n[resource.web]\nlane = "js"\n{keys}', "resources": {}}
    with hosted.claim() as client, ThreadPoolExecutor(1) as other:
        planning = other.submit(client.call, "POST", "/v1/projects/shop/plan", body)
        answered = 0
        while not planning.done():
            answered += httpx.get(f"{hosted.control}/v1/health", timeout=60).status_code == 200
        with pytest.raises(ApiError, match="mistakes"):
            planning.result()
    assert answered > 3  # reading it takes a second, during which other requests must be served


def test_service_errors_are_written_to_its_log(hosted: Hosted) -> None:
    hosted.output.clear()
    assert internal_error(ZeroDivisionError("nothing is that small")).code == "internal"
    assert len(hosted.output) == 1 and "nothing is that small" in hosted.output[0]
    full = internal_error(OSError(errno.ENOSPC, "No space left on device", "/data/some/file"))
    assert full.text == "the service's disk is full\nFree space on the service's disk, then retry."
    assert full.code == "storage-full" and "/data/some/file" in hosted.output[1]


def test_disk_error_is_reported_without_paths_of_the_service(hosted: Hosted, project: Path) -> None:
    other = hosted.data / "projects" / "other"
    with hosted.claim() as client:
        deploy(client, project)
        (hosted.data / "unpacked").rename(hosted.data / "away")
        (hosted.data / "unpacked").write_text("in the way")
        (project / "site" / "index.html").write_text("two")
        for name in ("usage.db", "timeline.db"):
            (other / name).mkdir(parents=True)
        (other / "tables").write_text("in the way")
        hosted.output.clear()
        asks: list[Callable[[], object]] = [
            lambda: deploy(client, project),
            lambda: client.call("GET", "/v1/projects/other/usage"),
            lambda: client.call("GET", "/v1/projects/other/logs/window"),
            lambda: client.call("POST", "/v1/projects/other/sql", {"sql": "select 1", "write": True}),
        ]
        for ask in asks:
            with pytest.raises(ApiError) as exc_info:
                ask()
            assert exc_info.value.message and str(hosted.data) not in exc_info.value.text
        assert len(hosted.output) == len(asks)
        assert all(str(hosted.data) in output for output in hosted.output)


def test_client_disconnect_is_not_logged_as_an_error(hosted: Hosted, project: Path) -> None:
    with hosted.claim() as client:
        deploy(client, project)
        hosted.output.clear()
        headers = {"authorization": f"Bearer {hosted.token}"}
        url = f"{hosted.control}/v1/projects/shop/logs?follow=true"
        hosted.get()
        for _ in range(5):
            with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
                next(answer.iter_lines())
        client.call("GET", "/v1/projects")
    hosted.stop()
    assert hosted.output == []


def test_client_of_the_address_of_applications_names_the_other(hosted: Hosted) -> None:
    with (
        Client(hosted.public, "") as client,
        pytest.raises(Unreachable, match="an address of applications") as info,
    ):
        client.call("GET", "/v1/whoami")
    assert "control API" in info.value.hint
