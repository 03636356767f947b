"""Builds cases with the js lane and runs them on the engine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.compat.cases import Case
from doors.crypto.door import CryptoDoor
from engine.door import DOMAIN, DoorContext
from engine.http.exchange import MAX_BODY, Headers, MemoryExchange, Request
from engine.lane import BuildFailed, BuildMode, BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.outbound.door_calls import DoorBinding
from lanes.js.lane import JsLane

LIMIT_SECONDS = 120
MAX_REASON = 300
INDEX = """\
const cases = {{ {names} }};
export default {{
  fetch: (request, env) => cases[new URL(request.url).pathname].fetch(request, env),
}};
"""
Results = dict[str, dict[str, Any]]
"""By check: `{"value": ...}` or `{"error": message}`."""


class _Exchange(MemoryExchange):
    """Collects the body of the response."""

    def __init__(self, target: str, body: bytes) -> None:
        path, _, query = target.partition("?")
        super().__init__(
            Request(method="GET", scheme="http", path=path, query=query.encode(), headers=[]), body
        )
        self.data = bytearray()

    async def send_head(self, status: int, headers: Headers) -> None:
        self.status = status

    async def send_body(self, data: bytes, *, end: bool) -> None:
        self.data += data


@dataclass(slots=True)
class Laboratory:
    """A lane and a runner, used for many cases.

    `fast` compiles deploy builds as dev builds, which takes less time.
    """

    folder: Path
    cache: Path
    upstream: str
    lane: JsLane
    runner: Runner
    crypto: DoorBinding
    fast: bool

    @classmethod
    def open(cls, folder: Path, cache: Path, upstream: str, *, fast: bool = False) -> Self:
        """Return a laboratory for the modules in a folder."""
        door = CryptoDoor().open(DoorContext("compat", folder, lambda entry: None))
        crypto = DoorBinding(door, CryptoDoor.max_body)
        return cls(folder, cache, upstream, JsLane(), Runner(cache), crypto, fast)

    async def aclose(self) -> None:
        """Stop the lane and the runner."""
        await self.runner.aclose()
        await self.crypto.door.aclose()
        await self.lane.aclose()

    async def run(self, case: Case, mode: BuildMode) -> Results:
        """Build a case and run its checks.

        Where a check ends the guest, each check runs in an instance of its own.
        """
        try:
            guest = await self.build(case.module, mode)
        except BuildFailed as error:
            return _failed(case, f"build: {_build_reason(error)}")
        results: Results | None
        results, reason = await self.ask(guest, "/")
        if results is not None:
            return results
        if len(case.checks) < 2:
            return _failed(case, reason)
        together: Results = {}
        for check in case.checks:
            results, reason = await self.ask(guest, f"/?check={check.replace(' ', '+')}")
            together |= results if results is not None else {check: {"error": reason}}
        return together

    async def run_together(self, cases: list[Case], mode: BuildMode) -> dict[str, Results]:
        """Run cases of one build, which takes less time than a build for each; return the results by module.

        A case that fails in that build is run in a build of its own.
        """
        name = f"together-{cases[0].name}.js"
        lines = [f"import c{n} from './{case.module}';\n" for n, case in enumerate(cases)]
        names = ", ".join(f"'/{case.kind}/{case.name}': c{n}" for n, case in enumerate(cases))
        (self.folder / name).write_text("".join(lines) + INDEX.format(names=names), encoding="utf-8")
        try:
            guest = await self.build(name, mode)
        except BuildFailed:
            return {case.module: await self.run(case, mode) for case in cases}
        by_module: dict[str, Results] = {}
        for case in cases:
            results, _ = await self.ask(guest, f"/{case.kind}/{case.name}")
            by_module[case.module] = await self.run(case, mode) if results is None else results
        return by_module

    async def build(self, module: str, mode: BuildMode) -> Guest:
        """Return a guest of a module. Raises `BuildFailed`."""
        resource = Resource(
            "api",
            "js",
            self.folder,
            entry=self.folder / module,
            egress=(self.upstream,),
            run_limit_secs=LIMIT_SECONDS,
        )
        request = BuildRequest(resource, self.folder, self.cache, mode, lambda line: None)
        artifact = await self.lane.build(request)
        environment = {
            "UPSTREAM": self.upstream,
            CryptoDoor.variables[0]: f"http://{CryptoDoor.name}.{DOMAIN}",
        }
        return await self.runner.guest(
            resource,
            artifact,
            environment,
            fast=artifact.script is None and self.fast,
            report=lambda line: None,
            doors={CryptoDoor.name: self.crypto},
        )

    async def ask(self, guest: Guest, target: str, body: bytes = b"") -> tuple[Any, str]:
        """Return the JSON of the response, or `None` and the reason. A body makes it a POST request."""
        exchange = _Exchange(target, body)
        lines: list[str] = []
        report: RunReport = await guest.run(
            GuestRequest(
                exchange=exchange,
                method="POST" if body else "GET",
                scheme="http",
                authority="api.localhost",
                target=target,
                headers=[(b"host", b"api.localhost"), (b"content-length", b"%d" % len(body))],
                env={},
                max_body=MAX_BODY,
                on_line=lambda stream, text: lines.append(text),
            )
        )
        if report.outcome == "ok" and exchange.status == 200:
            return json.loads(bytes(exchange.data)), ""
        return None, f"{report.outcome}: {report.detail}"[:MAX_REASON]


def _failed(case: Case, reason: str) -> Results:
    return {check: {"error": reason} for check in case.checks}


def _build_reason(error: BuildFailed) -> str:
    first = next(iter(error.diagnostics), None)
    return (first.message if first else str(error))[:MAX_REASON]
