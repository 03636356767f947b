import asyncio
import dataclasses
import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildMode
from engine.wasm.binary.memory_image import split_memory
from lanes.js.component import GLUE_MODULE, component
from lanes.js.lane import DEFAULT_HEAP, JsLane
from lanes.js.toolchain import SCRIPTS, ensure, packages_folder
from lanes.process import run
from tests.lanes.js.sources import MODES, Sources, ask
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
HELLO = "export default { fetch: () => new Response('hello') };\n"


def failure(sources: Sources, mode: BuildMode = "dev", *, evaluated: bool = False) -> BuildFailed:
    with pytest.raises(BuildFailed) as exc_info:
        sources.build(mode, evaluated=evaluated)
    return exc_info.value


@pytest.mark.parametrize("mode", MODES)
def test_syntax_error_has_its_position_and_a_frame(sources: Sources, mode: BuildMode) -> None:
    sources.write("index.js", "export default {\n  fetch() {\n    return new Response(;\n  },\n};\n")
    diagnostics = failure(sources, mode).diagnostics
    assert [(d.file, d.line, d.column) for d in diagnostics] == [("api/index.js", 3, 25)]
    assert "return new Response(;" in diagnostics[0].frame and "^" in diagnostics[0].frame


def test_all_unresolved_imports_are_reported(sources: Sources) -> None:
    sources.write("index.js", "import './a.js';\nimport './b.js';\nimport 'left-pad';\n" + HELLO)
    error = failure(sources)
    assert [d.line for d in error.diagnostics] == [1, 2, 3]


@pytest.mark.parametrize(
    ("package", "hint"),
    [(None, "npm install left-pad"), ('{"dependencies": {"left-pad": "1"}}', "`npm install`")],
)
def test_missing_package_is_reported_with_the_command_to_run(
    sources: Sources, package: str | None, hint: str
) -> None:
    if package:
        sources.write("package.json", package)
    sources.write("index.js", "import 'left-pad/x';\n" + HELLO)
    error = failure(sources)
    assert hint in error.hint and "in api" in error.hint


def test_missing_package_that_cannot_work_is_reported_with_its_alternative(sources: Sources) -> None:
    sources.write("index.js", "import bcrypt from 'bcrypt';\n" + HELLO)
    assert failure(sources).hint == "Instead of bcrypt, use password of @svc/guest."


def test_call_of_a_function_that_a_node_module_lacks_is_reported(sources: Sources) -> None:
    sources.write("index.js", "import { spawn } from 'node:child_process';\nspawn('ls');\n" + HELLO)
    result = failure(sources, evaluated=True).diagnostics[0]
    assert 'does not have the module "child_process" of Node.js' in result.message
    assert "api/index.js imports" in result.message
    assert (result.file, result.line) == ("api/index.js", 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["export const fetch = () => new Response('x');\n", "const a = 1;\n"])
def test_module_without_a_default_export_is_rejected(sources: Sources, mode: BuildMode, text: str) -> None:
    sources.write("index.js", text)
    error = failure(sources, mode)
    assert "no default export" in error.diagnostics[0].message
    assert "export default" in error.hint


def test_default_export_without_fetch_is_rejected(sources: Sources) -> None:
    sources.write("index.js", "export default { fech() {} };\n")
    (answer,) = ask(sources, sources.build("dev"), "/")
    assert "api/index.js" in answer.report.detail and "fetch method" in answer.report.detail
    for mode in MODES:
        assert "fetch method" in failure(sources, mode, evaluated=True).message


def test_empty_or_missing_entry_is_reported(sources: Sources) -> None:
    entry = sources.write("src/index.js", "")
    assert "is empty" in failure(sources).message
    entry.unlink()
    error = failure(sources)
    assert "no entry module" in error.message and "src/index.ts" in error.hint


def test_module_that_throws_while_loading_fails_the_build(sources: Sources) -> None:
    sources.write(
        "node_modules/bad/index.js", "console.log('loads');\nexport const a = Date.now(), b = null.x;\n"
    )
    sources.write("src/index.ts", "import 'bad';\n" + HELLO)
    (answer,) = ask(sources, sources.build("dev"), "/")
    assert answer.report.outcome == "guest-failed" and "TypeError" in answer.report.detail
    for mode in MODES:
        result = failure(sources, mode, evaluated=True)
        assert (
            "the package bad (imported through api/src/index.ts → bad) fails during loading: TypeError"
            in result.message
        )
        (diagnostic,) = result.diagnostics
        assert (diagnostic.file, diagnostic.line) == ("api/node_modules/bad/index.js", 2)
        assert "null.x" in diagnostic.frame


def test_package_that_cannot_work_has_an_alternative(sources: Sources) -> None:
    sources.write("node_modules/bcrypt/index.js", "require('fs').readFileSync('binding.node');\n")
    sources.write("src/index.ts", "import 'bcrypt';\n" + HELLO)
    error = failure(sources, evaluated=True)
    assert (
        "the package bcrypt (imported through api/src/index.ts → bcrypt) fails during loading: Error: ENOENT"
        in error.message
    )
    assert error.hint == "Instead of bcrypt, use password of @svc/guest."


def test_module_that_loads_is_evaluated_without_its_handler(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("new Response('hello')", "missing()"))
    assert sources.build("dev", evaluated=True).script
    sources.write("index.js", "for (const a = []; ; ) a.push('x'.repeat(1e6) + a.length);\n" + HELLO)
    assert "out of memory" in failure(sources, evaluated=True).message


def test_large_bundle_is_rejected_with_its_largest_file(sources: Sources) -> None:
    sources.write("data.txt", "x" * (25 << 20))
    sources.write("index.js", "import text from './data.txt';\n" + HELLO.replace("'hello'", "text"))
    error = failure(sources)
    assert "25 MiB; the maximum is 24" in error.message and "api/data.txt with 25 MiB" in error.hint


def test_inputs_contain_all_bundled_files(sources: Sources) -> None:
    shared = sources.root / "shared.js"
    index = sources.write(
        "index.js",
        "import { text } from '../shared.js';\nexport default { fetch: () => new Response(text) };\n",
    )
    shared.write_text("export const text = 'shared';\n")
    assert sources.build().inputs == {shared, index}


def test_rebuild_reuses_the_loader_and_an_unchanged_deploy_build_is_cached(sources: Sources) -> None:
    entry = sources.write("index.js", HELLO)

    async def both(lane: JsLane) -> tuple[ComponentArtifact, ComponentArtifact]:
        first = await lane.build(sources.request("dev"))
        entry.write_text(HELLO.replace("hello", "again"))
        return first, await lane.build(sources.request("dev"))

    first, second = sources.with_lane(both)
    assert first.component == second.component and first.script != second.script
    artifact = sources.build("deploy")
    sources.reported.clear()
    assert sources.build("deploy") == artifact
    assert sources.reported == []


def test_file_saved_between_the_passes_of_a_build_is_bundled_with_its_features(sources: Sources) -> None:
    sources.write("index.js", "export { default } from './saved.js';\n")
    saved, after = sources.workdir / "saved.js", sources.workdir / "after.js"
    after.write_text(
        "export default { fetch: () => new Response(typeof new URLPattern({ pathname: '/' })) };\n"
    )
    os.mkfifo(saved)

    def save() -> None:
        """Save the file while the first pass, which waits for its content, has it open."""
        reader = os.open(saved, os.O_WRONLY)
        after.replace(saved)
        os.write(reader, b"export default { fetch: () => new Response(Buffer.from('before')) };\n")
        os.close(reader)

    saving = threading.Thread(target=save)
    saving.start()
    (answer,) = ask(sources, sources.build("dev"), "/")
    saving.join()
    assert (answer.status, answer.body) == (200, b"object")


def test_killed_bundler_is_restarted(sources: Sources) -> None:
    sources.write("index.js", HELLO)

    async def kill(lane: JsLane) -> ComponentArtifact:
        await lane.build(sources.request("dev"))
        program = lane._bundler._program
        assert program is not None
        _, number = await run(["pgrep", "-P", str(os.getpid()), "-f", "bundler.mjs"], Path("/"))
        os.kill(int(number), signal.SIGKILL)
        await asyncio.wait({program.running})
        return await lane.build(sources.request("dev"))

    assert "hello" in (sources.with_lane(kill).script or "")


def test_dev_and_deploy_answer_alike(sources: Sources) -> None:
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

    def comparable(answer: Answer) -> Any:
        return answer.status, answer.headers, answer.body, answer.ended, answer.lines, answer.report.detail

    dev, deploy = ([comparable(a) for a in ask(sources, sources.build(mode), *targets)] for mode in MODES)
    assert dev == deploy


def test_clock_read_at_the_top_level_is_warned_of(sources: Sources) -> None:
    sources.write(
        "index.js", "const started = Date.now();\n" + HELLO.replace("'hello'", f"started + '{sources.root}'")
    )
    sources.build("deploy")
    assert [line for line in sources.reported if "api/index.js:1:22 asks for the time" in line]


def test_module_that_never_finishes_loading_is_stopped(sources: Sources) -> None:
    sources.write("index.js", "while (true) {}\n" + HELLO)

    async def build(lane: JsLane) -> None:
        with pytest.raises(BuildFailed, match="not loaded within 2 s") as exc_info:
            await lane.build(sources.request("deploy"))
        assert "loop" in exc_info.value.hint

    sources.with_lane(build, limit=2)


def test_concurrent_builds_of_one_bundle_share_one_component(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"shared {sources.root}"))

    async def both(lane: JsLane) -> Any:
        return await asyncio.gather(*(lane.build(sources.request("deploy")) for _ in range(2)))

    first, second = sources.with_lane(both)
    assert first == second and first.component.is_file()
    assert sum("making the component" in line for line in sources.reported) == 2
    assert sum(line.startswith("waiting") for line in sources.reported) == 1


def test_canceled_build_leaves_no_files_and_the_next_build_works(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"canceled {sources.root}"))

    async def twice(lane: JsLane) -> ComponentArtifact:
        started = asyncio.Event()
        request = dataclasses.replace(sources.request("deploy"), report=lambda line: started.set())
        task = asyncio.create_task(lane.build(request))
        await started.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await lane.build(sources.request("deploy"))

    artifact = sources.with_lane(twice)
    assert [p.name for p in artifact.component.parent.iterdir() if p.name != "lock"] == [
        artifact.component.name
    ]


def test_deleted_toolchain_is_restored_by_the_next_build(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources.write("index.js", HELLO)
    sources.build()
    real = packages_folder(sources.cache)
    template = asyncio.run(ensure(sources.cache, print)).folder / "template-loader"
    # componentize-js takes ten seconds for a template, so this one is copied.
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts)
    (scripts / "template.mjs").write_text(
        "import { cpSync } from 'node:fs';\n"
        f"cpSync({json.dumps(str(template))}, process.argv[5], {{ recursive: true }});\n"
    )
    monkeypatch.setattr("lanes.js.toolchain.SCRIPTS", scripts)
    sources.cache = tmp_path / "own cache"
    own = sources.cache / "toolchains" / real.name
    own.mkdir(parents=True)
    for name in ("node_modules", "complete"):
        (own / name).symlink_to(real / name)

    async def build(lane: JsLane) -> ComponentArtifact:
        await lane.build(sources.request("dev"))
        (folder,) = own.glob("svc-*")
        shutil.rmtree(folder)
        return await lane.build(sources.request("dev"))

    assert sources.with_lane(build).component.is_file()


def test_unwritable_cache_fails_the_build(sources: Sources) -> None:
    sources.write("index.js", HELLO.replace("hello", f"blocked {sources.root}"))
    sources.build()
    toolchains, sources.cache = sources.cache / "toolchains", sources.root / "blocked"
    sources.cache.mkdir()
    (sources.cache / "toolchains").symlink_to(toolchains, target_is_directory=True)
    (sources.cache / "js").write_text("a file in the way")
    error = failure(sources, "deploy")
    assert "could not be built" in error.message and error.hint


def test_component_from_the_template_equals_that_of_componentize_js(sources: Sources, tmp_path: Path) -> None:
    text = "const a = `${Math.PI} ${new Date()}`;\naddEventListener('fetch', (e) => e.respondWith(new Response(a)));\n"
    main, complete = tmp_path / "main" / "svc-app.js", tmp_path / "complete"
    main.parent.mkdir()
    main.write_text(text)
    complete.mkdir()

    async def make() -> Path:
        toolchain = await ensure(sources.cache, print)
        activity = "making the component"
        ours, _ = await component(
            toolchain, text, tmp_path / "ours", report=print, activity=activity, heap=DEFAULT_HEAP
        )
        script, wit = toolchain.script("template.mjs"), str(toolchain.wit / "service")
        shutil.copyfile(toolchain.folder / "template-service" / GLUE_MODULE, complete / GLUE_MODULE)
        command = [toolchain.node, script, main.name, wit, "service", str(complete)]
        assert await run(command, main.parent) == (0, "")
        return ours

    assert asyncio.run(make()).read_bytes() == (complete / "component.wasm").read_bytes()


def test_components_of_two_programs_share_their_code(sources: Sources) -> None:
    codes = set()
    for greeting in ("hello", "good morning " * 100):
        sources.write("index.js", HELLO.replace("hello", greeting))
        codes.add(split_memory(sources.build("deploy").component.read_bytes()).code)
    assert len(codes) == 1


def test_node_env_of_the_manifest_is_a_constant_of_the_bundle(sources: Sources) -> None:
    sources.write("short.cjs", "module.exports = 'short';")
    sources.write("long.cjs", "module.exports = 'in detail';")
    choice = "if (process.env.NODE_ENV === 'production') module.exports = require('./short.cjs');"
    sources.write("text.cjs", f"{choice}\nelse module.exports = require('./long.cjs');")
    sources.write(
        "index.js", "import text from './text.cjs';\nexport default { fetch: () => new Response(text) };\n"
    )

    async def scripts(lane: JsLane) -> list[str]:
        request = sources.request("dev")
        environments: list[dict[str, str]] = [{}, {"NODE_ENV": "production"}, {}]
        requests = [
            dataclasses.replace(request, resource=dataclasses.replace(request.resource, env=env))
            for env in environments
        ]
        return [(await lane.build(each)).script or "" for each in requests]

    unset, production, again = sources.with_lane(scripts)
    assert "in detail" in unset and "in detail" not in production and "short" in production
    assert again == unset


def test_errors_in_packages_name_the_modules_that_import_them(sources: Sources) -> None:
    sources.write("index.js", "import './lib.js';\n" + HELLO)
    sources.write("lib.js", "import 'outer';\n")
    sources.write("node_modules/outer/index.js", "import 'inner';\n")
    inner = "node_modules/inner/index.js"
    sources.write(inner, "import 'gone';\nimport 'lost';\n")
    chain = "(imported through api/index.js → api/lib.js → outer → inner)"
    first, second = (each.message for each in failure(sources).diagnostics)
    assert first == f'Could not resolve "gone" {chain}' and second == 'Could not resolve "lost"'
    sources.write(inner, "throw new Error('early');\n")
    error = failure(sources, "deploy")
    assert error.message == f"resource api: the package inner {chain} fails during loading: Error: early"
    assert failure(sources, evaluated=True).message == error.message
