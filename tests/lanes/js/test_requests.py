"""Requests to js programs in dev and deploy mode: one program with a route per test."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.js.npm import node_modules
from tests.lanes.js.sources import MODES, Sources, ask
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
TYPED = """\
import { fail } from './deep';
interface Env { SVC_PROJECT?: string }
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    if (request.url.endsWith('/boom')) fail(7);
    return new Response('typed' satisfies string);
  },
};
"""
DEEP = """\
// one
export function fail(n: number): never {
  throw new RangeError(`no ${n}`);
}
"""
PACKAGES = """\
import { Hono } from 'hono';
import { z } from 'zod';
import { nanoid } from 'nanoid';
const app = new Hono();
const schema = z.object({ n: z.coerce.number().int() });
app.get('/packages/:n', (c) => c.json({ ...schema.parse(c.req.param()), id: nanoid().length }));
export default app;
"""
INDEX = """\
import typed from './typed';
import packages from './packages';
const early = Object.keys(process.env).length;
const a = Math.random(), b = crypto.randomUUID(), c = crypto.getRandomValues(new Uint8Array(4));
const loaded = new Date().getUTCFullYear();
const routes = {
  typed: typed.fetch,
  packages: packages.fetch,
  missing: (r) => [() => WebSocket, () => Worker][r.url.slice(-1)](),
  environment: (r, env) => Response.json([early, env.SVC_REQUEST_ID, 'X' in env, {...process.env}]),
  later(r, e, ctx) {
    ctx.waitUntil(new Promise((done) => setTimeout(() => { console.log('later'); done(); }, 50)));
    return new Response('now');
  },
  random: () => Response.json([a, b, [...c], Math.random(), crypto.randomUUID()]),
  time: () => Response.json([loaded, Date.now(), performance.now()]),
};
export default {
  fetch: (req, env, ctx) => routes[new URL(req.url).pathname.split("/")[1]](req, env, ctx),
};
"""
Ask = Callable[..., list[Answer]]


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Sources:
    """One program for the tests of requests, so that its component is compiled once."""
    sources = Sources(tmp_path_factory.mktemp("routes ü").resolve(), cache)
    sources.write("src/typed.ts", TYPED)
    sources.write("src/deep.ts", DEEP)
    sources.write("src/packages.ts", PACKAGES)
    sources.write("src/index.ts", INDEX)
    (sources.workdir / "node_modules").symlink_to(
        node_modules(cache, "hono@4", "zod@4", "nanoid@5"), target_is_directory=True
    )
    return sources


@pytest.fixture(scope="module", params=MODES)
def built(request: pytest.FixtureRequest, routes: Sources) -> ComponentArtifact:
    return routes.build(request.param)


@pytest.fixture
def routed(routes: Sources, built: ComponentArtifact) -> Ask:
    return lambda *targets: ask(routes, built, *targets)


def test_typescript_errors_have_their_own_lines(routed: Ask) -> None:
    fine, boom = routed("/typed", "/typed/boom")
    assert fine.body == b"typed"
    assert boom.report.detail == "RangeError: no 7"
    assert [text for _, text in boom.lines] == [
        "RangeError: no 7",
        "    at fail (api/src/deep.ts:3:9)",
        "    at fetch (api/src/typed.ts:5:40)",
        "    at fetch (api/src/index.ts:19:75)",
    ]


def test_missing_global_is_reported_with_an_alternative(routed: Ask) -> None:
    hints = {"WebSocket": "use server-sent events", "Worker": "one thread"}
    answers = routed(*(f"/missing/{index}" for index in range(len(hints))))
    for (name, hint), answer in zip(hints.items(), answers, strict=True):
        assert f"{name} is not defined" in answer.report.detail and hint in answer.report.detail


def test_environment_is_available_during_requests_only(routed: Ask) -> None:
    (answer,) = routed("/environment")
    assert json.loads(answer.body) == [0, "request-1", False, {"SVC_REQUEST_ID": "request-1"}]


def test_wait_until_continues_after_the_response(routed: Ask) -> None:
    (answer,) = routed("/later")
    assert answer.body == b"now" and answer.lines == [("stdout", "later")]


def test_packages_of_npm_are_bundled(routed: Ask) -> None:
    fine, bad = routed("/packages/42", "/packages/x")
    assert json.loads(fine.body) == {"n": 42, "id": 21}
    assert bad.status == 500


def test_randomness_of_the_top_level_is_part_of_a_deployment(routes: Sources) -> None:
    first, second = (json.loads(a.body) for a in ask(routes, routes.build("deploy"), "/random", "/random"))
    assert first[:3] == second[:3]
    assert first[3] != second[3] and first[4] != second[4]


def test_time_of_the_top_level_is_fixed_in_a_deployment(routes: Sources) -> None:
    before = time.time()
    loaded, now, passed = json.loads(ask(routes, routes.build("deploy"), "/time")[0].body)
    assert loaded == 2000 and before - 1 <= now / 1000 <= time.time() and passed >= 0
