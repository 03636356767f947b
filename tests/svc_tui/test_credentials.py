"""Stored sessions: the file, the keyring, and normalized URLs."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from svc_tui.client.credentials import (
    SESSIONS_FILE,
    Credentials,
    CredentialStore,
    Keyring,
    NotLoggedIn,
    service_url,
)
from svc_tui.user_home import Home

pytestmark = pytest.mark.usefixtures("home")
BACKENDS = """
import threading
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError

KEPT = {}

class Working(KeyringBackend):
    priority = 5
    def set_password(self, service, name, secret):
        KEPT[service, name] = secret
    def get_password(self, service, name):
        return KEPT.get((service, name))
    def delete_password(self, service, name):
        del KEPT[service, name]

class Plain(Working):
    priority = 0.5

class Failing(Working):
    def set_password(self, service, name, secret):
        raise KeyringError("locked")
    get_password = delete_password = set_password

class Odd(Failing):
    def set_password(self, service, name, secret):
        raise ZeroDivisionError

class Forgetful(Working):
    def set_password(self, service, name, secret):
        pass

class Hanging(Working):
    def set_password(self, service, name, secret):
        threading.Event().wait()
    get_password = delete_password = set_password
"""


@pytest.mark.parametrize(
    "known", [{}, {"token": 1}, {"token": "a\nb"}, {"token": "ü"}, {"keyring": True}, {"folder": 1}]
)
def test_session_without_a_token_is_not_logged_in(known: dict[str, object], home: Path) -> None:
    home.mkdir()
    url = "https://a.example"
    (home / SESSIONS_FILE).write_text(json.dumps({"version": 1, "current": url, "services": {url: known}}))
    with pytest.raises(NotLoggedIn):
        CredentialStore.from_environment(os.environ).get()


def test_sessions_file_readable_by_others_gets_mode_0600(home: Path) -> None:
    logins = CredentialStore.from_environment(os.environ)
    logins.save(Credentials("https://a.example", "https://a.example", token="secret"))
    (home / SESSIONS_FILE).chmod(0o644)
    assert logins.get().token == "secret" and (home / SESSIONS_FILE).stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "in_keyring"),
    [
        ("Working", True),
        *((name, False) for name in ("Plain", "Failing", "Odd", "Forgetful", "Hanging", "Missing")),
    ],
)
def test_token_is_stored_in_a_working_keyring(
    tmp_path: Path, backend: str, in_keyring: bool, home: Path
) -> None:
    (tmp_path / "backends.py").write_text(BACKENDS)
    program = (
        "import os, sys; from svc_tui.user_home import Home; from svc_tui.client.credentials import Keyring\n"
        "from svc_tui.client.credentials import Credentials, CredentialStore\n"
        "seconds = 0.5 if 'Hanging' in os.environ['PYTHON_KEYRING_BACKEND'] else 60\n"
        "store = CredentialStore(Home.from_environment(os.environ), os.environ, Keyring(seconds))\n"
        "url = 'https://a.example'\n"
        "store.save(Credentials(url, url, token='secret of bob', user='bob'))\n"
        "saved = store.save(Credentials(url, url, token='secret', user='ann'))\n"
        "print(saved, store.get().token); store.delete(url)\n"
        "print(getattr(sys.modules.get('backends'), 'KEPT', {}))\n"
    )
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "PYTHON_KEYRING_BACKEND": f"backends.{backend}",
    }
    process = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert (process.stdout, process.stderr) == (f"{in_keyring} secret\n{{}}\n", "")
    assert "secret" not in (home / SESSIONS_FILE).read_text()


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("svc.example.com", "https://svc.example.com"),
        ("https://SVC.example.com:443/", "https://svc.example.com"),
        ("http://svc.example.com:80", "http://svc.example.com"),
        ("svc.example.com:8443", "https://svc.example.com:8443"),
        ("localhost:8081", "http://localhost:8081"),
        ("127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("[::1]:8081", "http://[::1]:8081"),
        (" https://a.example. ", "https://a.example"),
    ],
)
def test_service_url_returns_the_normal_form(typed: str, url: str) -> None:
    assert service_url(typed) == url


def test_concurrent_logins_are_all_saved() -> None:
    def login(number: int) -> None:
        url = f"https://s{number}.example"
        CredentialStore(Home.from_environment(os.environ), os.environ, Keyring(0)).save(
            Credentials(url, url, token="t")
        )

    threads = [threading.Thread(target=login, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(CredentialStore.from_environment(os.environ).services()) == 16
