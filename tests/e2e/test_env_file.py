"""Secrets from the file `.env`: in `svc dev`, in capsules, and sent to a service."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.support.dev_server import dev_server, save
from tests.support.service import Server, environ_of, login, run, run_process, static_project
from tests.support.waiting import until

pytestmark = pytest.mark.slow

ECHO = "export default { fetch: (request, env) => new Response(`${env.KEY} ${env.WON} ${env.OTHER}`) };"


def test_development_takes_secrets_from_the_file_and_reads_it_again(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "shop"
    (project / "src").mkdir(parents=True)
    (project / "src" / "index.js").write_text(ECHO)
    (project / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.web]\nlane = "js"\npublic = true\nsecrets = ["KEY", "WON"]\n'
    )
    (project / ".env").write_text("KEY=one-of-the-file\nWON=of-the-file\nOTHER=undeclared\n")
    monkeypatch.setenv("WON", "of-the-environment")
    with dev_server(project, home) as dev:
        answer = dev.get("/")
        assert answer.text == "one-of-the-file of-the-environment undefined"
        assert not any("has no value" in line for line in dev.lines)
        capsule, request = tmp_path / "bug.svccap", answer.headers["x-request-id"]
        dev.wait_for(request)
        command = ("capsule", request, "-o", str(capsule), "--yes")
        until(lambda: run(project, os.environ | {"SVC_HOME": str(home)}, *command).returncode == 0)
        with zipfile.ZipFile(capsule) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist())
        assert b"one-of-the-file" not in content and b"of-the-environment" not in content
        before = len(dev.lines)
        save(project / ".env", "KEY=two\nnonsense\n")
        dev.wait_for(r"\.env:2: not a variable", after=before)
        assert dev.get("/").text.startswith("one-of-the-file")
        save(project / ".env", "KEY=two\n")
        dev.wait_for(r"read \.env again: changed KEY", after=before)
        dev.until("/", lambda answer: answer.text == "two of-the-environment undefined")
    (project / ".env").write_text("KEY\n")
    refused = run_process(project, environ_of(tmp_path / "home"), "dev", "--port", "0")
    assert refused.returncode == 1 and ".env:1: not a variable" in refused.stderr


def test_push_sends_the_declared_secrets_of_the_file_after_a_question(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ)
    try:
        project = static_project(tmp_path / "shop")
        manifest = project / "svc.toml"
        manifest.write_text(manifest.read_text() + 'secrets = ["KEY", "TOKEN"]\n')
        login(server, project, environ)
        (project / ".env").write_text('KEY=one\nTOKEN="two\nlines"\nOTHER=3\n')
        asked = run(project, environ, "secret", "push", ".env")
        assert asked.returncode != 0 and "set KEY, TOKEN of shop at" in asked.stderr
        assert run(project, environ, "secret", "list").stdout == ""
        pushed = run(project, environ, "secret", "push", ".env", "--yes")
        assert pushed.returncode == 0 and "declares no such secrets: OTHER" in pushed.stderr
        assert run(project, environ, "secret", "list").stdout.split() == ["KEY", "TOKEN"]
        assert "one" not in pushed.stderr + pushed.stdout
        (project / ".env").write_text(f"KEY={'x' * (64 << 10)}x\n")
        large = run(project, environ, "secret", "push", "--yes")
        assert large.returncode == 1 and "the value of KEY is larger than 64 KiB" in large.stderr
        (project / ".env").write_text("OTHER=3\n")
        none = run(project, environ, "secret", "push", "--yes")
        assert none.returncode == 1 and "Declared: KEY, TOKEN." in none.stderr
    finally:
        server.stop()
