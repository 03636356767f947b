"""Sessions and API tokens: lifetime, roles and revocation."""

import asyncio
from typing import Any

import pytest

from engine.control.access import AnyOf, Principal, StaticToken
from engine.control.auth.accounts import AccountConflict
from engine.control.auth.sessions import CACHE_SECONDS, MAX_IDLE_NS, MAX_PER_USER, MAX_SESSION_NS, PREFIX
from svc_tui.client import ApiError
from tests.engine.control.service import PASSWORD, Service

DAY = 24 * 3600.0


def refused(service: Service, token: str, method: str, path: str, body: Any = None) -> ApiError:
    with pytest.raises(ApiError) as exc_info:
        service.call(token, method, path, body)
    return exc_info.value


def create_token(service: Service, owner: str, **payload: Any) -> str:
    payload = {"name": "ci", "role": "deployer", "projects": ["shop"]} | payload
    return str(service.call(owner, "POST", "/v1/tokens", payload)["token"])


def principal_of(service: Service, token: str) -> Principal | None:
    async def ask() -> Principal | None:
        return await service.gate.sessions.principal(token)

    result = service.do(ask)
    assert result is None or isinstance(result, Principal)
    return result


def test_idle_session_expires(service: Service, owner: str) -> None:
    service.clock.advance(MAX_IDLE_NS / 1e9 - 60)
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"
    service.clock.advance(MAX_IDLE_NS / 1e9 - 60)
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"
    service.clock.advance(MAX_IDLE_NS / 1e9 + 60)
    assert refused(service, owner, "GET", "/v1/whoami").code == "unauthenticated"


def test_used_session_expires_at_maximum_age(service: Service, owner: str) -> None:
    for _ in range(8):
        service.clock.advance(MAX_SESSION_NS / 1e9 / 9)
        assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"
    service.clock.advance(MAX_SESSION_NS / 1e9 / 9 + 1)
    assert refused(service, owner, "GET", "/v1/whoami").code == "unauthenticated"


def test_token_expires(service: Service, owner: str) -> None:
    token = create_token(service, owner, days=2)
    service.clock.advance(2 * DAY - 1)
    assert service.call(token, "GET", "/v1/whoami")["token"] == "ci"
    service.clock.advance(2)
    assert refused(service, token, "GET", "/v1/whoami").code == "unauthenticated"
    assert service.call(owner, "GET", "/v1/tokens") == {"tokens": []}
    create_token(service, owner)


def test_session_survives_small_clock_step_back(service: Service, owner: str) -> None:
    service.clock.advance(-3600)
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"


def test_session_created_far_in_future_is_invalid(service: Service, owner: str) -> None:
    service.clock.advance(10 * 365 * DAY)
    future_token = service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
    service.clock.advance(-10 * 365 * DAY)
    assert refused(service, future_token, "GET", "/v1/whoami").code == "unauthenticated"


def test_token_roles_are_limited_by_roles_of_user(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", shop="owner", blog="deployer")
    token = create_token(service, bob, projects=["shop", "blog"])
    assert principal_of(service, token) == Principal("bob/ci", {"shop": "deployer", "blog": "deployer"})
    service.call(owner, "PUT", "/v1/users/bob/roles/blog", {"role": "viewer"})
    assert principal_of(service, token) == Principal("bob/ci", {"shop": "deployer", "blog": "viewer"})
    service.call(owner, "DELETE", "/v1/users/bob/roles/shop")
    assert principal_of(service, token) == Principal("bob/ci", {"blog": "viewer"})


def test_token_for_all_projects_limits_each_role(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", **{"*": "deployer", "shop": "owner"})
    every = create_token(service, bob, projects=["*"])
    assert principal_of(service, every) == Principal("bob/ci", {"*": "deployer", "shop": "deployer"})
    one = create_token(service, bob, name="one", projects=["blog"], role="viewer")
    assert principal_of(service, one) == Principal("bob/one", {"blog": "viewer"})


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"role": "owner"}, "forbidden"),
        ({"projects": ["*"]}, "forbidden"),
        ({"projects": ["blog"]}, "forbidden"),
        ({"projects": ["shop", "blog"]}, "forbidden"),
        ({"projects": []}, "invalid"),
        ({"projects": ["../shop"]}, "invalid"),
        ({"name": "../ci"}, "invalid"),
        ({"name": ""}, "invalid"),
        ({"days": 0}, "invalid"),
        ({"days": 366}, "invalid"),
        ({"days": 10**30}, "invalid"),
        ({"days": True}, "invalid"),
        ({"role": "admin"}, "invalid"),
    ],
)
def test_invalid_token_request_is_rejected(
    service: Service, owner: str, payload: dict[str, Any], code: str
) -> None:
    bob = service.add(owner, "bob", shop="deployer")
    body = {"name": "ci", "role": "deployer", "projects": ["shop"]} | payload
    assert refused(service, bob, "POST", "/v1/tokens", body).code == code
    assert service.call(bob, "GET", "/v1/tokens") == {"tokens": []}


def test_concurrent_tokens_of_one_name_create_one(service: Service, owner: str) -> None:
    async def many() -> list[Any]:
        user = await service.gate.accounts.find("ann")
        assert user is not None
        create = service.gate.sessions.create_token
        result = [create(user, "ci", "viewer", ("shop",), 10**15) for _ in range(8)]
        return await asyncio.gather(*result, return_exceptions=True)

    assert sum(isinstance(one, AccountConflict) for one in service.do(many)) == 7
    assert len(service.call(owner, "GET", "/v1/tokens")["tokens"]) == 1


def test_revoked_token_is_invalid_at_once(service: Service, owner: str) -> None:
    token = create_token(service, owner)
    assert refused(service, owner, "POST", "/v1/tokens", _payload()).code == "conflict"
    assert service.call(token, "GET", "/v1/whoami")["user"] == "ann"
    assert service.call(owner, "DELETE", "/v1/tokens/ci") == {"revoked": 1}
    assert refused(service, token, "GET", "/v1/whoami").code == "unauthenticated"
    assert refused(service, owner, "DELETE", "/v1/tokens/ci").code == "not-found"


def test_token_cannot_manage_tokens_passwords_or_users(service: Service, owner: str) -> None:
    token = create_token(service, owner, role="owner", projects=["*"])
    service.add(owner, "bob")
    for method, path, body in (
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", _payload(name="more")),
        ("DELETE", "/v1/tokens/ci", None),
        ("POST", "/v1/password", {"old": PASSWORD, "new": PASSWORD}),
        ("PUT", "/v1/users/eve", {"password": PASSWORD}),
        ("PUT", "/v1/users/bob/roles/*", {"role": "owner"}),
        ("DELETE", "/v1/users/bob", None),
    ):
        assert refused(service, token, method, path, body).code == "forbidden"
    with pytest.raises(ApiError, match="does not use a login session"):
        service.call(token, "POST", "/v1/logout", params={"everywhere": "true"})
    assert service.call(token, "POST", "/v1/logout") == {"revoked": 1}
    assert refused(service, token, "GET", "/v1/whoami").code == "unauthenticated"


def test_token_list_omits_secrets(service: Service, owner: str) -> None:
    token = create_token(service, owner, days=1)
    (shown,) = service.call(owner, "GET", "/v1/tokens")["tokens"]
    assert shown["name"] == "ci" and shown["role"] == "deployer" and shown["projects"] == ["shop"]
    assert shown["created"] < shown["expires"] and token not in str(shown)


def test_token_list_has_the_latest_use(service: Service, owner: str) -> None:
    token = create_token(service, owner, days=1)
    (shown,) = service.call(owner, "GET", "/v1/tokens")["tokens"]
    assert shown["used"] is None
    service.call(token, "GET", "/v1/whoami")
    (shown,) = service.call(owner, "GET", "/v1/tokens")["tokens"]
    assert shown["used"] == shown["created"]


def test_session_above_limit_ends_oldest(service: Service, owner: str) -> None:
    async def many() -> list[bool]:
        user = await service.gate.accounts.find("ann")
        assert user is not None
        opened = [owner]
        for _ in range(MAX_PER_USER):
            service.clock.advance(1)
            opened.append((await service.gate.sessions.create_session(user))[0])
        return [await service.gate.sessions.principal(token) is not None for token in opened]

    assert service.do(many) == [False] + [True] * MAX_PER_USER


def test_login_removes_expired_sessions(service: Service, owner: str) -> None:
    async def keys() -> set[str]:
        return {cell.key for cell in await service.bucket.kv.list(PREFIX)}

    before = service.do(keys)
    service.clock.advance(MAX_SESSION_NS / 1e9)
    service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})
    after = service.do(keys)
    assert len(before) == len(after) == 1 and before != after


def test_corrupt_session_is_invalid(service: Service, owner: str) -> None:
    async def damage() -> None:
        (cell,) = await service.bucket.kv.list(PREFIX)
        await service.bucket.kv.cas(cell.key, b'{"user": "ann"}', cell.revision)

    service.do(damage)
    assert refused(service, owner, "GET", "/v1/whoami").code == "unauthenticated"


def test_principal_is_cached(service: Service, owner: str) -> None:
    async def ask() -> list[Any]:
        sessions = service.gate.sessions
        first = await sessions.principal(owner)
        # A closed bucket refuses every read, so the second principal comes from the cache.
        await service.bucket.aclose()
        return [first, await sessions.principal(owner)]

    first, second = service.do(ask)
    assert first is second
    service.clock.advance(CACHE_SECONDS + 0.01)
    assert refused(service, owner, "GET", "/v1/whoami").code == "bucket-closed"


@pytest.mark.parametrize("token", ["", " ", "svcs_", "*", "x" * 20_000, "sessions/*", "üñ"])
def test_malformed_token_has_no_principal(service: Service, owner: str, token: str) -> None:
    assert principal_of(service, token) is None


def test_any_of_returns_principal_of_first_match(service: Service, owner: str) -> None:
    either = AnyOf(StaticToken("local"), service.gate.sessions)

    async def ask() -> list[str | None]:
        result = [await either.principal(token) for token in ("local", owner, "x")]
        return [principal.name if principal else None for principal in result]

    assert service.do(ask) == ["developer", "ann", None]


def _payload(**payload: Any) -> dict[str, Any]:
    return {"name": "ci", "role": "deployer", "projects": ["shop"]} | payload
