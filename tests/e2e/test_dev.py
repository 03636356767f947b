import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import DevServer, dev_server, save
from tests.support.waiting import arrived_singly, until

pytestmark = pytest.mark.slow


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    save(path, text.replace(before, after))


def test_pulse_serves_its_page_numbers_and_events(pulse: DevServer) -> None:
    assert "<title>Pulse</title>" in pulse.get("/").text
    numbers = pulse.get("/api/now")
    assert numbers.json()["request"] == numbers.headers["x-request-id"]
    with httpx.stream("GET", pulse.url + "/api/events", timeout=60) as events:
        assert events.headers["content-type"] == "text/event-stream"
        times: list[float] = []
        for line in events.iter_lines():
            if line.startswith("data: "):
                json.loads(line[6:])
                times.append(time.monotonic())
            if arrived_singly(times, 0.5):
                break
            assert len(times) < 60
    request = pulse.wait_for(r"GET +/api/now")
    assert re.search(r"200 .*ms  cpu .*ms +[\d.]+ MiB  front → api  [0-9a-z]{26}", request)
    pulse.wait_for("/api/events .*client disconnected")


def raw_answer(port: int, host: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET /api/now HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    return re.sub(rb"[0-9a-z]{26}|date: [^\r]*", b"-", answer)


def test_private_resource_answers_like_a_missing_one(pulse: DevServer) -> None:
    private = raw_answer(pulse.port, "api--pulse.localhost")
    assert private == raw_answer(pulse.port, "nothing--pulse.localhost")
    assert private.startswith(b"HTTP/1.1 404")


def test_only_the_changed_resource_is_rebuilt(pulse: DevServer, pulse_project: Path) -> None:
    before = len(pulse.lines)
    edit(pulse_project / "api" / "src" / "index.js", "Response.json({", "Response.json({ saved: 1,")
    # A busy machine may build the file while it is written.
    pulse.wait_for("api rebuilt|api builds again", after=before)
    assert not any("front re" in line for line in pulse.lines[before:])


def test_deleted_folder_is_an_error_until_it_returns(pulse: DevServer, pulse_project: Path) -> None:
    before = len(pulse.lines)
    (pulse_project / "api" / "src").rename(pulse_project / "away")
    pulse.wait_for("error", after=before)
    assert pulse.get("/api/now").status_code == 200
    (pulse_project / "away").rename(pulse_project / "api" / "src")
    pulse.wait_for("api builds again, in", after=before)
    edit(pulse_project / "api" / "src" / "index.js", "Response.json({", "Response.json({ back: true,")
    pulse.until("/api/now", lambda answer: answer.json().get("back") is True)


def test_end_of_an_error_is_reported_for_a_static_folder_and_the_manifest(
    pulse: DevServer, pulse_project: Path
) -> None:
    before = len(pulse.lines)
    (pulse_project / "front").rename(pulse_project / "away")
    pulse.wait_for("front: still serving its folder: a missing file answers 404", after=before)
    (pulse_project / "away").rename(pulse_project / "front")
    pulse.wait_for("front builds again, in", after=before)
    manifest = (pulse_project / "svc.toml").read_text()
    save(pulse_project / "svc.toml", f"{manifest}\nx = [")
    pulse.wait_for("error: svc.toml has 1 mistake", after=before)
    pulse.wait_for(rf"svc\.toml:{manifest.count(chr(10)) + 2}  ", after=before)
    pulse.wait_for("still serving the last valid svc.toml", after=before)
    save(pulse_project / "svc.toml", manifest)
    pulse.wait_for("read svc.toml again; it is valid now: nothing changed", after=before)


def test_edit_of_the_manifest_prints_what_changed(pulse: DevServer, pulse_project: Path) -> None:
    before, file = len(pulse.lines), pulse_project / "svc.toml"
    manifest = file.read_text()
    more = '\n[resource.more]\nlane = "static"\noutput = "front"\n'
    save(file, manifest.replace("public = true", "public = true\nspa = true", 1) + more)
    pulse.wait_for("read svc.toml again: added more; changed front", after=before)
    save(file, manifest)
    pulse.wait_for("read svc.toml again: removed more; changed front", after=before)


def test_guest_failure_is_shown_in_the_terminal_and_on_the_page(
    pulse: DevServer, pulse_project: Path
) -> None:
    script = pulse_project / "api" / "src" / "index.js"
    edit(
        script,
        "const { pathname }",
        "if (request.url.endsWith('/boom')) throw new Error('kaputt');\n    const { pathname }",
    )
    answer = pulse.until("/api/boom", lambda answer: answer.status_code == 500)
    assert answer.json()["code"] == "guest-failed"
    page = pulse.get("/api/boom", headers={"accept": "text/html"}).text
    assert "kaputt" in page and "api/src/index.js:" in page
    pulse.wait_for(r"500 guest-failed")
    pulse.wait_for(r"STDERR +Error: kaputt")
    pulse.wait_for(r"at fetch \(api/src/index\.js:\d+:\d+\)")
    assert pulse.get("/api/now").status_code == 200


def test_save_is_served_and_a_faulty_save_is_not(pulse: DevServer, pulse_project: Path) -> None:
    script = pulse_project / "api" / "src" / "index.js"
    edit(script, "Response.json({", "Response.json({ mark: 'one',")
    pulse.until("/api/now", lambda answer: answer.json().get("mark") == "one")
    edit(script, "mark: 'one',", "mark: 'two' broken,")
    pulse.wait_for(r"api/src/index\.js:\d+:\d+")
    pulse.wait_for(r"\^")
    assert pulse.get("/api/now").json()["mark"] == "one"
    edit(script, "mark: 'two' broken,", "mark: 'three',")
    pulse.until("/api/now", lambda answer: answer.json().get("mark") == "three")
    (pulse_project / "front" / "new file.txt").write_text("hello")
    assert pulse.get("/new%20file.txt").text == "hello"
    text = script.read_text()
    script.write_text("")
    pulse.wait_for("is empty")
    assert pulse.get("/api/now").json()["mark"] == "three"
    save(script, text.replace("mark: 'three',", "mark: 'four',"))
    pulse.until("/api/now", lambda answer: answer.json()["mark"] == "four")


def test_manifest_edits_apply_without_a_restart(pulse: DevServer, pulse_project: Path) -> None:
    manifest = pulse_project / "svc.toml"
    text = manifest.read_text()
    edit(manifest, '"/api/*" = "api"', '"/api/*" = "api", "/now" = "api"')
    pulse.until("/now", lambda answer: "try /api/now" in answer.text)
    edit(manifest, 'lane = "js"', 'lane = "js"\npublic = true')
    host = {"host": "api--pulse.localhost"}
    until(lambda: pulse.get("/api/now", headers=host).status_code == 200)
    edit(manifest, "public = true", "pubic = true")
    pulse.wait_for("[Dd]id you mean")
    assert pulse.get("/api/now").status_code == 200
    edit(manifest, "pubic = true", "public = true")
    edit(manifest, "run_limit_secs = 30", "run_limit_secs = 1")
    pulse.until("/api/now", lambda answer: answer.status_code == 200)
    manifest.write_text(text)
    pulse.until("/now", lambda answer: "try /api/now" not in answer.text)


def test_stop_with_open_streams_is_clean(pulse: DevServer) -> None:
    stops_with_open_streams(pulse, signal.SIGTERM)


def stops_with_open_streams(server: DevServer, number: int) -> None:
    opened, ended = threading.Event(), threading.Event()

    def listen() -> None:
        stream = httpx.stream("GET", server.url + "/api/events", timeout=60)
        with contextlib.suppress(httpx.HTTPError), stream as events:
            for _ in events.iter_raw():
                opened.set()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    assert opened.wait(60)
    began = time.monotonic()
    assert server.stop(number) == 0
    assert time.monotonic() - began < 15
    assert ended.wait(15)
    assert not any("Traceback" in line for line in server.lines)


def test_second_start_serves_the_first_build_and_rebuilds_what_changed(
    project: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While `hang` exists, node does nothing, so only the build of the first start can be served."""
    script, hang, node = project / "api" / "src" / "index.js", tmp_path / "hang", tmp_path / "bin" / "node"
    node.parent.mkdir()
    node.write_text(f"#!/bin/sh\n[ -e '{hang}' ] && exec sleep 60\nexec '{shutil.which('node')}' \"$@\"\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{node.parent}{os.pathsep}{os.environ['PATH']}")
    with dev_server(project, home) as server:
        assert server.get("/api/now").status_code == 200
        stops_with_open_streams(server, signal.SIGINT)
    hang.touch()
    with dev_server(project, home) as server:
        assert server.get("/api/now").status_code == 200
        server.stop()
    hang.unlink()
    edit(script, "Response.json({", "Response.json({ mark: 'new',")
    with dev_server(project, home) as server:
        assert server.get("/api/now").json()["mark"] == "new"


def test_build_prints_digests_compiles_once_and_dev_release_serves_it(project: Path, home: Path) -> None:
    command = [sys.executable, "-m", "svc_tui", "build"]
    environ = {**os.environ, "SVC_HOME": str(home)}
    runs = []
    for _ in range(2):
        process = subprocess.run(
            command, cwd=project, env=environ, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr
        runs.append(re.findall(r"sha256:[0-9a-f]{64}", process.stdout))
    assert len(runs[0]) == 2 and runs[0] == runs[1]
    assert "making a component" not in process.stderr
    with dev_server(project, home, "--release") as server:
        assert server.get("/api/now").status_code == 200
        assert server.get("/style.css", headers={"accept-encoding": "br"}).headers["content-encoding"] == "br"


def test_failed_first_build_is_shown_on_the_page(tmp_path: Path, home: Path) -> None:
    (tmp_path / "svc.toml").write_text('[project]\nname="a"\n[resource.web]\nlane="js"\npublic=true\n')
    (tmp_path / "index.js").write_text("export default {\n  fetch() { return 1 +; }\n};\n")
    with dev_server(tmp_path, home) as server:
        answer = server.get("/", headers={"accept": "text/html"})
        assert answer.status_code == 503
        assert "index.js:2:23" in answer.text and "return 1 +;" in answer.text
        assert server.get("/").json()["code"] == "not-ready"


def test_build_command_that_writes_into_its_sources_ends(tmp_path: Path, home: Path) -> None:
    (tmp_path / "svc.toml").write_text(
        '[project]\nname="a"\n[resource.web]\nlane="static"\npublic=true\noutput="dist"\n'
        'build="mkdir -p dist; cp page.html dist/index.html; date +%N > stamp.txt; echo built"\n'
    )
    page = tmp_path / "page.html"
    page.write_text("one")
    with dev_server(tmp_path, home) as server:
        assert server.get("/").text == "one"
        server.wait_for("stamp.txt is written by the build of web")
        page.write_text("two")
        server.until("/", lambda answer: answer.text == "two")
        assert sum("built" in line for line in server.lines) < 8


def test_redirected_output_in_the_project_starts_no_build(tmp_path: Path, home: Path) -> None:
    root, builds = tmp_path / "a", tmp_path / "builds"
    root.mkdir()
    (root / "svc.toml").write_text(
        "[project]\nname='a'\n[resource.web]\nlane='static'\npublic=true\noutput='dist'\n"
        "build='echo >> ../builds; exit 1'\n"
    )

    def wait_for_builds(count: int) -> None:
        end = time.monotonic() + 60
        while not builds.exists() or len(builds.read_text()) < count:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        time.sleep(1)
        assert len(builds.read_text()) == count

    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0"]
    environ = {**os.environ, "SVC_HOME": str(home)}
    with (root / "dev.log").open("w") as log, (root / "errors.log").open("w") as errors:
        process = subprocess.Popen(command, cwd=root, env=environ, stdout=log, stderr=errors)
        try:
            wait_for_builds(1)
            (tmp_path / "page.html").touch()
            (tmp_path / "page.html").rename(root / "page.html")
            wait_for_builds(2)
        finally:
            process.terminate()
            process.wait(60)
    assert "exit status 1" in (root / "dev.log").read_text() + (root / "errors.log").read_text()


def test_dev_ends_when_its_pipe_is_closed(tmp_path: Path, home: Path) -> None:
    (tmp_path / "svc.toml").write_text(
        '[project]\nname="a"\n[resource.web]\nlane="static"\npublic=true\noutput="."\n'
    )
    (tmp_path / "index.html").write_text("hello")
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0"]
    environ = {**os.environ, "SVC_HOME": str(home)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        line = next(line for line in process.stdout if "http://localhost:" in line)
        next(line for line in process.stdout if "watching" in line)
        process.stdout.close()
        url = "http://localhost:" + line.partition("http://localhost:")[2].partition("/")[0]
        assert httpx.get(url, timeout=60).text == "hello"
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


def test_two_servers_of_one_project_build_in_turn_and_serve_each_save(tmp_path: Path, home: Path) -> None:
    command = (
        "test ! -e busy || { echo at once; exit 9; }; touch busy; sleep 0.2; mkdir -p dist; "
        "cp page.html dist/index.html; rm busy; echo built"
    )
    root = tmp_path / "a"
    root.mkdir()
    (root / "svc.toml").write_text(
        "[project]\nname='a'\n[resource.web]\nlane='static'\npublic=true\nworkdir='web'\noutput='dist'\n"
        f"build='{command}'\nmounts={{'/api'='api'}}\n[resource.api]\nlane='js'\nworkdir='api'\n"
    )
    (root / ".gitignore").write_text("busy\n")
    for folder in ("web", "api"):
        (root / folder).mkdir()
    page, script = root / "web" / "page.html", root / "api" / "index.js"
    page.write_text("one")
    script.write_text("export default { fetch: () => new Response('one') };\n")
    with dev_server(root, home) as first, dev_server(root, home) as second:
        assert first.port != second.port
        second.wait_for(rf"another svc dev \(process {first.process.pid}\) serves this project")
        for text in ("one", "two", "three"):
            save(page, text)
            save(script, f"export default {{ fetch: () => new Response('{text}') }};\n")
            for server in (first, second):
                server.until("/", lambda answer, text=text: answer.text == text)  # type: ignore[misc]
                server.until("/api", lambda answer, text=text: answer.text == text)  # type: ignore[misc]
        for server in (first, second):
            assert not any("at once" in line or "error" in line for line in server.lines), server.lines


def test_files_that_a_build_read_start_a_build_by_every_path_and_whatever_git_ignores(
    tmp_path: Path, home: Path
) -> None:
    """Workspaces link packages below `node_modules`, `workdir` is a link, and sources are generated."""
    root, outside = tmp_path / "a", tmp_path / "outside"
    (root / "packages" / "api" / "generated").mkdir(parents=True)
    (root / "packages" / "lib" / "target").mkdir(parents=True)
    (root / "node_modules" / "@me").mkdir(parents=True)
    outside.mkdir()
    for name in ("api", "lib"):
        (root / "packages" / name / "package.json").write_text(f'{{"name":"@me/{name}","type":"module"}}')
        (root / "node_modules" / "@me" / name).symlink_to(root / "packages" / name)
    (root / "node_modules" / "far").symlink_to(outside)
    (root / "linked").symlink_to("packages/api")
    (root / ".gitignore").write_text("generated/\n")
    (root / "svc.toml").write_text(
        '[project]\nname="a"\n[resource.api]\nlane="js"\npublic=true\nworkdir="linked"\n'
    )
    files = {
        root / "packages" / "api" / "generated" / "schema.js": "schema",
        root / "packages" / "lib" / "index.js": "lib",
        root / "packages" / "lib" / "target" / "t.js": "target",
        outside / "index.js": "far",
        root / "linked" / "own.js": "own",
    }
    for path, name in files.items():
        path.write_text(f"export const {name} = '{name}-1';\n")
    (root / "packages" / "api" / "index.js").write_text(
        "import { schema } from './generated/schema.js';\nimport { lib } from '@me/lib/index.js';\n"
        "import { target } from '@me/lib/target/t.js';\nimport { far } from 'far/index.js';\n"
        "import { own } from './own.js';\n"
        "export default { fetch: () => new Response([schema, lib, target, far, own].join(' ')) };\n"
    )
    with dev_server(root, home) as server:
        assert server.get("/").text == "schema-1 lib-1 target-1 far-1 own-1"
        for path, name in files.items():
            path.write_text(f"export const {name} = '{name}-2';\n")
            server.until("/", lambda answer, name=name: f"{name}-2" in answer.text)  # type: ignore[misc]
