"""`svc login` and related commands against a real service, and stored sessions."""

import http.server
import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import InvalidUsage, SvcError
from svc_tui import version
from svc_tui.client import Client
from svc_tui.client.credentials import (
    SESSIONS_FILE,
    Credentials,
    CredentialStore,
    NotLoggedIn,
    check_encryption,
    is_claimed,
    log_in,
    service_url,
)
from svc_tui.console.start import LoginActions
from svc_tui.main import run
from tests.engine.control.service import PASSWORD, Service, running

pytestmark = pytest.mark.usefixtures("home")
Svc = Callable[..., tuple[int, str, str]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path / "data") as service:
        yield service


@pytest.fixture
def svc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Svc:
    def svc(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = run(list(arguments))
        output = capsys.readouterr()
        return code, output.out, output.err

    return svc


def sessions(home: Path) -> dict[str, object]:
    return dict(json.loads((home / SESSIONS_FILE).read_text()))


def claimed(svc: Svc, service: Service) -> None:
    code = service.do(service.gate.accounts.new_claim_code)
    arguments = ("login", service.url, "--user", "ann", "--claim", code, "--password-stdin")
    assert svc(*arguments, stdin=PASSWORD + "\n")[:2] == (0, f"logged in to {service.url} as ann\n")


def test_login_claims_the_service_and_logs_in_again(svc: Svc, service: Service, home: Path) -> None:
    claimed(svc, service)
    assert svc("whoami")[:2] == (0, f"ann at {service.url}\n  owner of all projects\n")
    assert (home / SESSIONS_FILE).stat().st_mode & 0o077 == 0
    assert svc("logout")[:2] == (0, f"logged out of {service.url}\n")
    code, out, err = svc("whoami")
    assert (code, out) == (3, "") and "svc login" in err
    port = service.url.rpartition(":")[2]
    login = ("login", f"LOCALHOST:{port}/", "-u", "ann", "--password-stdin")
    assert svc(*login, stdin=PASSWORD)[:2] == (0, f"logged in to http://localhost:{port} as ann\n")
    result = json.loads(svc("whoami", "--json")[1])
    assert result["user"] == "ann" and result["roles"] == {"*": "owner"}


def test_login_with_invalid_input_fails(svc: Svc, service: Service) -> None:
    first = ("login", service.url, "-u", "ann", "--password-stdin")
    code, _, err = svc(*first, stdin=PASSWORD)
    assert code == 2 and "--claim CODE" in err
    assert svc(*first, "--claim", "wrong", stdin=PASSWORD)[0] == 3
    right = service.do(service.gate.accounts.new_claim_code)
    named = svc("login", service.url, "-u", "Änn", "--claim", right, "--password-stdin", stdin=PASSWORD)
    assert named[0] == 2 and "'Änn' is not a valid user name" in named[2]
    claimed(svc, service)
    second = svc(*first, "--claim", "x", stdin=PASSWORD)
    assert second[0] == 5 and "already has an owner" in second[2]
    wrong = svc(*first, stdin="another one\n")
    assert wrong[0] == 3 and "user name or the password is wrong" in wrong[2]
    assert svc(*first, stdin="")[0] == 2
    assert svc(*first, stdin="x" * 10_000_000)[0] == 2
    result = svc("login", service.url, "-u", "ann")
    assert result[0] == 2 and "stdin is not a terminal" in result[2]
    assert svc("login", service.url, "--data", "x")[0] == 2


def test_session_revoked_elsewhere_has_expired(svc: Svc, service: Service, home: Path) -> None:
    claimed(svc, service)
    service.call(str(dict(sessions(home)["services"])[service.url]["token"]), "POST", "/v1/logout")  # type: ignore[call-overload]
    for command in (("whoami",), ("token", "list")):
        code, out, err = svc(*command)
        assert (code, out) == (3, "") and f"the session with {service.url} has expired" in err
        assert f"`svc login {service.url}`" in err
    assert svc("logout")[0] == 0 and sessions(home)["services"] == {}


def test_logout_of_an_unreachable_service_deletes_the_session(svc: Svc, tmp_path: Path, home: Path) -> None:
    with running(tmp_path / "data") as service:
        claimed(svc, service)
    assert svc("whoami")[0] == 3
    assert svc("logout", "--everywhere")[0] == 3
    code, _, err = svc("logout")
    assert code == 0 and "cannot end the session" in err and sessions(home)["services"] == {}


def test_token_commands_create_list_and_revoke(
    svc: Svc, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(svc, service)
    code, token, err = svc("token", "create", "ci", "--project", "shop", "--days", "7")
    assert code == 0 and service.url in err and token.startswith("svct_")
    assert svc("token", "create", "ci")[0] == 5
    listed = svc("token", "list")[1]
    assert listed.splitlines()[1].split()[:4] == ["ci", "deployer", "shop", "never"]
    assert token.strip() not in listed
    monkeypatch.setenv("SVC_TOKEN", token.strip())
    assert svc("whoami")[0] == 3
    monkeypatch.setenv("SVC_URL", service.url)
    assert svc("whoami")[1].splitlines() == [f"ann (token ci) at {service.url}", "  deployer of shop"]
    assert svc("token", "list")[0] == 1 and svc("logout")[0] == 2
    monkeypatch.delenv("SVC_TOKEN")
    assert svc("token", "rm", "ci", "-y")[0] == 0 and svc("token", "rm", "../users/ann", "-y")[0] == 1
    monkeypatch.setenv("SVC_TOKEN", token.strip())
    assert svc("whoami")[0] == 3


def test_user_commands_manage_users_and_roles(svc: Svc, service: Service) -> None:
    claimed(svc, service)
    assert svc("user", "add", "bob", "--role", "viewer", "--password-stdin", stdin=PASSWORD)[0] == 0
    assert svc("user", "add", "bob", "--password-stdin", stdin=PASSWORD)[0] == 5
    assert svc("user", "role", "bob", "owner", "--project", "shop")[0] == 0
    assert svc("user", "role", "bob", "none")[1] == "bob now has no role in all projects\n"
    assert svc("user", "list")[1] == "ann  owner of all projects\nbob  owner of shop\n"
    assert svc("user", "rm", "ann", "--yes")[0] == 5
    assert svc("user", "password", "bob", "--password-stdin", stdin="the new one of bob")[0] == 0
    assert svc("user", "password", "eve", "--password-stdin", stdin=PASSWORD)[0] == 1
    assert svc("user", "password", "--password-stdin", stdin=f"{PASSWORD}\nanother horse\n")[0] == 0
    assert svc("whoami")[0] == 0
    assert svc("login", service.url, "-u", "bob", "--password-stdin", stdin="the new one of bob")[0] == 0
    assert svc("user", "rm", "ann", "--yes")[0] == 1
    assert svc("user", "list")[1] == "bob  owner of shop\n"


def test_project_stays_linked_to_its_service(svc: Svc, service: Service, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    (project / "deep").mkdir(parents=True)
    (project / "svc.toml").touch()
    logins = CredentialStore.from_environment(os.environ)
    logins.save(Credentials("https://one.example", "https://one.example", token="t1"))
    logins.link_project(project, "https://one.example")
    claimed(svc, service)
    assert logins.get().key == service.url
    assert logins.get(project).key == "https://one.example"
    logins.delete("https://one.example")
    with pytest.raises(NotLoggedIn, match=r"to https://one\.example"):
        logins.get(project)
    os.chdir(project / "deep")
    result = svc("login", service.url, "-u", "ann", "--password-stdin", stdin=PASSWORD)
    assert result[0] == 0 and str(project) in result[2] and logins.get(project).key == service.url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"version": 1}',
        '{"version": 1, "current": 1, "services": {}}',
        '{"version": 1, "current": "", "services": {"https://a": 1}}',
    ],
)
def test_corrupt_sessions_file_is_reported_and_renamed_by_login(
    svc: Svc, service: Service, text: str, home: Path
) -> None:
    home.mkdir()
    (home / SESSIONS_FILE).write_text(text)
    code, _, err = svc("whoami")
    assert code == 3 and "is corrupt" in err and "svc login" in err
    claimed(svc, service)
    assert svc("whoami")[0] == 0 and (home / f"{SESSIONS_FILE}.damaged").read_text() == text


def test_login_with_an_unwritable_home_fails(
    svc: Svc, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "file" / "home"))
    code = service.do(service.gate.accounts.new_claim_code)
    result = svc("login", service.url, "-u", "ann", "--claim", code, "--password-stdin", stdin=PASSWORD)
    assert result[0] == 1 and "SVC_HOME" in result[2]


@pytest.mark.parametrize(
    "typed",
    [
        "",
        " ",
        "ftp://a.example",
        "https://",
        "https://u:p@a.example",
        "https://a.example/path",
        "a b",
        "https://a.example?x",
        "https://a.example#x",
        "a.example:99999",
        "a.example:x",
        "https://[::1",
        "a\nb",
        "file:///etc/passwd",
        "https://a\x1b[2J.example",
        "https://" + "a" * 300 + ".example",
    ],
)
def test_service_url_of_invalid_text_raises(svc: Svc, typed: str) -> None:
    with pytest.raises(InvalidUsage):
        service_url(typed)
    if typed:
        assert svc("login", typed, "-u", "ann", "--password-stdin", stdin=PASSWORD)[0] == 2


def test_login_over_http_fails_unless_insecure(svc: Svc, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = svc("login", "http://svc.example.com", "-u", "ann", "--password-stdin", stdin=PASSWORD)
    assert code == 2 and "unencrypted" in err and "--insecure" in err
    assert check_encryption("http://svc.example.com", insecure=True)
    for url in ("https://svc.example.com", "http://127.0.0.1:1", "http://[::1]:1", "http://x.localhost"):
        assert not check_encryption(url, insecure=False)
    monkeypatch.setenv("SVC_URL", "http://svc.example.com")
    monkeypatch.setenv("SVC_TOKEN", "t")
    assert svc("whoami")[0] == 2
    monkeypatch.setenv("SVC_INSECURE", "1")
    assert CredentialStore.from_environment(os.environ).get().insecure


ANSWERS = {
    "a page": (200, "text/html", b"<html>hello</html>"),
    "other json": (200, "application/json", b'{"hello": "world"}'),
    "a list": (200, "application/json", b"[]"),
    "deep": (200, "application/json", b"[" * 100_000),
    "a newer api": (200, "application/json", b'{"status": "ok", "api": "99"}'),
    "a redirect": (302, "text/html", b""),
    "a failure": (500, "text/html", b"oh"),
    "an application": (404, "application/problem+json", b'{"title": "Not Found", "code": "not-found"}'),
    "a sequence": (404, "application/problem+json", b'{"title": "\\u001b[2J\\u0007", "code": "x"}'),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_login_sends_no_password_to_other_servers(svc: Svc, name: str) -> None:
    status, kind, content = ANSWERS[name]
    requests = []

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.command, self.path))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.send_header("location", "https://elsewhere.example/")
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, out, err = svc("login", url, "-u", "ann", "--password-stdin", stdin=PASSWORD)
        server.shutdown()
        thread.join()
    assert code in (1, 3) and out == "" and "\x1b" not in err and "Traceback" not in err
    assert requests == [("GET", "/v1/health")]
    assert name != "an application" or (code == 3 and "is not a svc service" in err and "control API" in err)


@pytest.mark.parametrize("token", ["a\nb", "ü", "\x1b[2J"])
def test_invalid_svc_token_is_rejected(svc: Svc, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("SVC_URL", "https://svc.example.com")
    monkeypatch.setenv("SVC_TOKEN", token)
    code, _, err = svc("whoami")
    assert code == 3 and "SVC_TOKEN is not a valid token" in err and "unset it" in err


def test_expired_svc_token_has_a_hint(svc: Svc, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed(svc, service)
    token = svc("token", "create", "ci", "--role", "owner")[1].strip()
    monkeypatch.setenv("SVC_URL", service.url)
    monkeypatch.setenv("SVC_TOKEN", token)
    code, _, err = svc("user", "add", "bob", "--password-stdin", stdin=PASSWORD)
    assert code == 1 and "unset SVC_TOKEN" in err
    code, _, err = svc("token", "create", "other")
    assert code == 1 and "unset SVC_TOKEN" in err
    monkeypatch.setenv("SVC_TOKEN", token[:-1] + "~")
    for command in (("whoami",), ("token", "list"), ("user", "list"), ("gc",)):
        code, _, err = svc(*command)
        assert code == 3 and f"{service.url} rejected SVC_TOKEN" in err
        assert "`svc token create`" in err and "unset it" in err and "svc login" not in err
    with pytest.raises(SvcError, match="SVC_TOKEN is set"):
        LoginActions().is_claimed(service.url)
    monkeypatch.delenv("SVC_TOKEN")
    assert svc("whoami")[0] == 0


def test_login_without_url_uses_svc_url(svc: Svc, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed(svc, service)
    monkeypatch.setenv("SVC_URL", service.url)
    assert svc("login", "-u", "ann", "--password-stdin", stdin=PASSWORD)[0] == 0
    monkeypatch.setenv("SVC_URL", "https://other.example")
    code, _, err = svc("whoami")
    assert code == 3 and "https://other.example" in err


@pytest.mark.parametrize(
    ("health", "service_version"),
    [({"status": "ok", "api": "1", "version": "9.9.9"}, "9.9.9"), ({"status": "ok", "api": "2"}, "API 2")],
)
def test_login_at_a_service_of_another_version_names_both_versions(
    health: dict[str, str], service_version: str
) -> None:
    class Stub:
        url = "https://svc.example.com"

        def call(self, method: str, path: str) -> dict[str, str]:
            assert path == "/v1/health"
            return health

    with pytest.raises(SvcError) as exc_info:
        is_claimed(Stub())  # type: ignore[arg-type]
    expected = f"version mismatch: this is svc {version()}, https://svc.example.com runs {service_version}"
    assert (exc_info.value.message, exc_info.value.hint) == (expected, "Install the same version on both.")


def test_prompt_without_a_terminal_names_the_options_of_its_command(svc: Svc, service: Service) -> None:
    assert "hint: Pass --claim CODE. Pass --user" in svc("login", service.url)[2]
    claimed(svc, service)
    for words in (("user", "add", "bob"), ("user", "password")):
        code, _, err = svc(*words)
        assert code == 2 and "hint: Pass --password-stdin, and pipe the password.\n" in err


@pytest.mark.parametrize("words", [("user", "rm", "ann"), ("token", "rm", "ci")])
def test_removal_that_cannot_be_undone_asks_first(svc: Svc, service: Service, words: tuple[str, ...]) -> None:
    claimed(svc, service)
    code, _, err = svc(*words)
    assert code == 2 and "cannot prompt for" in err and "hint: Pass --yes." in err


def test_login_at_an_unused_address_fails(svc: Svc) -> None:
    code, _, err = svc("login", "127.0.0.1:1", "-u", "ann", "--password-stdin", stdin=PASSWORD)
    assert code == 3 and "cannot connect" in err


def test_login_on_a_terminal_prompts_without_echo(service: Service) -> None:
    code = service.do(service.gate.accounts.new_claim_code)
    script = [
        ("claim code: ", "wrong"),
        ("claim code: ", code),
        ("]: ", "ann"),
        ("characters: ", PASSWORD),
        ("again: ", PASSWORD),
    ]
    terminal, child_end = pty.openpty()
    command = [sys.executable, "-m", "svc_tui", "login", service.url]
    child = subprocess.Popen(
        command, stdin=child_end, stdout=child_end, stderr=child_end, start_new_session=True
    )
    os.close(child_end)
    result = ""
    for question, answer in script:
        while question not in result:
            result += os.read(terminal, 4096).decode()
        before, _, result = result.partition(question)
        assert PASSWORD not in before
        os.write(terminal, answer.encode() + b"\n")
    try:
        while data := os.read(terminal, 4096):
            result += data.decode()
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert child.wait(60) == 0
    assert f"logged in to {service.url} as ann" in result and PASSWORD not in result


def test_claim_with_short_password_names_its_length_before_calling_the_service() -> None:
    client = Client("http://localhost:1", "", 1.0)
    with client, pytest.raises(SvcError, match="the password has 5 characters; at least 10 are required"):
        log_in(client, "ann", "short", "code")
