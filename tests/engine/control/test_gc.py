"""Garbage collection by an owner of every project, and its dry run."""

from typing import Any

import pytest

from engine.bucket.protocols import Digest
from engine.deploy.gc import GRACE_NS
from svc_tui.client import ApiError
from tests.engine.control.service import Service
from tests.support import blobs


def put(service: Service, content: bytes) -> Digest:
    digest: Digest = service.do(lambda: blobs.put(service.bucket.blobs, content))
    return digest


def gc(service: Service, token: str, body: Any) -> Any:
    return service.call(token, "POST", "/v1/gc", body)


def test_plan_reports_blobs_that_gc_removes(service: Service, owner: str) -> None:
    digest = put(service, b"garbage")
    nothing = {"plan": False, "blobs": 0, "bytes": 0, "uploads": 0, "unpacked": 0, "machine_code": 0}
    assert gc(service, owner, {}) == nothing
    service.clock.now_ns += 2 * GRACE_NS
    token = service.call("", "POST", "/v1/login", {"user": "ann", "password": "a horse on a staple"})["token"]
    result = nothing | {"blobs": 1, "bytes": 7}
    assert gc(service, token, {"plan": True}) == result | {"plan": True}
    assert service.do(lambda: blobs.exists(service.bucket.blobs, digest))
    assert gc(service, token, {"plan": False}) == result
    assert not service.do(lambda: blobs.exists(service.bucket.blobs, digest))


@pytest.mark.parametrize("roles", [{}, {"shop": "owner"}, {"*": "deployer"}, {"*": "viewer"}])
def test_gc_without_owner_role_is_forbidden(service: Service, owner: str, roles: dict[str, str]) -> None:
    token = service.add(owner, "bob", **roles)
    for body in ({}, {"plan": True}):
        with pytest.raises(ApiError) as exc_info:
            gc(service, token, body)
        assert exc_info.value.code == "forbidden"


@pytest.mark.parametrize("body", [{"plan": "yes"}, {"plan": 1}, {"force": True}, [], "x"])
def test_invalid_gc_body_is_rejected(service: Service, owner: str, body: Any) -> None:
    with pytest.raises(ApiError) as exc_info:
        gc(service, owner, body)
    assert exc_info.value.code == "invalid"
