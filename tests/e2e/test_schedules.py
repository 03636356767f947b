"""Schedules of a js resource on `svc serve`: a run at its time, commands, a kill during a run, and roles."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.service import Server, environ_of, logged, login, prepare, run, svc
from tests.support.waiting import until

pytestmark = pytest.mark.slow
MANIFEST = """
[project]
name = "shop"

[resource.worker]
lane = "js"
entry = "worker.js"
public = true
schedules = { "/poll" = "every 1m", "/fail" = "@yearly", "/slow" = "@yearly" }
"""
WORKER = """
export default {
  fetch(request) {
    return new Response([...request.headers.keys()].filter((name) => name.startsWith('x-svc-')).join());
  },
  async scheduled(controller, env, context) {
    console.log('begins', controller.path, controller.cron, controller.scheduledTime % 60000);
    if (controller.path === '/fail') throw new Error('no stock');
    if (controller.path === '/slow') await new Promise((resolve) => setTimeout(resolve, 25000));
  },
};
"""


def listed(project: Path, environ: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the schedules by path."""
    document = json.loads(prepare(project, environ, "schedule", "list", "--json"))
    assert document["active"]
    return {each["path"]: each for each in document["schedules"]}


def test_schedules_run_on_a_service_and_no_run_is_repeated_after_a_kill(tmp_path: Path, cache: Path) -> None:
    environ = environ_of(tmp_path / "home", cache)
    project = tmp_path / "shop"
    project.mkdir()
    (project / "svc.toml").write_text(MANIFEST)
    (project / "worker.js").write_text(WORKER)
    server = Server(tmp_path / "data", environ, cache=cache)
    try:
        login(server, project, environ)
        prepare(project, environ, "deploy")

        forged = {"host": "worker--shop.localhost", "x-svc-schedule": "/poll", "x-svc-run-id": "1"}
        answer = httpx.post(f"http://127.0.0.1:{server.port}/poll", headers=forged, timeout=60)
        assert answer.text == "x-svc-client"
        inside = httpx.post(
            f"http://127.0.0.1:{server.port}/poll", headers={"host": "worker--shop.svc.internal"}, timeout=60
        )
        assert inside.status_code == 404

        failed = run(project, environ, "schedule", "run", "/fail")
        assert failed.returncode == 1 and failed.stdout.startswith("failed 500 in ")
        request = failed.stdout.split()[-1]
        log = logged(project, environ, "POST", "--request", request)
        assert "schedule /fail of " in log and "no stock" in log
        assert run(project, environ, "schedule", "run", "/none").returncode == 2
        paused = run(project, environ, "schedule", "pause", "worker:/fail")
        assert paused.returncode == 0 and "paused" in paused.stdout
        assert listed(project, environ)["/fail"]["next"] is None

        slow = subprocess.Popen([*svc(), "schedule", "run", "/slow"], cwd=project, env=environ)
        logged(project, environ, "begins /slow")
        busy = run(project, environ, "schedule", "run", "/slow")
        assert busy.returncode == 5 and "schedule /slow of worker is running" in busy.stderr
        server.process.send_signal(signal.SIGKILL)
        assert server.stop() == -signal.SIGKILL
        assert slow.wait(60) != 0
        server = server.restarted(environ)
        until(lambda: listed(project, environ)["/slow"]["last"] is not None, 60)
        schedules = listed(project, environ)
        assert schedules["/slow"]["last"]["state"] == "interrupted" and schedules["/slow"]["running"] == 0
        assert schedules["/fail"]["paused"] and schedules["/fail"]["last"]["request"] == request
        assert logged(project, environ, "begins /slow").count("begins /slow") == 1

        last = until(lambda: listed(project, environ)["/poll"]["last"], 90, pause=0.15)
        assert (last["state"], last["status"]) == ("succeeded", 204)
        logged(project, environ, "begins /poll every 1m 0 ", "--request", last["request"])
    finally:
        server.stop()
