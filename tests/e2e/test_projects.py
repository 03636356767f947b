"""`svc projects` on `svc serve`: what a removal deletes, and that it is completed after a kill."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_jobs import FRONT, MANIFEST, MIGRATION, WORKER
from tests.support.service import Server, environ_of, login, prepare, run, run_process, static_project
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def shop(root: Path) -> Path:
    """Create a project with jobs, tables, a secret and a schedule."""
    (root / "tables").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    (root / "tables" / "0001_orders.sql").write_text(MIGRATION)
    (root / "front.js").write_text(FRONT)
    (root / "worker.js").write_text(WORKER)
    return root


def ask(server: Server, path: str) -> httpx.Response:
    return httpx.get(
        f"http://127.0.0.1:{server.port}{path}", headers={"host": "front--shop.localhost"}, timeout=60
    )


def document(project: Path, environ: dict[str, str], *arguments: str) -> Any:
    return json.loads(prepare(project, environ, *arguments, "--json"))


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.nightly), ("--workers", "2")])
def test_a_removed_project_with_waiting_jobs_begins_empty_when_deployed_again(
    tmp_path: Path, cache: Path, options: tuple[str, ...]
) -> None:
    environ = environ_of(tmp_path / "home", cache)
    project, other = shop(tmp_path / "shop"), static_project(tmp_path / "other", "other")
    server = Server(tmp_path / "data", environ, *options, cache=cache)
    try:
        login(server, project, environ)
        for root in (project, other):
            prepare(root, environ, "deploy")
        prepare(project, environ, "secret", "set", "TOKEN", text="value")
        assert ask(server, "/order?id=1").status_code == 200
        assert ask(server, '/slow?options={"delay":0}').status_code == 200
        assert ask(server, '/mail?options={"delay":3600}').status_code == 200
        refused = run(project, environ, "projects", "remove", "shop")
        assert refused.returncode == 2 and "1 deployment" in refused.stderr and "TOKEN" in refused.stderr
        assert "Pass --yes." in refused.stderr and ask(server, "/orders").status_code == 200
        asking = [threading.Thread(target=ask, args=(server, "/orders")) for _ in range(8)]
        for each in asking:
            each.start()
        removed = run_process(project, environ, "projects", "remove", "shop", "--yes")
        assert removed.returncode == 0 and removed.stdout == "removed shop\n", removed.stderr
        for each in asking:
            each.join()
        assert ask(server, "/orders").json()["code"] == "unknown-host"
        assert not (tmp_path / "data" / "projects" / "shop").exists()
        assert document(project, environ, "projects", "list") == {"projects": ["other"]}
        again = run(project, environ, "projects", "remove", "shop", "--yes")
        assert again.returncode == 1 and "has no project shop" in again.stderr
        assert server.get(project="other").text == "one"
        prepare(project, environ, "deploy")
        assert ask(server, "/orders").json() == []
        assert document(project, environ, "jobs", "list")["waiting"] == 0
        assert document(project, environ, "secret", "list") == {"secrets": []}
        assert len(document(project, environ, "deployments")["deployments"]) == 1
        assert "/slow" not in run(project, environ, "logs").stdout
        server.stop()
        server = server.restarted(environ, *options)
        assert ask(server, "/orders").json() == [] and server.get(project="other").text == "one"
    finally:
        server.stop()
    assert not (tmp_path / "data" / "removed").exists()


SLOW = """
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/slow') await new Promise((resolve) => setTimeout(resolve, 20000));
    if (pathname === '/loop') for (const end = Date.now() + 20000; Date.now() < end; );
    return new Response('answer');
  },
};
"""


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.nightly), ("--workers", "2")])
def test_requests_in_progress_get_a_response_when_their_project_is_removed(
    tmp_path: Path, cache: Path, options: tuple[str, ...]
) -> None:
    environ, root = environ_of(tmp_path / "home", cache), tmp_path / "shop"
    root.mkdir()
    (root / "svc.toml").write_text(MANIFEST.partition("[resource.worker]")[0])
    (root / "front.js").write_text(SLOW)
    answers: list[httpx.Response] = []
    removed = threading.Event()
    server = Server(tmp_path / "data", environ, *options, cache=cache)

    def ask_slowly(path: str) -> None:
        answers.append(ask(server, path))

    def ask_often() -> None:
        while not removed.is_set():
            answers.append(ask(server, "/"))

    try:
        login(server, root, environ)
        prepare(root, environ, "deploy")
        asking = [threading.Thread(target=ask_slowly, args=(path,)) for path in ("/slow", "/loop") * 4]
        asking += [threading.Thread(target=ask_often) for _ in range(4)]
        for each in asking:
            each.start()
        until(lambda: any(each.text == "answer" for each in answers))
        done = run_process(root, environ, "projects", "remove", "shop", "--yes")
        removed.set()
        assert done.returncode == 0, done.stderr
        for each in asking:
            each.join()
    finally:
        server.stop()
    assert {(each.status_code, each.json()["code"]) for each in answers if each.text != "answer"} == {
        (404, "unknown-host")
    }
    assert len([each for each in answers if each.text != "answer"]) >= 8
