"""A short set of `make compat`: some npm packages and the WinterTC API, in dev and deploy mode."""

import asyncio
from pathlib import Path

import pytest

from bench.compat.__main__ import expected
from bench.compat.cases import Case, cases
from bench.compat.guest import Laboratory, Results
from bench.compat.report import compare, reasons
from bench.compat.upstream import upstream
from bench.compat.workspace import PackagesMissing, installed, node, workspace
from tests.lanes.js.conftest import MODES

pytestmark = pytest.mark.slow
PACKAGES = ("hono", "jose", "marked", "zod", "iron-session", "react-dom", "graphql-yoga", "trpc")
CHOSEN = [*(case for case in cases("packages") if case.name in PACKAGES), *cases("wintertc")]
INDEX = """\
const cases = {{ {names} }};
export default {{
  fetch: (request, env) => cases[new URL(request.url).pathname.slice(1)].fetch(request, env),
}};
"""
Measured = tuple[dict[str, Results], dict[str, dict[str, Results]]]


def write_index(folder: Path) -> None:
    """Write a module with all cases, so that each build is made once."""
    lines = [f"import c{n} from './{case.module}';\n" for n, case in enumerate(CHOSEN)]
    names = ", ".join(f"'{case.kind}/{case.name}': c{n}" for n, case in enumerate(CHOSEN))
    (folder / "index.js").write_text("".join(lines) + INDEX.format(names=names))


@pytest.fixture(scope="module")
def measured(cache: Path) -> Measured:
    """The results of Node.js by package, and those of guests by module and mode."""
    try:
        program = node(cache)
        packages = installed(cache, program)
    except PackagesMissing as error:
        pytest.skip(f"npm cannot install the packages of make compat: {error}")

    async def run(folder: Path, origin: str) -> dict[str, dict[str, Results]]:
        laboratory = Laboratory.open(folder, cache, origin)
        try:
            by_module: dict[str, dict[str, Results]] = {case.module: {} for case in CHOSEN}
            for mode in MODES:
                guest = await laboratory.build("index.js", mode, fast=True)
                for case in CHOSEN:
                    results, reason = await laboratory.ask(guest, f"/{case.kind}/{case.name}")
                    failed: Results = {check: {"error": reason} for check in case.checks}
                    by_module[case.module][mode] = failed if results is None else results
            return by_module
        finally:
            await laboratory.aclose()

    with upstream() as origin, workspace(packages) as folder:
        write_index(folder)
        return expected(program, folder, CHOSEN, origin), asyncio.run(run(folder, origin))


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: f"{case.kind}/{case.name}")
def test_case_has_no_failure_without_a_reason(measured: Measured, case: Case) -> None:
    by_package, by_module = measured
    reference = by_package[case.name] if case.kind == "packages" else None
    failures = compare(case, reference, by_module[case.module]).failures
    known = reasons()
    key = f"{case.kind}/{case.name}"
    unexplained = {check: reason for check, reason in failures.items() if f"{key}/{check}" not in known}
    assert key in known or unexplained == {}
