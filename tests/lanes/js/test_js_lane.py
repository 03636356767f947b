import asyncio
import dataclasses
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildMode
from lanes.js.component import SnapshotSpec, component
from lanes.js.lane import JsLane
from lanes.js.node import Node, find
from lanes.js.toolchain import ensure
from lanes.process import run
from tests.engine.wasm.conftest import Answer
from tests.lanes.js.conftest import Sources, ask

pytestmark = pytest.mark.slow
MODES: list[BuildMode] = ["dev", "deploy"]
HELLO = "export default { fetch: () => new Response('hello') };\n"


def failure(sources: Sources, mode: BuildMode = "dev") -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        sources.build(mode)
    return caught.value


@pytest.mark.parametrize("mode", MODES)
def test_typescript_runs_and_its_errors_name_its_own_lines(sources: Sources, mode: BuildMode) -> None:
    sources.write(
        "src/lib/deep.ts",
        "// one\nexport function fail(n: number): never {\n  throw new RangeError(`no ${n}`);\n}\n",
    )
    sources.write(
        "src/index.ts",
        "import { fail } from './lib/deep';\ninterface Env { SVC_PROJECT?: string }\nexport default {\n"
        "  async fetch(request: Request, env: Env): Promise<Response> {\n"
        "    if (request.url.endsWith('/boom')) fail(7);\n    return new Response('typed' satisfies string);\n  },\n};\n",
    )
    fine, boom = ask(sources, sources.build(mode), "/", "/boom")
    assert fine.body == b"typed"
    assert boom.report.detail == "RangeError: no 7"
    assert [text for _, text in boom.lines] == [
        "RangeError: no 7",
        "    at fail (api/src/lib/deep.ts:3:9)",
        "    at fetch (api/src/index.ts:5:40)",
    ]


@pytest.mark.parametrize("mode", MODES)
def test_a_syntax_error_has_its_place_and_a_frame(sources: Sources, mode: BuildMode) -> None:
    sources.write("index.js", "export default {\n  fetch() {\n    return new Response(;\n  },\n};\n")
    found = failure(sources, mode).diagnostics
    assert [(d.file, d.line, d.column) for d in found] == [("api/index.js", 3, 25)]
    assert "return new Response(;" in found[0].frame and "^" in found[0].frame


def test_every_error_is_reported(sources: Sources) -> None:
    sources.write("index.js", "import './a.js';\nimport './b.js';\nimport 'left-pad';\n" + HELLO)
    error = failure(sources)
    assert [d.line for d in error.diagnostics] == [1, 2, 3]


@pytest.mark.parametrize(
    ("package", "hint"),
    [(None, "npm install left-pad"), ('{"dependencies": {"left-pad": "1"}}', "`npm install`")],
)
def test_a_missing_package_says_what_to_run_and_where(
    sources: Sources, package: str | None, hint: str
) -> None:
    if package:
        sources.write("package.json", package)
    sources.write("index.js", "import 'left-pad/x';\n" + HELLO)
    error = failure(sources)
    assert hint in error.hint and "in api" in error.hint


def test_a_module_of_node_is_named(sources: Sources) -> None:
    sources.write("index.js", "import { readFile } from 'node:fs';\n" + HELLO)
    found = failure(sources).diagnostics[0]
    assert "node:fs" in found.message and "js lane" in found.message
    assert (found.file, found.line) == ("api/index.js", 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["export const fetch = () => new Response('x');\n", "const a = 1;\n"])
def test_a_module_without_a_default_export(sources: Sources, mode: BuildMode, text: str) -> None:
    sources.write("index.js", text)
    error = failure(sources, mode)
    assert "no default export" in error.diagnostics[0].message
    assert "export default" in error.hint


def test_a_default_export_without_fetch(sources: Sources) -> None:
    sources.write("index.js", "export default { fech() {} };\n")
    (answer,) = ask(sources, sources.build("dev"), "/")
    assert "api/index.js" in answer.report.detail and "fetch method" in answer.report.detail
    assert "fetch method" in failure(sources, "deploy").message


def test_an_empty_file_and_a_missing_entry(sources: Sources) -> None:
    entry = sources.write("src/index.js", "")
    assert "is empty" in failure(sources).message
    entry.unlink()
    error = failure(sources)
    assert "no entry module" in error.message and "src/index.ts" in error.hint


def test_a_module_that_throws_while_it_is_loaded(sources: Sources) -> None:
    sources.write("src/index.ts", "const n: number = 1;\nnull.x;\n" + HELLO)
    (answer,) = ask(sources, sources.build("dev"), "/")
    assert answer.report.outcome == "guest-failed" and "TypeError" in answer.report.detail
    found = failure(sources, "deploy")
    assert found.diagnostics[0].file == "api/src/index.ts" and found.diagnostics[0].line == 2


def test_randomness_at_the_top_level_does_not_end_a_build(sources: Sources) -> None:
    sources.write(
        "index.js",
        "const a = Math.random(), b = crypto.randomUUID(), c = crypto.getRandomValues(new Uint8Array(4));\n"
        "export default { fetch: () => Response.json([a, b, [...c], Math.random(), crypto.randomUUID()]) };\n",
    )
    first, second = (json.loads(a.body) for a in ask(sources, sources.build("deploy"), "/", "/"))
    assert first[:3] == second[:3]
    assert first[3] != second[3] and first[4] != second[4]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_missing_is_explained(sources: Sources, mode: BuildMode) -> None:
    sources.write("index.js", "export default { fetch: () => new Response(Buffer.from('x')) };\n")
    (answer,) = ask(sources, sources.build(mode), "/")
    assert "Buffer is not defined" in answer.report.detail and "Uint8Array" in answer.report.detail


@pytest.mark.parametrize("mode", MODES)
def test_the_environment_is_there_in_a_request_and_not_before(sources: Sources, mode: BuildMode) -> None:
    sources.write(
        "index.js",
        "const early = Object.keys(process.env).length;\n"
        "export default { fetch: (r, env) => Response.json([early, env.SVC_REQUEST_ID, 'X' in env, {...process.env}]) };\n",
    )
    (answer,) = ask(sources, sources.build(mode), "/")
    assert json.loads(answer.body) == [0, "request-1", False, {"SVC_REQUEST_ID": "request-1"}]


@pytest.mark.parametrize("mode", MODES)
def test_work_after_the_response_goes_on(sources: Sources, mode: BuildMode) -> None:
    sources.write(
        "index.js",
        "export default { fetch(r, e, ctx) {\n"
        "  ctx.waitUntil(new Promise((done) => setTimeout(() => { console.log('later'); done(); }, 50)));\n"
        "  return new Response('now');\n} };\n",
    )
    (answer,) = ask(sources, sources.build(mode), "/")
    assert answer.body == b"now" and answer.lines == [("stdout", "later")]


def test_every_file_that_was_bundled_is_an_input_wherever_it_is(sources: Sources) -> None:
    shared = sources.root / "shared.js"
    index = sources.write(
        "index.js",
        "import { text } from '../shared.js';\nexport default { fetch: () => new Response(text) };\n",
    )
    shared.write_text("export const text = 'shared';\n")
    assert sources.build().inputs == {shared, index}


def test_a_rebuild_costs_milliseconds_and_a_deploy_build_nothing_the_second_time(sources: Sources) -> None:
    entry = sources.write("index.js", HELLO)

    async def both(lane: JsLane) -> tuple[ComponentArtifact, ComponentArtifact]:
        first = await lane.build(sources.request("dev"))
        entry.write_text(HELLO.replace("hello", "again"))
        return first, await lane.build(sources.request("dev"))

    first, second = sources.with_lane(both)
    assert first.component == second.component and first.script != second.script
    made = sources.build("deploy")
    sources.reported.clear()
    assert sources.build("deploy") == made
    assert sources.reported == []


def test_the_bundler_comes_back_after_it_was_killed(sources: Sources) -> None:
    sources.write("index.js", HELLO)

    async def kill(lane: JsLane) -> ComponentArtifact:
        await lane.build(sources.request("dev"))
        process: Any = lane._bundler._process
        process.kill()
        await process.wait()
        return await lane.build(sources.request("dev"))

    assert "hello" in (sources.with_lane(kill).script or "")


@pytest.mark.parametrize("mode", MODES)
def test_packages_of_npm_are_bundled(sources: Sources, mode: BuildMode) -> None:
    folder = sources.cache / "npm-packages"
    if not (folder / "node_modules" / "hono").is_dir():
        folder.mkdir(exist_ok=True)
        asyncio.run(ensure(sources.cache, print))
        node = asyncio.run(find(sources.cache))
        assert isinstance(node, Node)
        command = [*node.npm, "install", "--no-audit", "--no-fund", "hono@4", "zod@4", "nanoid@5"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    sources.write(
        "src/index.ts",
        "import { Hono } from 'hono';\nimport { z } from 'zod';\nimport { nanoid } from 'nanoid';\n"
        "const app = new Hono();\nconst schema = z.object({ n: z.coerce.number().int() });\n"
        "app.get('/n/:n', (c) => c.json({ ...schema.parse(c.req.param()), id: nanoid().length }));\n"
        "export default app;\n",
    )
    (sources.workdir / "node_modules").symlink_to(folder / "node_modules", target_is_directory=True)
    fine, bad = ask(sources, sources.build(mode), "/n/42", "/n/x")
    assert json.loads(fine.body) == {"n": 42, "id": 21}
    assert bad.status == 500


def test_dev_and_deploy_differ_in_nothing_that_a_user_sees(sources: Sources) -> None:
    source = Path(__file__).parents[2] / "engine" / "wasm" / "guest.js"
    sources.write("index.js", source.read_text())
    targets = (
        "/hello",
        "/method?x",
        "/headers",
        "/env",
        "/log",
        "/throw",
        "/reject",
        "/nothing",
        "/late",
        "/nowhere",
    )

    def seen(answer: Answer) -> Any:
        return answer.status, answer.headers, answer.body, answer.ended, answer.lines, answer.report.detail

    dev, deploy = ([seen(a) for a in ask(sources, sources.build(mode), *targets)] for mode in MODES)
    assert dev == deploy


def test_a_clock_read_at_the_top_level_is_warned_of(sources: Sources) -> None:
    sources.write(
        "index.js", "const started = Date.now();\n" + HELLO.replace("'hello'", f"started + '{sources.root}'")
    )
    sources.build("deploy")
    assert [line for line in sources.reported if "api/index.js:1:22 asks for the time" in line]


def test_time_in_a_request_is_its_own_whatever_it_was_at_the_top_level(sources: Sources) -> None:
    sources.write(
        "index.js",
        "const loaded = new Date().getUTCFullYear();\n"
        "export default { fetch: () => Response.json([loaded, Date.now(), performance.now()]) };\n",
    )
    before = time.time()
    loaded, now, passed = json.loads(ask(sources, sources.build("deploy"), "/")[0].body)
    assert loaded == 2000 and before - 1 <= now / 1000 <= time.time() and passed >= 0


def test_a_module_that_is_never_loaded_is_given_up(sources: Sources) -> None:
    sources.write("index.js", "while (true) {}\n" + HELLO)

    async def build(lane: JsLane) -> None:
        with pytest.raises(BuildFailed, match="not loaded within 2 s") as caught:
            await lane.build(sources.request("deploy"))
        assert "loop" in caught.value.hint

    sources.with_lane(build, limit=2)


def test_builds_of_one_bundle_at_once_share_one_component(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"shared {sources.root}"))

    async def both(lane: JsLane) -> Any:
        return await asyncio.gather(*(lane.build(sources.request("deploy")) for _ in range(2)))

    first, second = sources.with_lane(both)
    assert first == second and first.component.is_file()
    assert sum("making the component" in line for line in sources.reported) == 2
    assert sum(line.startswith("waiting") for line in sources.reported) == 1


def test_a_cancelled_build_leaves_nothing_and_the_next_one_works(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"cancelled {sources.root}"))

    async def twice(lane: JsLane) -> ComponentArtifact:
        begun = asyncio.Event()
        request = dataclasses.replace(sources.request("deploy"), report=lambda line: begun.set())
        task = asyncio.create_task(lane.build(request))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await lane.build(sources.request("deploy"))

    artifact = sources.with_lane(twice)
    assert [p.name for p in artifact.component.parent.iterdir() if p.name != "lock"] == [
        artifact.component.name
    ]


def test_a_cache_that_is_deleted_while_one_works_is_made_again(sources: Sources, tmp_path: Path) -> None:
    sources.write("index.js", HELLO)
    sources.build()
    real = next(p for p in (sources.cache / "toolchains").iterdir() if (p / "complete").exists())
    sources.cache = tmp_path / "own cache"
    shutil.copytree(real, sources.cache / "toolchains" / real.name, copy_function=os.link, symlinks=True)

    async def build(lane: JsLane) -> ComponentArtifact:
        await lane.build(sources.request("dev"))
        for folder in (sources.cache / "toolchains" / real.name).glob("svc-*"):
            shutil.rmtree(folder)
        return await lane.build(sources.request("dev"))

    assert sources.with_lane(build).component.is_file()


def test_a_file_that_cannot_be_written_is_an_error_of_the_build(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"blocked {sources.root}"))
    sources.build()
    toolchains, sources.cache = sources.cache / "toolchains", sources.root / "blocked"
    sources.cache.mkdir()
    (sources.cache / "toolchains").symlink_to(toolchains, target_is_directory=True)
    (sources.cache / "js").write_text("a file in the way")
    error = failure(sources, "deploy")
    assert "could not be built" in error.message and error.hint


def test_a_component_from_the_template_equals_the_one_of_componentize_js(
    sources: Sources, tmp_path: Path
) -> None:
    text = "const a = `${Math.PI} ${new Date()}`;\naddEventListener('fetch', (e) => e.respondWith(new Response(a)));\n"
    main, complete = tmp_path / "main" / "svc-app.js", tmp_path / "complete"
    main.parent.mkdir()
    main.write_text(text)
    complete.mkdir()

    async def make() -> Path:
        toolchain = await ensure(sources.cache, print)
        spec = SnapshotSpec(toolchain, "service", tmp_path / "ours", write, print, "making the component")
        ours, _ = await component(spec)
        script, wit = toolchain.script("template.mjs"), str(toolchain.wit / "service")
        command = [toolchain.node, script, main.name, wit, "service", str(complete)]
        assert await run(command, main.parent) == (0, "")
        return ours

    async def write(module: Path) -> None:
        module.write_text(text)

    assert asyncio.run(make()).read_bytes() == (complete / "component.wasm").read_bytes()
