"""Checks of the frameworks of `svc add`: a new project of each, served by `svc dev`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from asyncio import run
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.compat.workspace import PackagesMissing
from bench.processes import ROOT, svc_dev_process
from engine.lane import BuildRequest
from engine.manifest.load import load
from lanes.js.lane import JsLane

MANIFEST = '[project]\nname = "compat"\n\n[resource.other]\nlane = "static"\noutput = "other"\n'
_PAGES = {"Accept": "text/html"}
_FORMS = {"react-router": "/?index", "nuxt": "/api/rows"}
"""Paths that receive the form of the first page, where it is not `/`."""
_STREAMS = {"sveltekit": ("/", "() => [1]"), "nuxt": ("/export", "tea <1>")}
"""Paths whose responses are streamed, and the part that comes last, where it is not the number of rows."""
_PACKAGES = {"sveltekit": "@sveltejs/kit"}
_ERRORS = "select body from records where level = 'ERROR'"
_LINES = "select text from lines"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_COMPUTE = "select compute_ms from spans where resource = 'web-server' and target = '/' limit 1"


@dataclass(slots=True)
class FrameworkResult:
    """Failures by check, the bytes of the server's bundle, and the compute time of the first page."""

    name: str
    version: str = ""
    bundle: int = 0
    compute_ms: float = 0
    failures: dict[str, str] = field(default_factory=dict)


def checks(name: str, client: httpx.Client) -> dict[str, Callable[[], bool]]:
    """Return the checks of a framework, in their order, for a client of its first page."""
    path = _FORMS.get(name, "/")
    streamed, last = _STREAMS.get(name, ("/", "1 rows"))

    def text(answer: httpx.Response) -> str:
        return answer.text.replace("<!-- -->", "")

    def post(text: str) -> httpx.Response:
        return client.post(path, data={"author": "Ann", "text": text}, follow_redirects=False)

    def added() -> bool:
        answer = post("tea <1>")
        return (answer.status_code, answer.headers.get("location")) == (303, "/")

    def refused() -> bool:
        answer = post("")
        # SvelteKit answers with 200 when it streams a page.
        return answer.status_code == (200 if name == "sveltekit" else 400) and "Write a text." in answer.text

    def missing() -> bool:
        answer = client.get("/nope")
        return answer.status_code == 404 and "<h1" in answer.text

    return {
        "page": lambda: "<form" in client.get("/").text,
        "form and redirect": added,
        "rows": lambda: "<li>tea &lt;1" in text(client.get("/")),
        "cookie": lambda: 'value="Ann"' in text(client.get("/")),
        "streaming": lambda: last in text(client.get(streamed)),
        "refused form": refused,
        "file": lambda: "This page is a file" in client.get("/about").text,
        "404": missing,
        "page in a browser": lambda: "Uncaught" not in browser_log(str(client.base_url)),
    }


def save_checks(name: str, project: Path, client: httpx.Client) -> dict[str, Callable[[], bool]]:
    """Return checks of builds after saves of the first page, in their order."""
    heading = "<h1>web</h1>"
    sources = (path for part in ("src", "app") for path in (project / "web" / part).rglob("*.*"))
    page = next(path for path in sources if heading in path.read_text())
    original = page.read_text()

    def saved(text: str) -> None:
        page.write_text(original.replace(heading, text))

    def until(shown: Callable[[], bool]) -> bool:
        end = time.monotonic() + 180
        while not (done := shown()) and time.monotonic() < end:
            time.sleep(1)
        return done

    def logged(query: str, text: str) -> bool:
        command = [sys.executable, "-m", "svc_tui", "logs", "--dev", "--json", "--sql", query]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return text in subprocess.check_output(command, cwd=project, env=environment, text=True)

    def thrown() -> bool:
        code = "{{ [][0].x }}" if page.suffix == ".vue" else "{[][0].x}"
        saved(f"<h1>{code}</h1>")
        return until(lambda: client.get("/").status_code == 500 and logged(_LINES, f"{page.name}:"))

    def shown(text: str) -> bool:
        saved(f"<h1>{text}</h1>")
        return until(lambda: text in client.get("/").text)

    def error() -> bool:
        if name == "sveltekit":  # the build of its server succeeds, that of the part for browsers fails
            page.write_text(original.replace("<script>", "<script>\n  import '$env/dynamic/private';"))
        else:
            saved("<h1>{{web(</h1>")
        return until(lambda: logged(_ERRORS, page.name))

    return {
        "position of an error": thrown,
        "save": lambda: shown("saved"),
        "saved page in a browser": lambda: "Uncaught" not in browser_log(str(client.base_url)),
        "error of a build": error,
        "save after it": lambda: shown("mended"),
    }


def browser_log(url: str) -> str:
    """Return what a page writes to the console of Chromium."""
    program = next(filter(None, map(shutil.which, _BROWSERS)))
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += ["--virtual-time-budget=5000", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stderr


def try_framework(name: str, cache: Path, *options: str) -> FrameworkResult:
    """Create a project with a framework, serve it and run the checks. Raises `PackagesMissing`."""
    with tempfile.TemporaryDirectory(prefix="svc-compat-") as temporary:
        project = Path(temporary).resolve()
        (project / "svc.toml").write_text(MANIFEST)
        (project / "other").mkdir()
        svc = [sys.executable, "-m", "svc_tui"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        subprocess.run(
            [*svc, "add", name, "web"], cwd=project, env=environment, check=True, capture_output=True
        )
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        installed = subprocess.run(npm, cwd=project / "web", capture_output=True, text=True, check=False)
        if installed.returncode:
            raise PackagesMissing(installed.stderr[-300:])
        package = project / "web" / "node_modules" / _PACKAGES.get(name, name) / "package.json"
        result = FrameworkResult(name, json.loads(package.read_text())["version"])
        with svc_dev_process(project, *options) as (port, _):
            url = f"http://localhost:{port}"
            headers = {**_PAGES, "Origin": url}
            with httpx.Client(base_url=url, headers=headers, follow_redirects=True, timeout=60) as client:
                for check, passes in checks(name, client).items():
                    if not passes():
                        result.failures[check] = "fails"
                result.bundle = run(_bundle_size(project, cache))
                for check, passes in save_checks(name, project, client).items():
                    if not options and not passes():
                        result.failures[check] = "fails"
            query = [*svc, "logs", "--dev", "--json", "--sql", _COMPUTE]
            rows = subprocess.run(
                query, cwd=project, env=environment, capture_output=True, text=True, check=True
            )
            result.compute_ms = json.loads(rows.stdout.splitlines()[0])["compute_ms"]
        return result


async def _bundle_size(project: Path, cache: Path) -> int:
    """Return the bytes of the bundle of the server, whose entry the build wrote."""
    lane = JsLane()
    try:
        resource = load(project).resources["web-server"]
        artifact = await lane.build(BuildRequest(resource, project, cache, "dev", lambda line: None))
        return len((artifact.script or "").encode())
    finally:
        await lane.aclose()
