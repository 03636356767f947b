"""Runs the cases and writes docs/reference/compatibility.md: `python -m bench.compat [--dev] [NAME...]`.

With names of cases (`packages/hono`, `frameworks/nuxt`), kinds (`wintertc`) or folders of tests (`wpt/url`),
runs only those and writes no page. `--dev` omits deploy builds. `WPT=` names a checkout of the web platform
tests. The folder `SVC_TEST_CACHE` receives the npm packages. A failure without a reason in `reasons.json`
ends the run with status 1.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.compat import wpt
from bench.compat.cases import Case, cases
from bench.compat.frameworks import FrameworkResult, try_framework
from bench.compat.guest import Laboratory, Results
from bench.compat.report import PAGE, Outcome, compare, page, previous_wpt, unexplained, wpt_section
from bench.compat.upstream import upstream
from bench.compat.workspace import PackagesMissing, installed, node, workspace
from engine.lane import BuildMode
from lanes.js.toolchain import NodeProgram
from svc_tui.project.resource_starter import FRAMEWORKS

ORACLE = Path(__file__).with_name("oracle.mjs")
CONCURRENT = 2
TOGETHER = 12
"""Cases of one deploy build."""


def expected(program: NodeProgram, folder: Path, chosen: list[Case], origin: str) -> dict[str, Results]:
    """Return the results of packages in Node.js, by the name of the case."""
    modules = {str(folder / case.module): case.name for case in chosen if case.kind == "packages"}
    script = folder / ORACLE.name
    script.write_bytes(ORACLE.read_bytes())
    command = [program.program, str(script), origin, *modules]
    environment = {**os.environ, "TZ": "UTC"}
    process = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    results = {}
    for line in process.stdout.splitlines():
        if line.startswith('{"path":'):
            document = json.loads(line)
            if "error" in document:
                print(f"  {document['path']}: {document['error']}", file=sys.stderr)
            results[modules[document["path"]]] = document.get("checks", {})
    return results


async def run(
    folder: Path,
    cache: Path,
    origin: str,
    chosen: list[Case],
    program: NodeProgram,
    *,
    deploy: bool,
) -> list[Outcome]:
    """Run cases in dev builds, and also in `deploy` builds."""
    laboratory = Laboratory.open(folder, cache, origin)
    reference = asyncio.create_task(asyncio.to_thread(expected, program, folder, chosen, origin))
    free = asyncio.Semaphore(CONCURRENT)

    async def outcomes(cases: list[Case]) -> list[Outcome]:
        async with free:
            by_mode = {"dev": {case.module: await laboratory.run(case, "dev") for case in cases}}
            if deploy:
                by_mode["deploy"] = await laboratory.run_together(cases, "deploy")
        known = await reference
        return [
            _outcome(case, known, {mode: by_mode[mode][case.module] for mode in by_mode}) for case in cases
        ]

    groups = [chosen[at : at + TOGETHER] for at in range(0, len(chosen), TOGETHER)]
    try:
        return [outcome for group in await asyncio.gather(*map(outcomes, groups)) for outcome in group]
    finally:
        await laboratory.aclose()


def _outcome(case: Case, expected: dict[str, Results], by_mode: dict[str, Results]) -> Outcome:
    result = compare(case, expected.get(case.name, {}) if case.kind == "packages" else None, by_mode)
    print(f"{case.kind}/{case.name}: {'ok' if not result.failures else 'FAILED'}", flush=True)
    for check, reason in result.failures.items():
        print(f"  {check}: {reason}", flush=True)
    return result


def run_framework(name: str, cache: Path, *options: str) -> FrameworkResult:
    """Try a framework, and print what fails."""
    result = try_framework(name, cache, *options)
    figures = f"bundle {result.bundle} bytes, first page {result.compute_ms:.1f} ms"
    print(f"frameworks/{name}: {'FAILED' if result.failures else 'ok'}, {figures}", flush=True)
    for check, reason in result.failures.items():
        print(f"  {check}: {reason}", flush=True)
    return result


async def run_wpt(
    folder: Path, cache: Path, root: Path, modes: tuple[BuildMode, ...], chosen: tuple[str, ...]
) -> list[wpt.FolderResult]:
    """Run web platform tests of a checkout."""
    with wpt.served(root) as origin:
        laboratory = Laboratory.open(folder, cache, origin)
        try:
            return await wpt.run(root, laboratory, modes, chosen)
        finally:
            await laboratory.aclose()


def main() -> None:
    cache = Path(os.environ.get("SVC_TEST_CACHE", ".svc/test-cache")).resolve()
    checkout = os.environ.get("WPT", "")
    names = [name for name in sys.argv[1:] if name != "--dev"]
    modes: tuple[BuildMode, ...] = ("dev",) if "--dev" in sys.argv else ("dev", "deploy")
    listed = [*cases("packages"), *cases("wintertc")]
    chosen = [case for case in listed if not names or {case.kind, f"{case.kind}/{case.name}"} & {*names}]
    tried = [name for name in FRAMEWORKS if not names or {"frameworks", f"frameworks/{name}"} & {*names}]
    paths = tuple(name[4:] for name in names if name.startswith("wpt/")) if names else ("",)
    if checkout and not (Path(checkout) / "resources" / "testharness.js").is_file():
        sys.exit(f"error: {checkout} is not a checkout of the web platform tests")
    try:
        program = node(cache)
        options = ("--release",) if "deploy" in modes else ()
        frameworks = [run_framework(name, cache, *options) for name in tried]
        right = sum(not result.failures for result in frameworks)
        print(f"compat frameworks={right}/{len(frameworks)}")
        if not chosen and not checkout:
            sys.exit(right < len(frameworks))
        needed = {name for case in chosen if case.kind == "packages" for name in case.packages}
        packages = installed(cache, program, needed if names and not checkout else None)
    except PackagesMissing as error:
        sys.exit(
            f"error: npm cannot install the packages: {error}\n  hint: check the network and npm's registry"
        )
    with upstream() as origin, workspace(packages) as folder:
        outcomes = asyncio.run(run(folder, cache, origin, chosen, program, deploy="deploy" in modes))
        root = Path(checkout).resolve()
        results = asyncio.run(run_wpt(folder, cache, root, modes, paths)) if checkout and paths else []
    packages_done, wintertc_done = (
        [outcome for outcome in outcomes if outcome.case.kind == kind] for kind in ("packages", "wintertc")
    )
    if len(sys.argv) == 1:
        section = wpt_section(results) if results else previous_wpt()
        PAGE.write_text(page(packages_done, wintertc_done, frameworks, section), encoding="utf-8")
    working = sum(not outcome.failures for outcome in packages_done)
    checks = sum(len(outcome.case.checks) for outcome in wintertc_done)
    passed = checks - sum(len(outcome.failures) for outcome in wintertc_done)
    subtests = f"{sum(each.passed for each in results)}/{sum(each.total for each in results)}"
    print(f"compat packages={working}/{len(packages_done)} wintertc={passed}/{checks} wpt={subtests}")
    failed = [
        f"{each.case.kind}/{each.case.name}: {check}" for each in outcomes for check in unexplained(each)
    ]
    failed += [f"frameworks/{each.name}: {check}" for each in frameworks for check in each.failures]
    if failed:
        sys.exit("error: failures without a reason in bench/compat/reasons.json:\n  " + "\n  ".join(failed))


if __name__ == "__main__":
    main()
