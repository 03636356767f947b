"""Responses of every route match /openapi.json, for generated valid and invalid requests."""

from collections.abc import Iterator
from pathlib import Path
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

from engine.control.discovery import ControlEndpoint
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control import developing
from tests.support.examples import examples, is_fuzzing
from tests.svc_tui.hosted import MANIFEST, PASSWORD, Hosted, deploy, static_shop

EXAMPLES = examples(2)
GUESSES = [("POST", path) for path in ("/v1/password", "/v1/claim/check", "/v1/claim", "/v1/login")]
"""Run last, because failed guesses delay every later login."""
FREE = {("GET", "/v1/health"), ("GET", "/v1/ready"), ("GET", "/v1/claim"), *GUESSES[1:]}
LOGOUT = ("POST", "/v1/logout")
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]
PART_OF = "/v1/projects/{project}"
UNGENERATED = {
    *GUESSES,
    ("DELETE", PART_OF),
    ("DELETE", "/v1/tokens/{token}"),
    ("DELETE", "/v1/fleet/nodes/{node}"),
    ("GET", "/v1/fleet"),
    ("GET", f"{PART_OF}/files/content"),
    ("GET", f"{PART_OF}/grid/{{grid}}"),
    ("GET", f"{PART_OF}/grid/{{grid}}/cell"),
    ("GET", f"{PART_OF}/grid/{{grid}}/export"),
    ("GET", f"{PART_OF}/grid/{{grid}}/rows"),
    ("GET", f"{PART_OF}/jobs/{{id}}"),
    ("GET", f"{PART_OF}/logs/records"),
    ("GET", f"{PART_OF}/table"),
    ("GET", f"{PART_OF}/tables/history"),
    ("POST", "/v1/alerts/test"),
    ("POST", "/v1/fleet/drain"),
    ("POST", f"{PART_OF}/deployments"),
    ("POST", f"{PART_OF}/domains/{{domain}}/check"),
    ("POST", f"{PART_OF}/fleet/repair"),
    ("POST", f"{PART_OF}/grid"),
    ("POST", f"{PART_OF}/import"),
    ("POST", f"{PART_OF}/logs/sql"),
    ("POST", f"{PART_OF}/manifest/plan"),
    ("POST", f"{PART_OF}/manifest/write"),
    ("POST", f"{PART_OF}/plan"),
    ("POST", f"{PART_OF}/restore"),
    ("POST", f"{PART_OF}/rollback"),
    ("POST", f"{PART_OF}/rows"),
    ("POST", f"{PART_OF}/schedules/run"),
    ("POST", f"{PART_OF}/schema"),
    ("POST", f"{PART_OF}/sql"),
    ("POST", f"{PART_OF}/tables/revert"),
    ("PUT", f"{PART_OF}/blobs/{{digest}}"),
    ("PUT", f"{PART_OF}/schedules/paused"),
}
"""Routes that need a fleet, or content such as tables and digests, to succeed; own tests have these."""
Route = tuple[str, str]


class Owned:
    """A service with a project that is live, and its owner's sessions. `real` has names that exist."""

    def __init__(self, hosted: Hosted, client: Client) -> None:
        self.hosted = hosted
        self.url = hosted.control
        self._token = self._login("ann")
        client.call("PUT", "/v1/users/zoe", {"password": PASSWORD, "roles": {}})
        self.document = client.call("GET", "/openapi.json")
        history = client.call("GET", "/v1/projects/shop/deployments")
        grid = client.call("POST", "/v1/projects/shop/grid", {"table": "note"})
        self.real = {
            "project": "shop",
            "deployment": history["deployments"][0]["id"],
            "grid": grid["grid"],
            "user": "bob",
            "scope": "shop",
            "secret": "KEY",
            "token": "ci",
            "digest": "0" * 64,
            "key": "images/1.png",
        }

    def headers(self, route: Route) -> dict[str, str]:
        """Return the session of the owner; to log out, that of another user, which ends."""
        token = self._login("zoe") if route == LOGOUT else self._token
        return {"authorization": f"Bearer {token}"}

    def _login(self, user: str) -> str:
        with Client(self.url, "") as client:
            return str(client.call("POST", "/v1/login", {"user": user, "password": PASSWORD})["token"])


class Developed:
    """The control API of a project in development."""

    def __init__(self, presence: ControlEndpoint) -> None:
        self.url = presence.url
        self.real = {"project": "shop"}
        self._token = presence.token
        with Client(presence.url, presence.token) as client:
            self.document = client.call("GET", "/openapi.json")

    def headers(self, route: Route) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


@pytest.fixture
def developed(tmp_path: Path) -> Iterator[Developed]:
    root = tmp_path / "shop ü"
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    with run_in_background(lambda stop: developing.developed(root, stop), "development") as running:
        yield Developed(running.presence)


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    root = static_shop(tmp_path / "shop ü")
    (root / "tables").mkdir()
    (root / "tables" / "1.sql").write_text("create table note (id integer primary key, text text);")
    with Hosted(tmp_path / "data ü") as hosted, hosted.claim() as client:
        deploy(client, root)
        yield Owned(hosted, client)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("mode", GenerationMode)
def test_service_responses_match_openapi_document(owned: Owned, mode: GenerationMode) -> None:
    count, failed = _compare_all_routes(owned, mode)
    assert count > 40
    assert mode == GenerationMode.NEGATIVE or failed <= UNGENERATED


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, pytest.param(GenerationMode.NEGATIVE, marks=pytest.mark.nightly)]
)
def test_dev_responses_match_openapi_document(developed: Developed, mode: GenerationMode) -> None:
    assert _compare_all_routes(developed, mode)[0] > 15


def _compare_all_routes(api: Owned | Developed, mode: GenerationMode) -> tuple[int, set[Route]]:
    """Compare the responses of all routes with the document.

    Returns the number of routes, and the routes of which every request failed.
    """
    schema = schemathesis.openapi.from_dict(without_security(api.document))
    operations = {
        (operation.method.upper(), operation.path): operation
        for operation in (found.ok() for found in schema.get_all_operations())
    }
    failures: list[Exception] = []
    never: set[Route] = set()
    for route in sorted(operations, key=deletions_last):
        operation = operations[route]
        if mode == GenerationMode.NEGATIVE and not _has_parameters(operation):
            continue
        try:
            statuses = _compare_route(api, route, operation.as_strategy(generation_mode=mode), mode)
            if not any(status < 300 for status in statuses):
                never.add(route)
        except Exception as error:
            error.add_note(" ".join(route))
            failures.append(error)
    if failures:
        raise ExceptionGroup("routes that differ from the document", failures)
    return len(operations), never


def deletions_last(route: Route) -> tuple[int, int, Route]:
    """Sort guesses of passwords last, and deletions before them, of parts before that of the whole."""
    deletion = route[0] == "DELETE"
    return GUESSES.index(route) if route in GUESSES else -1, deletion * (1000 - len(route[1])), route


def without_security(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without its authentication.

    Otherwise schemathesis removes the session from some requests, which then test nothing else.
    """
    components = {key: value for key, value in document["components"].items() if key != "securitySchemes"}
    paths = {
        path: {
            method: {key: value for key, value in operation.items() if key != "security"}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    return {**document, "components": components, "paths": paths, "security": []}


def _compare_route(api: Owned | Developed, route: Route, requests: Any, mode: GenerationMode) -> set[int]:
    """Send generated requests and compare the responses with the document; return their statuses.

    Fails if a request with a valid session is unauthenticated.
    """
    count = 0
    statuses = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not is_fuzzing(),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests)
    def ask(case: Case) -> None:
        nonlocal count
        count += 1
        if mode == GenerationMode.POSITIVE and count % 3:
            for values in filter(None, (case.path_parameters, case.query)):
                values.update({name: value for name, value in api.real.items() if name in values})
        if case.query:
            case.query.pop("follow", None)
        if route not in FREE and count == 1:
            assert case.call(base_url=api.url, timeout=60).status_code == 401
        response = case.call(base_url=api.url, headers=api.headers(route), timeout=60)
        if response.status_code == 431:
            return  # The server refuses a head of more than 32 KiB, before the API.
        case.validate_response(response, checks=CHECKS)
        assert response.status_code != 401 or route in GUESSES, "the session has ended"
        statuses.add(response.status_code)

    ask()
    return statuses


def _has_parameters(operation: Any) -> bool:
    return bool(operation.body or operation.query or operation.path_parameters)


def test_openapi_document_marks_public_routes(owned: Owned) -> None:
    free = {
        (method.upper(), path)
        for path, operations in owned.document["paths"].items()
        for method, operation in operations.items()
        if operation.get("security") == []
    }
    assert free == FREE
