"""Claims, logins and logouts over the real listener, and their errors."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters

from engine.control.auth import routes
from svc_tui.client import ApiError
from tests.engine.control.service import PASSWORD, Service, running


def refused(service: Service, token: str, method: str, path: str, body: Any = None, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as exc_info:
        service.call(token, method, path, body, **more)
    return exc_info.value


def raw(service: Service, path: str, content: bytes, kind: str = "application/json") -> httpx.Response:
    headers = {"content-type": kind}
    return httpx.post(service.url + path, content=content, headers=headers, timeout=60)


def test_claim_code_creates_first_owner_once(service: Service) -> None:
    assert service.call("", "GET", "/v1/claim") == {"claimed": False}
    code = service.do(service.gate.accounts.new_claim_code)
    body = {"code": f" {code.upper()} ", "user": "ann", "password": PASSWORD}
    opened = service.call("", "POST", "/v1/claim", body)
    assert opened["user"] == "ann" and opened["roles"] == {"*": "owner"}
    who = service.call(opened["token"], "GET", "/v1/whoami")
    assert (who["user"], who["token"], who["roles"]) == ("ann", None, {"*": "owner"})
    assert who["expires"] == opened["expires"]
    second = refused(service, "", "POST", "/v1/claim", body | {"user": "bob"})
    assert second.code == "conflict" and "already has an owner" in second.message
    assert service.call("", "GET", "/v1/claim") == {"claimed": True}
    assert service.do(service.gate.accounts.new_claim_code) is None


def test_concurrent_claims_create_one_owner(service: Service) -> None:
    code = service.do(service.gate.accounts.new_claim_code)

    def claim(number: int) -> str:
        body = {"code": code, "user": f"user{number}", "password": PASSWORD}
        try:
            service.call("", "POST", "/v1/claim", body)
        except ApiError as error:
            return error.code
        return "won"

    with ThreadPoolExecutor(8) as pool:
        results = sorted(pool.map(claim, range(8)))
    assert results == ["conflict"] * 7 + ["won"]
    assert len(service.do(service.gate.accounts.users)) == 1


def test_wrong_or_replaced_claim_code_is_unauthenticated(service: Service) -> None:
    old = service.do(service.gate.accounts.new_claim_code)
    service.do(service.gate.accounts.new_claim_code)
    for code in (old, "x", "a" * 100):
        result = refused(
            service, "", "POST", "/v1/claim", {"code": code, "user": "ann", "password": PASSWORD}
        )
        assert result.code == "unauthenticated" and "svc serve" in result.hint
    assert service.call("", "GET", "/v1/claim") == {"claimed": False}


def test_accounts_and_sessions_survive_restart(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        token = service.claim()
    with running(tmp_path / "data") as service:
        assert service.call(token, "GET", "/v1/whoami")["user"] == "ann"
        assert service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"] != token


def test_bucket_contains_no_password_token_or_claim_code(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        code = service.do(service.gate.accounts.new_claim_code)
        body = {"code": code, "user": "ann", "password": PASSWORD}
        owner = service.call("", "POST", "/v1/claim", body)["token"]
        payload = {"name": "ci", "role": "owner", "projects": ["*"]}
        token = service.call(owner, "POST", "/v1/tokens", payload)["token"]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"$argon2id$" in stored
    for secret in (PASSWORD, owner, owner[5:], token, token[5:], code, code.replace("-", "")):
        assert secret.encode() not in stored


def test_wrong_password_and_unknown_user_return_equal_errors(service: Service, owner: str) -> None:
    wrong = refused(service, "", "POST", "/v1/login", {"user": "ann", "password": "wrong"})
    unknown = refused(service, "", "POST", "/v1/login", {"user": "stranger", "password": "wrong"})
    assert wrong.members == unknown.members and wrong.code == "unauthenticated"


def test_unknown_user_cannot_be_found_by_the_time_or_the_throttle(
    service: Service, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, verified = PasswordHasher.verify, list[Parameters]()

    def recorded(hasher: PasswordHasher, hashed: str, password: str) -> bool:
        verified.append(extract_parameters(hashed))
        return verify(hasher, hashed, password)

    monkeypatch.setattr(PasswordHasher, "verify", recorded)
    outcomes = []
    for user in ("ann", "stranger"):
        verified.clear()
        guess = {"user": user, "password": "a wrong one"}
        codes = [refused(service, "", "POST", "/v1/login", guess).code for _ in range(7)]
        outcomes.append((codes, [*verified]))
    assert outcomes[0] == outcomes[1] and len(outcomes[0][1]) == 5


def test_logout_ends_own_session_only(service: Service, owner: str) -> None:
    other = service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
    assert service.call(other, "GET", "/v1/whoami")["user"] == "ann"
    assert service.call(other, "POST", "/v1/logout") == {"revoked": 1}
    assert refused(service, other, "GET", "/v1/whoami").code == "unauthenticated"
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"


def test_logout_everywhere_ends_all_sessions_and_no_tokens(service: Service, owner: str) -> None:
    other = service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
    payload = {"name": "ci", "role": "viewer", "projects": ["shop"]}
    token = service.call(owner, "POST", "/v1/tokens", payload)["token"]
    assert service.call(other, "POST", "/v1/logout", params={"everywhere": "true"}) == {"revoked": 2}
    for ended in (owner, other):
        assert refused(service, ended, "GET", "/v1/whoami").code == "unauthenticated"
    assert service.call(token, "GET", "/v1/whoami")["token"] == "ci"


def test_password_change_ends_other_sessions(service: Service, owner: str) -> None:
    other = service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
    service.call(other, "GET", "/v1/whoami")
    body = {"old": PASSWORD, "new": "quite another one"}
    assert service.call(owner, "POST", "/v1/password", body) == {"revoked": 1}
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"
    assert refused(service, other, "GET", "/v1/whoami").code == "unauthenticated"
    assert refused(service, "", "POST", "/v1/login", {"user": "ann", "password": PASSWORD}).code == (
        "unauthenticated"
    )
    assert refused(service, owner, "POST", "/v1/password", body).code == "unauthenticated"
    service.call("", "POST", "/v1/login", {"user": "ann", "password": "quite another one"})


def test_failed_logins_are_throttled_per_user(service: Service, owner: str) -> None:
    guess = {"user": "ann", "password": "a wrong one"}
    codes = [refused(service, "", "POST", "/v1/login", guess).code for _ in range(8)]
    assert codes == ["unauthenticated"] * 5 + ["too-many-attempts"] * 3
    answer = raw(service, "/v1/login", json.dumps(guess).encode())
    assert answer.status_code == 429 and 1 <= int(answer.headers["retry-after"]) <= 60
    right = {"user": "ann", "password": PASSWORD}
    assert refused(service, "", "POST", "/v1/login", right).code == "too-many-attempts"
    service.add(owner, "bob")
    service.clock.advance(1.5)
    assert service.call("", "POST", "/v1/login", right)["user"] == "ann"


def test_concurrent_failed_logins_are_throttled_alike(service: Service, owner: str) -> None:
    guess = json.dumps({"user": "ann", "password": "a wrong one"}).encode()
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda _: raw(service, "/v1/login", guess).status_code, range(40)))
    assert codes.count(401) == 5 and codes.count(429) == 35


def test_password_is_compared_after_unicode_normalization(service: Service, owner: str) -> None:
    service.call(owner, "PUT", "/v1/users/bob", {"password": "ein längeres Wort"})
    body = {"user": "bob", "password": "ein la\u0308ngeres Wort"}
    assert service.call("", "POST", "/v1/login", body)["user"] == "bob"


@pytest.mark.parametrize("path", ["/v1/login", "/v1/claim"])
@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"null", 422),
        (b"\xff\xfe", 422),
        (b"[" * 60_000, 422),
        (b'{"user": "ann", "password": ' + b"1" * 5000 + b"}", 400),
        (b'{"user": "ann", "password": "\\ud800", "code": "x"}', 422),
        (b'{"user": "ann", "password": "a long one indeed", "code": "x", "more": 1}', 422),
        (b'{"user": "ann", "password": null, "code": "x"}', 422),
        (b'{"user": "ann", "password": "' + b"p" * 2000 + b'", "code": "x"}', 422),
        (b'{"user": "ann", "password": "' + b"p" * 10_000_000 + b'", "code": "x"}', 413),
        (b'{"user": "ann", "password": "' + b"p" * 100_000 + b'", "code": "x"}', 413),
    ],
)
def test_invalid_body_returns_problem(service: Service, path: str, content: bytes, status: int) -> None:
    answer = raw(service, path, content)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.text) < 500 and "Traceback" not in answer.text


def test_stalled_body_returns_408(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_TIMEOUT_SECONDS", 0.2)
    host, port = service.url.removeprefix("http://").split(":")
    head = b"POST /v1/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as slow:
        slow.sendall(head + b"content-length: 50\r\n\r\n{")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_body_of_wrong_content_type_is_rejected(service: Service) -> None:
    content = json.dumps({"user": "ann", "password": PASSWORD}).encode()
    assert raw(service, "/v1/login", content, "text/plain").status_code in (400, 415, 422)


@pytest.mark.parametrize(
    "user", ["Ann", "", "a" * 40, "../etc", "a/b", "a\0b", "ann ", "änn", "a--b", "-a", "*", "ａnn", "ann\n"]
)
def test_claim_with_invalid_user_name_is_rejected(service: Service, user: str) -> None:
    code = service.do(service.gate.accounts.new_claim_code)
    body = {"code": code, "user": user, "password": PASSWORD}
    assert refused(service, "", "POST", "/v1/claim", body).code == "invalid"
    assert service.call("", "GET", "/v1/claim") == {"claimed": False}


@pytest.mark.parametrize("password", ["", "short", "p" * 1025, "with a \0 in it", "with a \x1b[2J in it"])
def test_claim_with_invalid_password_is_rejected(service: Service, password: str) -> None:
    code = service.do(service.gate.accounts.new_claim_code)
    body = {"code": code, "user": "ann", "password": password}
    assert refused(service, "", "POST", "/v1/claim", body).code in ("invalid", "bad-password")
    assert service.call("", "GET", "/v1/claim") == {"claimed": False}
