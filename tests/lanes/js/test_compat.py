"""A short set of `make compat`: some npm packages and the WinterTC API, in dev and deploy mode."""

import asyncio
from pathlib import Path

import pytest

from bench.compat.__main__ import expected
from bench.compat.cases import Case, cases
from bench.compat.guest import Laboratory, Results
from bench.compat.report import compare, unexplained
from bench.compat.upstream import upstream
from bench.compat.workspace import PackagesMissing, installed, node, workspace
from tests.lanes.js.sources import MODES

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60), pytest.mark.timeout(900)]
PACKAGES = ("hono", "jose", "marked", "zod", "iron-session", "react-dom", "graphql-yoga", "date-fns-tz")
CHOSEN = [*(case for case in cases("packages") if case.name in PACKAGES), *cases("wintertc")]
Measured = tuple[dict[str, Results], dict[str, dict[str, Results]]]


@pytest.fixture(scope="module")
def measured(cache: Path) -> Measured:
    """The results of Node.js by package, and those of guests by module and mode."""
    try:
        program = node(cache)
        packages = installed(cache, program, PACKAGES)
    except PackagesMissing as error:
        pytest.skip(f"npm cannot install the packages of make compat: {error}")

    async def run(folder: Path, origin: str) -> dict[str, dict[str, Results]]:
        laboratory = Laboratory.open(folder, cache, origin, fast=True)
        try:
            by_mode = {
                # Each request evaluates the whole dev build, so it has one case.
                "dev": {case.module: await laboratory.run(case, "dev") for case in CHOSEN},
                "deploy": await laboratory.run_together(CHOSEN, "deploy"),
            }
            return {case.module: {mode: by_mode[mode][case.module] for mode in MODES} for case in CHOSEN}
        finally:
            await laboratory.aclose()

    with upstream() as origin, workspace(packages) as folder:
        return expected(program, folder, CHOSEN, origin), asyncio.run(run(folder, origin))


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: f"{case.kind}/{case.name}")
def test_case_has_no_failure_without_a_reason(measured: Measured, case: Case) -> None:
    by_package, by_module = measured
    reference = by_package[case.name] if case.kind == "packages" else None
    assert unexplained(compare(case, reference, by_module[case.module])) == {}
