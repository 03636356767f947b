"""Jobs of resources on `svc serve`: with rows in one transaction, tries, commands, and a kill."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.jobs.runner import AT_ONCE
from tests.e2e.test_files import CARGO, COMPILED, GUESTS
from tests.support.service import Server, environ_of, logged, login, prepare, run
from tests.support.waiting import until

pytestmark = pytest.mark.slow
MANIFEST = """
[project]
name = "shop"

[resource.front]
lane = "js"
entry = "front.js"
public = true

[resource.worker]
lane = "js"
entry = "worker.js"
run_limit_secs = 60
"""
MIGRATION = "CREATE TABLE orders (id INTEGER PRIMARY KEY, mailed TEXT);"
FRONT = """
import { jobs, json, tables } from '@svc/guest';
export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (request.headers.has('x-svc-job')) return new Response(null, { status: 500 });
    try {
      if (pathname === '/order') {
        const id = Number(searchParams.get('id'));
        await tables.batch([
          tables.sql`insert into orders (id) values (${id})`,
          jobs.sql('/mail', { id }, { resource: 'worker' }),
        ]);
        return json({ id });
      }
      if (pathname === '/orders') return json(await tables.query`select id, mailed from orders`);
      const options = JSON.parse(searchParams.get('options') ?? '{}');
      if (searchParams.has('bytes')) {
        const body = new Uint8Array(Number(searchParams.get('bytes'))).fill(255);
        return json(await jobs.add(pathname, body, { resource: 'worker', ...options }));
      }
      if (pathname === '/remove') return json(await jobs.remove(options));
      return json(await jobs.add(pathname, { n: 1 }, { resource: 'worker', ...options }));
    } catch (error) {
      return json({ code: error.code, message: error.message }, { status: error.status ?? 400 });
    }
  },
};
"""
WORKER = """
import { tables } from '@svc/guest';
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const job = request.headers.get('x-svc-job');
    const attempt = request.headers.get('x-svc-job-try');
    console.log('begins', pathname, attempt);
    if (pathname === '/mail') {
      const { id } = await request.json();
      await tables.exec`update orders set mailed = ${job} where id = ${id}`;
    }
    if (pathname === '/big') {
      const body = await request.bytes();
      console.log('body', body.length, body[0], request.headers.get('content-type'));
    }
    if (pathname === '/soon' && attempt === '1') {
      return new Response(null, { status: 503, headers: { 'retry-after': '0' } });
    }
    if (pathname === '/gone') return new Response(null, { status: 410 });
    if (pathname === '/fail') throw new Error('no stock');
    if (pathname === '/slow' && attempt === '1') await new Promise((resolve) => setTimeout(resolve, 50000));
    return new Response(null, { status: 204 });
  },
};
"""


def listed(project: Path, environ: dict[str, str], *options: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(prepare(project, environ, "jobs", "list", "--json", *options))
    return document


def idle(project: Path, environ: dict[str, str]) -> bool:
    document = listed(project, environ)
    return document["waiting"] + document["running"] == 0


def test_jobs_run_on_a_service(tmp_path: Path, cache: Path) -> None:
    environ = environ_of(tmp_path / "home", cache)
    project = tmp_path / "shop"
    (project / "tables").mkdir(parents=True)
    (project / "svc.toml").write_text(MANIFEST)
    (project / "front.js").write_text(FRONT)
    (project / "worker.js").write_text(WORKER)
    (project / "tables" / "001_orders.sql").write_text(MIGRATION)
    server = Server(tmp_path / "data", environ, cache=cache)

    def ask(path: str, **params: Any) -> Any:
        if "options" in params:
            params["options"] = json.dumps(params["options"])
        headers = {"host": "front--shop.localhost", "x-svc-job": "forged"}
        return httpx.get(
            f"http://127.0.0.1:{server.port}{path}", params=params, headers=headers, timeout=60
        ).json()

    try:
        login(server, project, environ)
        prepare(project, environ, "deploy")
        assert listed(project, environ) == {"waiting": 0, "running": 0, "dead": 0, "jobs": []}

        for number in range(3):
            assert ask("/order", id=number) == {"id": number}
        assert "UNIQUE" in ask("/order", id=1)["message"]
        big = ask("/big", bytes=1 << 20)
        assert big.get("added"), big
        ask("/soon")
        until(lambda: idle(project, environ), 60)
        orders = ask("/orders")
        assert len(orders) == 3 and all(len(order["mailed"]) == 16 for order in orders)
        logged(project, environ, "begins /soon 2")  # Records are written in batches.
        log = logged(project, environ, "body 1048576 255 application/octet-stream")
        assert log.count("begins /mail 1") == 3
        assert "begins /soon 2" in log and "try 1 of 8 failed: status 503; it runs again at" in log

        assert ask("/big", bytes=(1 << 20) + 1)["code"] == "bad-request"
        assert "the delay soon" in ask("/later", options={"delay": "soon"})["message"]
        first = ask("/later", options={"delay": "1d", "key": "a"})
        assert ask("/later", options={"delay": 5, "key": "a"}) == {"id": first["id"], "added": False}
        assert ask("/remove", options={"key": "a"}) is True
        assert ask("/remove", options={"key": "a"}) is False

        ask("/gone")
        ask("/fail", options={"maxTries": 1})
        ask("/none", options={"resource": "other", "maxTries": 1})
        until(lambda: listed(project, environ)["dead"] == 3, 60)
        dead = {each["path"]: each for each in listed(project, environ, "--state", "dead")["jobs"]}
        assert dead["/gone"]["error"] == "status 410" and dead["/gone"]["tries"] == 1
        assert dead["/none"]["error"] == "shop has no resource other"
        logged(project, environ, "no stock", "--request", dead["/fail"]["request"])
        shown = run(project, environ, "jobs", "show", dead["/fail"]["id"]).stdout
        assert '{"n":1}' in shown and "svc logs --request" in shown
        assert run(project, environ, "jobs", "show", "00").returncode == 1
        assert run(project, environ, "jobs", "retry").returncode == 2
        assert run(project, environ, "jobs", "remove", "--dead", "--waiting").returncode == 2
        retried = run(project, environ, "jobs", "retry", "--dead")
        assert retried.stdout == "3 jobs run again\n"
        until(lambda: listed(project, environ)["dead"] == 3, 60)
        assert run(project, environ, "jobs", "remove", "--dead").stdout == "3 jobs removed\n"
        ask("/later", options={"delay": "1d"})
        assert run(project, environ, "jobs", "remove", "--waiting").stdout == "1 job removed\n"

        ask("/slow")
        logged(project, environ, "begins /slow 1")
        ask("/later", options={"delay": 2})
        server.process.send_signal(signal.SIGKILL)
        assert server.stop() == -signal.SIGKILL
        server = server.restarted(environ)
        until(lambda: idle(project, environ), 60)
        log = logged(project, environ, "begins /later 1")
        assert (
            log.count("begins /slow") == 2 and "begins /slow 2" in log and log.count("begins /later 1") == 1
        )
    finally:
        server.stop()


MANY = 200
FANNED = """
import { json, tables } from '@svc/guest';
export default {
  async fetch(request) {
    if (request.method === 'POST') await tables.exec(await request.text());
    return json(await tables.query`select job, try, label from runs order by id`);
  },
};
"""
RUNS = """
import { tables } from '@svc/guest';
const label = 'first';
export default {
  async fetch(request) {
    const [id, attempt] = ['x-svc-job', 'x-svc-job-try'].map((name) => request.headers.get(name));
    await tables.exec`insert into runs (job, try, label) values (${id}, ${Number(attempt)}, ${label})`;
    return new Response(null, { status: 204 });
  },
};
"""
ADD = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
INSERT INTO _svc_jobs_add (resource, path) SELECT 'worker', '/run' FROM n
"""


def test_many_jobs_all_run_over_a_deploy_and_a_kill(tmp_path: Path, cache: Path) -> None:
    environ = environ_of(tmp_path / "home", cache)
    project = tmp_path / "shop"
    (project / "tables").mkdir(parents=True)
    (project / "svc.toml").write_text(MANIFEST)
    (project / "front.js").write_text(FANNED)
    (project / "worker.js").write_text(RUNS)
    runs = "CREATE TABLE runs (id INTEGER PRIMARY KEY, job TEXT, try INTEGER, label TEXT);"
    (project / "tables" / "001_runs.sql").write_text(runs)
    server = Server(tmp_path / "data", environ, "--workers", "2", cache=cache)

    def ask(sql: str = "") -> Any:
        headers = {"host": "front--shop.localhost"}
        method, url = "POST" if sql else "GET", f"http://127.0.0.1:{server.port}/"
        return httpx.request(method, url, content=sql, headers=headers, timeout=60).json()

    try:
        login(server, project, environ)
        prepare(project, environ, "deploy")
        ask(ADD.format(MANY))
        (project / "worker.js").write_text(RUNS.replace("first", "second"))
        prepare(project, environ, "deploy")
        ask(ADD.format(MANY))
        until(lambda: any(each["label"] == "second" for each in ask()), 60)
        server.process.send_signal(signal.SIGKILL)
        assert server.stop() == -signal.SIGKILL
        server = server.restarted(environ, "--workers", "2")
        until(lambda: idle(project, environ), 120)
        found = ask()
        again = [each["job"] for each in found if each["try"] > 1]
        assert len({each["job"] for each in found}) == 2 * MANY
        assert len(found) - 2 * MANY <= len(again) <= AT_ONCE
    finally:
        server.stop()


COMPILED_MIGRATION = """
CREATE TABLE orders (id TEXT PRIMARY KEY, lane TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (id INTEGER PRIMARY KEY, lane TEXT, path TEXT, job TEXT, try TEXT, body BLOB);
"""
LEFT = """
import { stream, tables } from '@svc/guest';
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const left = async (path) => {
  await sleep(20);
  await tables.exec`insert into runs (lane, path, body) values ('js', ${path}, x'')`;
};
async function* dots(path) {
  try {
    for (;;) {
      yield new TextEncoder().encode('.');
      await sleep(10);
    }
  } finally {
    await left(path);
  }
}
const handlers = {
  '/canceled': (path) => new Response(new ReadableStream({
    pull: async (controller) => controller.enqueue(new TextEncoder().encode('.')),
    cancel: () => left(path),
  })),
  '/finally': (path) => new Response(ReadableStream.from(dots(path))),
  '/signal': (path, { signal }) => new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('.'));
      signal.addEventListener('abort', () => left(path));
    },
  })),
  '/written': (path) => stream(async (write, { signal }) => {
    while (!signal.aborted) await write('.').then(() => sleep(10)).catch(() => {});
    await left(path);
  }),
  '/waits': (path, { signal }, context) => {
    context.waitUntil(new Promise((done) => signal.addEventListener('abort', done)).then(() => left(path)));
    return new Response(ReadableStream.from(dots('/waits too')));
  },
};
export default {
  fetch: (request, env, context) => {
    const { pathname } = new URL(request.url);
    return handlers[pathname](pathname, request, context);
  },
};
"""


@pytest.mark.slow(seconds=40)
def test_jobs_of_go_and_rust_and_rows_after_disconnects(
    tmp_path: Path, cache: Path, rust_toolchain: None
) -> None:
    here, environ = Path(__file__).parent, environ_of(tmp_path / "home", cache)
    project = tmp_path / "shop"
    for folder in ("go", "rust/src", "tables"):
        (project / folder).mkdir(parents=True)
    manifest = f'{COMPILED}\n[resource.js]\nlane = "js"\nentry = "left.js"\npublic = true\n'
    (project / "svc.toml").write_text(manifest)
    (project / "left.js").write_text(LEFT)
    (project / "tables" / "001_orders.sql").write_text(COMPILED_MIGRATION)
    (project / "go" / "go.mod").write_text("module shop\n\ngo 1.24\n")
    shutil.copy(here / "jobs.go", project / "go" / "main.go")
    shutil.copytree(GUESTS, project / "rust" / "svc-guest", ignore=shutil.ignore_patterns("target"))
    (project / "rust" / "Cargo.toml").write_text(CARGO)
    shutil.copy(here / "jobs.rs", project / "rust" / "src" / "lib.rs")
    server = Server(tmp_path / "data", environ, cache=cache)

    def ask(lane: str, path: str) -> httpx.Response:
        headers = {"host": f"{lane}--shop.localhost", "x-svc-job": "forged"}
        return httpx.post(f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=60)

    def runs(lane: str, path: str) -> list[dict[str, Any]]:
        sql = "SELECT job, try, hex(body) AS body FROM runs WHERE lane = $1 AND path = $2 ORDER BY id"
        shown = prepare(project, environ, "tables", "--service", "query", sql, lane, path, "--json")
        return [json.loads(line) for line in shown.splitlines()]

    try:
        login(server, project, environ)
        prepare(project, environ, "deploy")
        for lane in ("go", "rust"):
            assert ask(lane, f"/order?{lane}1").json() is True
            refused = ask(lane, f"/order?{lane}1")
            assert refused.status_code == 400 and "UNIQUE" in refused.text
            again, gone = (ask(lane, path).json() for path in ("/again", "/gone"))
            assert again["added"] and gone["added"]
            later = ask(lane, "/later?k").json()
            assert ask(lane, "/later?k").json() == {"id": later["id"], "added": False}
            assert ask(lane, "/remove?k").json() is True and ask(lane, "/remove?k").json() is False
            bad = ask(lane, f"/later?{'k' * 256}")
            assert bad.status_code == 400 and "key is not a text of 1 to 255 characters" in bad.text
            until(lambda: idle(project, environ), 60)
            (order,) = runs(lane, "/order")
            assert bytes.fromhex(order["body"]).decode() == '{"text":"ü"}' and len(order["job"]) == 16
            tries = [tuple(each.values()) for each in runs(lane, "/again")]
            assert tries == [(again["id"], "1", "00FF"), (again["id"], "2", "00FF")]
            (dead,) = listed(project, environ, "--state", "dead")["jobs"]
            assert (dead["id"], dead["resource"], dead["error"]) == (gone["id"], lane, "status 410")
            assert run(project, environ, "jobs", "retry", gone["id"]).returncode == 0
            until(lambda: idle(project, environ), 60)
            assert [each["try"] for each in runs(lane, "/gone")] == ["1", "1"]
            assert run(project, environ, "jobs", "remove", "--dead").stdout == "1 job removed\n"

        js = ("/canceled", "/finally", "/signal", "/written", "/waits", "/waits too")
        left = [("go", "/forever"), ("rust", "/forever"), *(("js", path) for path in js)]
        for lane, path in left[:-1]:
            url, headers = f"http://127.0.0.1:{server.port}{path}", {"host": f"{lane}--shop.localhost"}
            with httpx.stream("GET", url, headers=headers, timeout=60) as response:
                assert next(response.iter_raw()).startswith(b".")
        until(lambda: all(len(runs(*each)) == 1 for each in left), 60)
    finally:
        server.stop()
