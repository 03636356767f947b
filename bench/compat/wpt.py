"""Web platform tests in js guests: the files of some folders that need neither a browser nor wptserve."""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.compat.guest import Laboratory
from engine.lane import BuildMode
from engine.wasm.execution.runner import Guest

FOLDERS = (
    "url",
    "encoding",
    "streams",
    "FileAPI",
    "compression",
    "WebCryptoAPI",
    "fetch/api",
    "fetch/data-urls",
)
HARNESS = "/resources/testharness.js"
ALIASES = {"/resources/WebIDLParser.js": "/resources/webidl2/lib/webidl2.js"}
"""Paths that wptserve maps to others."""
PASS, PRECONDITION_FAILED = 0, 4
LIMIT_MS = {"": 15_000, "long": 60_000}
CONCURRENT = 2
_META = re.compile(r"^// META: (\w+)=(.*)$", re.MULTILINE)
_NEEDS_BROWSER = re.compile(r"\.py\b|\{\{|\.sub\.|\bXMLHttpRequest\b")
"""Signs of a file that calls handlers of wptserve, or an API of pages."""
_STRICT = re.compile(r"""(?:\s|//.*\n)*['"]use strict['"]""")


@dataclass(frozen=True, slots=True)
class TestFile:
    """A test file with one variant of its query. `scripts` are paths below the checkout."""

    path: str
    variant: str
    scripts: tuple[str, ...]
    limit: int


@dataclass(slots=True)
class FolderResult:
    """The subtests of a folder: passed in all modes, of all that ran in any."""

    name: str
    files: int = 0
    passed: int = 0
    total: int = 0
    ended: list[str] = field(default_factory=list)


def test_files(root: Path, folder: str) -> Iterator[TestFile]:
    """Yield the test files of a folder that a guest can run, sorted by path."""
    for path in sorted((root / folder).rglob("*.any.js")):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        metas = _META.findall(text)
        scopes = next((value for key, value in metas if key == "global"), "window,dedicatedworker")
        scripts = [_resolved(name, value.strip()) for key, value in metas if key == "script"]
        places = [root / script.lstrip("/") for script in scripts]
        if "worker" not in scopes or _unsettled(name) or ".h2." in name:
            continue
        if not all(place.is_file() for place in places):
            continue
        if any(
            _NEEDS_BROWSER.search(each) for each in (name, text, *scripts, *(p.read_text() for p in places))
        ):
            continue
        limit = LIMIT_MS["long" if ("timeout", "long") in metas else ""]
        for variant in [value for key, value in metas if key == "variant"] or [""]:
            yield TestFile(name, variant, (*scripts, f"/{name}"), limit)


def _unsettled(name: str) -> bool:
    """Return whether a file is about a proposal. Compression has become a standard."""
    return ".tentative." in name and not name.startswith("compression/")


def _resolved(name: str, script: str) -> str:
    absolute = script if script.startswith("/") else f"/{Path(name).parent.as_posix()}/{script}"
    return ALIASES.get(absolute, absolute)


@contextlib.contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve the files of the checkout on the loopback interface, and yield the origin."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


async def run(
    root: Path, laboratory: Laboratory, modes: tuple[BuildMode, ...], chosen: tuple[str, ...]
) -> list[FolderResult]:
    """Run the files whose path begins with one of `chosen`; the laboratory's upstream serves the checkout."""
    guests = [await laboratory.build("wpt.js", mode) for mode in modes]
    free = asyncio.Semaphore(CONCURRENT)

    async def run_one(test: TestFile, result: FolderResult) -> None:
        async with free:
            answers = [await _ask(root, laboratory, guest, test) for guest in guests]
        _count(test, answers, result)

    results = []
    for folder in FOLDERS:
        tests = [test for test in test_files(root, folder) if test.path.startswith(chosen)]
        if tests:
            result = FolderResult(folder, files=len({test.path for test in tests}))
            await asyncio.gather(*(run_one(test, result) for test in tests))
            print(f"wpt/{folder}: {result.passed}/{result.total}", flush=True)
            results.append(result)
    return results


async def _ask(root: Path, laboratory: Laboratory, guest: Guest, test: TestFile) -> dict[str, Any]:
    harness, *scripts = [
        (root / name.lstrip("/")).read_text(encoding="utf-8") for name in (HARNESS, *test.scripts)
    ]
    # eval() has a scope of its own for `const` and `let`, so all scripts are one text.
    strict = '"use strict";\n' if all(map(_STRICT.match, scripts)) else ""
    body = {
        "location": f"{laboratory.upstream}/{test.path}{test.variant}",
        "harness": harness,
        "scripts": strict + "\n;".join(scripts),
        "limit": test.limit,
    }
    answer, reason = await laboratory.ask(guest, "/", json.dumps(body).encode())
    return answer if answer is not None else {"status": -1, "message": reason, "tests": []}


def _count(test: TestFile, answers: list[dict[str, Any]], result: FolderResult) -> None:
    """Add the subtests of a file. A file without any counts as a failed subtest."""
    messages: dict[str, str] = {}
    names: dict[str, None] = {}
    for answer in answers:
        if answer["status"] < 0:
            result.ended.append(f"{test.path}{test.variant}")
        if answer["status"] < 0 or not answer["tests"]:
            messages["the file"] = str(answer["message"])
        for name, status, message in answer["tests"]:
            if status == PRECONDITION_FAILED:
                continue
            names[name] = None
            if status != PASS:
                messages.setdefault(name, str(message))
    for name in messages:
        names[name] = None
    result.total += len(names)
    result.passed += len(names) - len(messages)
    if messages:
        passed = len(names) - len(messages)
        print(f"{test.path}{test.variant}: {passed}/{len(names)}", flush=True)
        for name, message in messages.items():
            print(f"  {name}: {message}"[:300], flush=True)
