"""Admission of nodes: tokens, versions and clocks."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.bucket.folder import FolderBucket
from engine.certificates.private import Issuer, fingerprint
from engine.control.routes.fleet import FoundRequest
from engine.fleet.errors import FleetError
from engine.fleet.node import NodeAddress
from engine.fleet.registry import TOKEN_PREFIX, JoinRequest, JoinToken, Member, Registry

HOUR_NS = 3600 * 10**9
NOW_NS = 1_800_000_000 * 10**9
TOKEN = JoinToken(addresses=(NodeAddress("fd00::1", 4300),), authority="ab" * 32)
REQUEST = JoinRequest(
    secret=TOKEN.secret, nonce="first", host="127.0.0.1", port=4222, version="1.0", time_ns=NOW_NS
)


def changed(request: JoinRequest, **values: object) -> JoinRequest:
    """Return a request with other values."""
    return request.model_copy(update=values)


class Clock:
    now_ns = NOW_NS


@pytest.mark.parametrize("host", ["", "a\0b", "ü" * 70, "a b", "\ud800", "a\n", "a" * 254])
def test_host_of_a_node_is_a_name_or_an_address(host: str) -> None:
    for valid in ("fd00::1", "fe80::1%eth0", "node-1.example.com"):
        assert FoundRequest(host=valid, port=1).host == valid
    with pytest.raises(ValidationError, match="host"):
        FoundRequest(host=host, port=1)
    with pytest.raises(ValidationError, match="host"):
        JoinRequest(**{**REQUEST.model_dump(), "host": host})


def registered(folder: Path, test: Callable[[Registry, Clock], Awaitable[None]]) -> None:
    """Run a test on a registry with one token, which is valid for an hour."""

    async def main() -> None:
        bucket, clock = FolderBucket(folder), Clock()
        try:
            registry = Registry(bucket.kv, "1.0", lambda: clock.now_ns)
            await registry.add_token(TOKEN, HOUR_NS)
            await test(registry, clock)
        finally:
            await bucket.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (changed(REQUEST, secret="x"), "the token is not one of this fleet"),
        (changed(REQUEST, version="1.1"), r"this machine has svc 1\.1, the fleet 1\.0"),
        (changed(REQUEST, time_ns=NOW_NS + HOUR_NS), "clock of this machine is 3600 s ahead of the fleet's"),
        (changed(REQUEST, time_ns=NOW_NS - HOUR_NS), "clock of this machine is 3600 s behind the fleet's"),
    ],
)
def test_unsuitable_node_is_refused_without_using_the_token(
    tmp_path: Path, request_: JoinRequest, message: str
) -> None:
    async def test(registry: Registry, clock: Clock) -> None:
        with pytest.raises(FleetError, match=message):
            await registry.admit(request_)
        assert (await registry.admit(REQUEST)).id.startswith("n1-")

    registered(tmp_path, test)


def test_token_admits_one_node_until_it_expires(tmp_path: Path) -> None:
    async def test(registry: Registry, clock: Clock) -> None:
        other = JoinToken(addresses=TOKEN.addresses, authority=TOKEN.authority)
        await registry.add_token(other, HOUR_NS)
        first, again = await asyncio.gather(registry.admit(REQUEST), registry.admit(REQUEST))
        assert first == again
        with pytest.raises(FleetError, match=f"used by the node {first.id}"):
            await registry.admit(changed(REQUEST, nonce="second"))
        second = changed(REQUEST, secret=other.secret, nonce="second")
        with pytest.raises(FleetError, match=rf"127\.0\.0\.1:4222 is the address of the node {first.id}"):
            await registry.admit(second)
        clock.now_ns += HOUR_NS
        with pytest.raises(FleetError, match="the token has expired"):
            await registry.admit(changed(second, port=4223, time_ns=clock.now_ns))
        assert await registry.admit(changed(REQUEST, time_ns=clock.now_ns)) == first
        assert await registry.members() == [first]

    registered(tmp_path, test)


def test_removed_node_does_not_return_with_its_token(tmp_path: Path) -> None:
    async def test(registry: Registry, clock: Clock) -> None:
        member = await registry.admit(REQUEST)
        await registry.remove(member.id)
        with pytest.raises(FleetError, match="the token is not one of this fleet"):
            await registry.admit(REQUEST)
        assert await registry.members() == []

    registered(tmp_path, test)


def test_token_text_is_complete_and_checked() -> None:
    assert JoinToken.parse(f" {TOKEN.text}\n") == TOKEN
    for text in (
        "",
        TOKEN_PREFIX,
        TOKEN.text[:-9],
        TOKEN.text.removeprefix(TOKEN_PREFIX),
        TOKEN_PREFIX + "e30",
    ):
        with pytest.raises(FleetError, match="the token is not valid"):
            JoinToken.parse(text)


def test_authority_issues_certificates_for_joining_nodes() -> None:
    authority = Issuer.create("test")
    pair = authority.issue("n2-abc", "127.0.0.1")
    assert pair.chain.startswith("-----BEGIN CERTIFICATE")
    assert fingerprint(pair.chain) != fingerprint(authority.pair.chain)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.0", None),
        ("1.1.3", None),
        ("1.2", r"this machine has svc 1\.2, the node n2-abc 1\.0"),
        ("2.0", r"this machine has svc 2\.0, the node n2-abc 1\.0"),
    ],
)
def test_node_starts_with_a_version_next_to_that_of_the_others(
    tmp_path: Path, version: str, message: str | None
) -> None:
    async def test(registry: Registry, clock: Clock) -> None:
        address = NodeAddress("10.0.0.1")
        await registry.add(Member(id="n1-abc", **address._asdict(), version="1.0", keeper=True))
        await registry.add(Member(id="n2-abc", **address._asdict(), version="1.0", keeper=True))
        started = Registry(registry._kv, version)
        if message is None:
            await started.check_version("n1-abc")
            assert [member.version for member in await registry.members()] == [version, "1.0"]
        else:
            with pytest.raises(FleetError, match=message):
                await started.check_version("n1-abc")
        await registry.remove("n1-abc")
        with pytest.raises(FleetError, match="n1-abc was removed from the fleet"):
            await started.check_version("n1-abc")

    registered(tmp_path, test)


def test_token_for_a_keeper_admits_up_to_five(tmp_path: Path) -> None:
    async def test(registry: Registry, clock: Clock) -> None:
        async def join(number: int, *, keeper: bool) -> bool:
            token = JoinToken(addresses=TOKEN.addresses, authority=TOKEN.authority)
            await registry.add_token(token, HOUR_NS, keeper=keeper)
            request = changed(REQUEST, secret=token.secret, nonce=str(number), port=4222 + number)
            return (await registry.admit(request)).keeper

        assert [await join(number, keeper=False) for number in range(4)] == [True, True, True, False]
        assert [await join(number, keeper=True) for number in (4, 5)] == [True, True]
        with pytest.raises(FleetError, match="the fleet has 5 keepers, the maximum"):
            await join(6, keeper=True)

    registered(tmp_path, test)
