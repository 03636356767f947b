"""Runs the cases and writes docs/reference/compatibility.md: `python -m bench.compat [CASE...]`.

With cases (`packages/hono`), runs only those and writes no page. `WPT=` names a checkout of the web platform
tests. The packages of npm are installed in the cache folder `SVC_TEST_CACHE`.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.compat.cases import Case, cases
from bench.compat.guest import Laboratory, Results
from bench.compat.report import PAGE, Outcome, compare, page, previous_wpt
from bench.compat.upstream import upstream
from bench.compat.workspace import PackagesMissing, installed, node, workspace
from engine.lane import BuildMode
from lanes.js.node import NodeProgram

MODES: tuple[BuildMode, ...] = ("dev", "deploy")
ORACLE = Path(__file__).with_name("oracle.mjs")
CONCURRENT = 2


def expected(program: NodeProgram, folder: Path, chosen: list[Case], origin: str) -> dict[str, Results]:
    """Return the results of packages in Node.js, by the name of the case."""
    modules = {str(folder / case.module): case.name for case in chosen if case.kind == "packages"}
    script = folder / ORACLE.name
    script.write_bytes(ORACLE.read_bytes())
    command = [program.program, str(script), origin, *modules]
    process = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    results = {}
    for line in process.stdout.splitlines():
        if line.startswith('{"path":'):
            document = json.loads(line)
            if "error" in document:
                print(f"  {document['path']}: {document['error']}", file=sys.stderr)
            results[modules[document["path"]]] = document.get("checks", {})
    return results


async def run(
    folder: Path, cache: Path, origin: str, chosen: list[Case], program: NodeProgram
) -> list[Outcome]:
    """Run cases in dev and deploy builds."""
    laboratory = Laboratory.open(folder, cache, origin)
    reference = asyncio.create_task(asyncio.to_thread(expected, program, folder, chosen, origin))
    free = asyncio.Semaphore(CONCURRENT)

    async def outcome(case: Case) -> Outcome:
        async with free:
            by_mode: dict[str, Results] = {mode: await laboratory.run(case, mode) for mode in MODES}
        known = (await reference).get(case.name, {}) if case.kind == "packages" else None
        result = compare(case, known, by_mode)
        print(f"{case.kind}/{case.name}: {'ok' if not result.failures else 'FAILED'}", flush=True)
        for check, reason in result.failures.items():
            print(f"  {check}: {reason}", flush=True)
        return result

    try:
        return await asyncio.gather(*map(outcome, chosen))
    finally:
        await laboratory.aclose()


def main() -> None:
    cache = Path(os.environ.get("SVC_TEST_CACHE", ".svc/test-cache")).resolve()
    names = sys.argv[1:]
    listed = [*cases("packages"), *cases("wintertc")]
    chosen = [case for case in listed if not names or f"{case.kind}/{case.name}" in names]
    try:
        program = node(cache)
        packages = installed(cache, program)
    except PackagesMissing as error:
        sys.exit(
            f"error: npm cannot install the packages: {error}\n  hint: check the network and npm's registry"
        )
    with upstream() as origin, workspace(packages) as folder:
        outcomes = asyncio.run(run(folder, cache, origin, chosen, program))
    by_kind = {
        kind: [outcome for outcome in outcomes if outcome.case.kind == kind]
        for kind in ("packages", "wintertc")
    }
    if not names:
        PAGE.write_text(page(by_kind["packages"], by_kind["wintertc"], previous_wpt()), encoding="utf-8")
    working = sum(not outcome.failures for outcome in by_kind["packages"])
    checks = sum(len(outcome.case.checks) for outcome in by_kind["wintertc"])
    passed = checks - sum(len(outcome.failures) for outcome in by_kind["wintertc"])
    print(f"compat packages={working}/{len(by_kind['packages'])} wintertc={passed}/{checks} wpt=0/0")


if __name__ == "__main__":
    main()
