"""Users and their roles, over the real listener; and the stored password hashes."""

import asyncio
import time
from typing import Any

import pytest
from argon2 import PasswordHasher

from engine.bucket.protocols import StaleRevision
from engine.control.auth.accounts import (
    ACCOUNTS_KEY,
    MAX_CONCURRENT,
    MAX_WAITING,
    AccountError,
    Accounts,
    BadPassword,
    Passwords,
)
from engine.control.errors import TooManyAttempts
from svc_tui.client import ApiError
from tests.engine.control.service import PASSWORD, Service, quick


def refused(service: Service, token: str, method: str, path: str, body: Any = None) -> ApiError:
    with pytest.raises(ApiError) as exc_info:
        service.call(token, method, path, body)
    return exc_info.value


def users(service: Service, token: str) -> dict[str, dict[str, str]]:
    return {user["name"]: user["roles"] for user in service.call(token, "GET", "/v1/users")["users"]}


def test_owner_creates_and_deletes_users_and_roles(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", shop="viewer")
    assert users(service, owner) == {"ann": {"*": "owner"}, "bob": {"shop": "viewer"}}
    service.call(owner, "PUT", "/v1/users/bob/roles/blog", {"role": "deployer"})
    assert service.call(bob, "GET", "/v1/whoami")["roles"] == {"shop": "viewer", "blog": "deployer"}
    service.call(owner, "DELETE", "/v1/users/bob/roles/shop")
    assert service.call(bob, "GET", "/v1/whoami")["roles"] == {"blog": "deployer"}
    service.call(owner, "DELETE", "/v1/users/bob")
    assert refused(service, bob, "GET", "/v1/whoami").code == "unauthenticated"
    assert refused(service, owner, "DELETE", "/v1/users/bob").code == "not-found"


def test_project_owner_manages_and_sees_roles_of_own_project_only(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", shop="owner")
    service.add(owner, "cid", blog="viewer")
    assert users(service, bob) == {"bob": {"shop": "owner"}}
    service.call(bob, "PUT", "/v1/users/cid/roles/shop", {"role": "viewer"})
    assert users(service, bob) == {"bob": {"shop": "owner"}, "cid": {"shop": "viewer"}}
    for project in ("blog", "*"):
        result = refused(service, bob, "PUT", f"/v1/users/bob/roles/{project}", {"role": "owner"})
        assert result.code == "forbidden"
    assert refused(service, bob, "PUT", "/v1/users/dan", {"password": PASSWORD}).code == "forbidden"
    assert refused(service, bob, "DELETE", "/v1/users/ann").code == "forbidden"


@pytest.mark.parametrize("role", ["viewer", "deployer"])
def test_user_without_owner_role_cannot_manage_or_list_users(service: Service, owner: str, role: str) -> None:
    bob = service.add(owner, "bob", **{"*": role})
    for method, path, body in (
        ("GET", "/v1/users", None),
        ("PUT", "/v1/users/eve", {"password": PASSWORD}),
        ("PUT", "/v1/users/ann", {"password": PASSWORD}),
        ("DELETE", "/v1/users/ann", None),
        ("PUT", "/v1/users/bob/roles/shop", {"role": "owner"}),
        ("DELETE", "/v1/users/ann/roles/*", None),
    ):
        assert refused(service, bob, method, path, body).code == "forbidden"


def test_last_owner_cannot_be_removed(service: Service, owner: str) -> None:
    for method, path, body in (
        ("DELETE", "/v1/users/ann", None),
        ("DELETE", "/v1/users/ann/roles/*", None),
        ("PUT", "/v1/users/ann/roles/*", {"role": "deployer"}),
    ):
        result = refused(service, owner, method, path, body)
        assert result.code == "conflict" and "owner" in result.message
    bob = service.add(owner, "bob", **{"*": "owner"})
    service.call(bob, "DELETE", "/v1/users/ann")
    assert users(service, bob) == {"bob": {"*": "owner"}}


def test_recreated_user_inherits_no_sessions_or_tokens(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", shop="owner")
    payload = {"name": "ci", "role": "owner", "projects": ["shop"]}
    token = service.call(bob, "POST", "/v1/tokens", payload)["token"]
    service.call(owner, "DELETE", "/v1/users/bob")
    new = service.add(owner, "bob", shop="owner")
    for ended in (bob, token):
        assert refused(service, ended, "GET", "/v1/whoami").code == "unauthenticated"
    assert service.call(new, "GET", "/v1/tokens") == {"tokens": []}


def test_password_reset_by_owner_ends_sessions(service: Service, owner: str) -> None:
    bob = service.add(owner, "bob", shop="viewer")
    service.call(owner, "PUT", "/v1/users/bob", {"password": "a new one for bob"})
    assert refused(service, bob, "GET", "/v1/whoami").code == "unauthenticated"
    new = service.call("", "POST", "/v1/login", {"user": "bob", "password": "a new one for bob"})
    assert new["roles"] == {"shop": "viewer"}
    body = {"password": PASSWORD, "roles": {"*": "owner"}}
    assert refused(service, owner, "PUT", "/v1/users/bob", body).code == "conflict"


@pytest.mark.parametrize("name", ["Bob", "b--b", "%2e%2e", "b%00b", "%F0%9F%98%80", "b%0a", "a" * 40])
def test_invalid_user_and_project_names_are_rejected(service: Service, owner: str, name: str) -> None:
    for method, path, body in (
        ("PUT", f"/v1/users/{name}", {"password": PASSWORD}),
        ("PUT", f"/v1/users/{name}/roles/shop", {"role": "viewer"}),
        ("PUT", f"/v1/users/ann/roles/{name}", {"role": "viewer"}),
        ("DELETE", f"/v1/users/{name}", None),
    ):
        result = refused(service, owner, method, path, body)
        assert result.code in ("account", "not-found") and "\n" not in result.message
    assert users(service, owner) == {"ann": {"*": "owner"}}


def test_claim_code_is_created_until_owner_exists(service: Service) -> None:
    async def code() -> str | None:
        return await Accounts(service.bucket.kv).new_claim_code()

    first, second = service.do(code), service.do(code)
    assert first != second and len(second.replace("-", "")) == 25
    service.claim()
    assert service.do(code) is None


def test_corrupt_accounts_reject_logins_and_stay_unchanged(service: Service, owner: str) -> None:
    async def damage() -> None:
        cell = await service.bucket.kv.get(ACCOUNTS_KEY)
        assert cell is not None
        assert not isinstance(await service.bucket.kv.cas(ACCOUNTS_KEY, b"{", cell.revision), StaleRevision)

    service.do(damage)
    with pytest.raises(AccountError, match="corrupt"):
        service.do(service.gate.accounts.new_claim_code)
    assert refused(service, "", "POST", "/v1/login", {"user": "ann", "password": PASSWORD}).code == "account"


def test_accounts_of_newer_svc_raise_and_stay_unchanged(service: Service) -> None:
    async def newer() -> None:
        await service.bucket.kv.cas(ACCOUNTS_KEY, b'{"version": 2, "people": []}', None)

    service.do(newer)
    with pytest.raises(AccountError, match="newer svc"):
        service.do(service.gate.accounts.new_claim_code)


def test_login_rehashes_password_with_current_parameters(service: Service, owner: str) -> None:
    stronger = Passwords(PasswordHasher(time_cost=2, memory_cost=128, parallelism=1))

    async def login() -> str:
        accounts = Accounts(service.bucket.kv, stronger)
        await accounts.authenticate("ann", PASSWORD)
        user = await accounts.find("ann")
        assert user is not None
        return user.password

    assert "$m=128,t=2,p=1$" in service.do(login)
    service.call("", "POST", "/v1/login", {"user": "ann", "password": PASSWORD})
    assert service.call(owner, "GET", "/v1/whoami")["user"] == "ann"


def test_concurrent_password_checks_are_limited() -> None:
    async def main() -> list[bool | BaseException]:
        passwords = quick()
        password_hash = await passwords.hash(PASSWORD)
        many = [passwords.matches(password_hash, PASSWORD) for _ in range(MAX_CONCURRENT + MAX_WAITING + 5)]
        return await asyncio.gather(*many, return_exceptions=True)

    results = asyncio.run(main())
    assert results.count(True) == MAX_CONCURRENT + MAX_WAITING
    assert sum(isinstance(result, TooManyAttempts) for result in results) == 5


def test_unknown_user_check_takes_as_long_as_wrong_password() -> None:
    async def main() -> tuple[float, float]:
        passwords = Passwords(PasswordHasher(time_cost=2, memory_cost=16384, parallelism=1))
        password_hash = await passwords.hash(PASSWORD)

        async def least(known: str | None) -> float:
            times = []
            for _ in range(5):
                began = time.perf_counter()
                assert not await passwords.matches(known, "wrong")
                times.append(time.perf_counter() - began)
            return min(times)

        return await least(password_hash), await least(None)

    wrong, unknown = asyncio.run(main())
    assert wrong / 10 < unknown < wrong * 10


@pytest.mark.parametrize(
    "password", ["", "nine char", "p" * 1025, "p" * 10_000_000, "\ud800" * 12, "a\tb" * 9]
)
def test_invalid_password_never_matches_and_cannot_be_hashed(password: str) -> None:
    async def main() -> None:
        passwords = quick()
        with pytest.raises(BadPassword):
            await passwords.hash(password)
        assert not await passwords.matches(await passwords.hash(PASSWORD), password)
        assert not await passwords.matches("no hash", PASSWORD)
        assert not await passwords.matches(None, password)

    asyncio.run(main())
