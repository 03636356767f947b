"""The routes about accounts are what /openapi.json says: requests are made up from it, right and wrong."""

from typing import Any

import pytest
import schemathesis.openapi
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.engine.control.service import Service

EXAMPLES = 6
ROUTES = {
    ("GET", "/v1/claim"),
    ("POST", "/v1/claim"),
    ("POST", "/v1/login"),
    ("POST", "/v1/logout"),
    ("GET", "/v1/whoami"),
    ("POST", "/v1/password"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("DELETE", "/v1/tokens/{token}"),
    ("GET", "/v1/users"),
    ("PUT", "/v1/users/{user}"),
    ("DELETE", "/v1/users/{user}"),
    ("PUT", "/v1/users/{user}/roles/{project}"),
    ("DELETE", "/v1/users/{user}/roles/{project}"),
}
FREE = {("GET", "/v1/claim"), ("POST", "/v1/claim"), ("POST", "/v1/login")}
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.mark.parametrize("mode", GenerationMode)
def test_every_route_answers_as_the_document_says(service: Service, owner: str, mode: GenerationMode) -> None:
    document = service.call(owner, "GET", "/openapi.json")
    schema = schemathesis.openapi.from_dict(document)
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        route = (operation.method.upper(), operation.path)
        if route not in ROUTES:
            continue
        seen.add(route)
        if mode == GenerationMode.NEGATIVE and not _takes_anything(operation):
            continue
        _hold(service, operation.as_strategy(generation_mode=mode), is_free=route in FREE)
    assert seen == ROUTES


def _hold(service: Service, made_up: Any, *, is_free: bool) -> None:
    """Send what is made up, and compare the answers with the document."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(made_up)
    def ask(case: Case) -> None:
        if not is_free:
            assert case.call(base_url=service.url, timeout=30).status_code == 401
        # What is made up may end sessions, so each request has its own.
        headers = {"authorization": f"Bearer {service.do(_session(service))}"}
        case.call_and_validate(base_url=service.url, headers=headers, checks=CHECKS, timeout=30)

    ask()


def _takes_anything(operation: Any) -> bool:
    return bool(operation.body or operation.query or operation.path_parameters)


def _session(service: Service):  # type: ignore[no-untyped-def]
    async def open_() -> str:
        user = await service.gate.accounts.find("ann")
        assert user is not None
        return (await service.gate.sessions.open(user))[0]

    return open_


def test_the_document_says_which_routes_need_no_session(service: Service) -> None:
    paths = service.call("", "GET", "/openapi.json")["paths"]
    free = {
        (method.upper(), path)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("security") == []
    }
    assert free == FREE | {("GET", "/v1/health")}
