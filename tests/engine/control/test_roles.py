"""The role that each route requires, tried with a session of every role."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis.openapi
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode

from svc_tui.client import Client
from tests.engine.control.test_openapi import FREE, GUESSES, LOGOUT, deletions_last, without_security
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy, static_shop

CALLERS = {
    "anyone": {"blog": "owner"},
    "viewer": {"shop": "viewer"},
    "deployer": {"shop": "deployer"},
    "owner": {"shop": "owner"},
    "service": {"*": "owner"},
}
"""Callers, from the weakest, and their roles: `anyone` has none in the project, `service` is its owner's."""
REQUIRED = {
    "anyone": """
        DELETE /v1/tokens/{token}
        GET /metrics
        GET /v1/alerts
        GET /v1/projects
        GET /v1/tokens
        GET /v1/users
        GET /v1/whoami
    """,
    "viewer": """
        DELETE ~/grid/{grid}
        GET ~
        GET ~/deployments
        GET ~/domains
        GET ~/export
        GET ~/files
        GET ~/files/content
        GET ~/files/usage
        GET ~/fleet
        GET ~/grid/{grid}
        GET ~/grid/{grid}/cell
        GET ~/grid/{grid}/export
        GET ~/grid/{grid}/rows
        GET ~/logs
        GET ~/logs/cursors
        GET ~/logs/records
        GET ~/logs/window
        GET ~/manifest
        GET ~/metrics
        GET ~/migrations
        GET ~/quota
        GET ~/jobs
        GET ~/schedules
        GET ~/secrets
        GET ~/state
        GET ~/table
        GET ~/tables
        GET ~/tables/history
        GET ~/tables/types
        GET ~/usage
        POST ~/grid
        POST ~/grid/{grid}/refresh
        POST ~/import/preview
        POST ~/logs/sql
        POST ~/sql
    """,
    "deployer": """
        DELETE ~/files/content
        DELETE ~/secrets/{secret}
        GET ~/blobs/{digest}
        GET ~/deployments/{deployment}/rollback
        POST /v1/tokens
        POST ~/deployments
        POST ~/domains/{domain}/check
        POST ~/manifest/plan
        POST ~/manifest/write
        POST ~/migrations
        POST ~/plan
        POST ~/rollback
        POST ~/rows
        POST ~/tables/revert
        GET ~/jobs/{id}
        POST ~/jobs/remove
        POST ~/jobs/retry
        POST ~/schedules/run
        PUT ~/blobs/{digest}
        PUT ~/files/content
        PUT ~/schedules/paused
        PUT ~/secrets/{secret}
    """,
    "owner": """
        DELETE ~
        DELETE ~/restore
        DELETE /v1/users/{user}/roles/{scope}
        POST ~/fleet/repair
        POST ~/import
        POST ~/restore
        POST ~/schema
        PUT /v1/users/{user}/roles/{scope}
    """,
    "service": """
        DELETE /v1/fleet/nodes/{node}
        DELETE ~/quota
        DELETE /v1/users/{user}
        GET /v1/certificate
        GET /v1/fleet
        POST /v1/fleet
        POST /v1/fleet/drain
        POST /v1/fleet/tokens
        POST /v1/alerts/test
        POST /v1/certificate/check
        POST /v1/gc
        PUT ~/quota
        PUT /v1/users/{user}
    """,
}
"""The routes by the weakest caller that they serve. `~` stands for `/v1/projects/{project}`."""


class Callers:
    """A service with a live project, and the sessions of all callers."""

    def __init__(self, hosted: Hosted, client: Client) -> None:
        self.url = hosted.control
        for user, roles in CALLERS.items():
            client.call("PUT", f"/v1/users/{user}", {"password": PASSWORD, "roles": roles})
        with Client(self.url, "") as stranger:
            self.tokens = {
                user: stranger.call("POST", "/v1/login", {"user": user, "password": PASSWORD})["token"]
                for user in CALLERS
            }
        self.document = client.call("GET", "/openapi.json")
        deployments = client.call("GET", "/v1/projects/shop/deployments")["deployments"]
        self.names = {"project": "shop", "scope": "shop", "deployment": deployments[0]["id"]}

    def weakest(self, case: Case) -> str:
        """Return the weakest caller to which a request is not forbidden."""
        case.path_parameters.update(
            {name: self.names[name] for name in self.names if name in case.path_parameters}
        )
        if case.query:
            case.query.pop("follow", None)
        if case.path == "/v1/tokens" and case.method == "POST":
            case.body = {"name": "ci", "role": "deployer", "projects": ["shop"]}
        assert case.call(base_url=self.url, timeout=60).status_code == 401
        for user, token in self.tokens.items():
            response = case.call(base_url=self.url, headers={"authorization": f"Bearer {token}"}, timeout=60)
            if response.status_code != 403:
                return user
        return "no one"


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[Callers]:
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, static_shop(tmp_path / "shop"))
        yield Callers(hosted, client)


@pytest.mark.slow
def test_each_route_requires_its_role(callers: Callers) -> None:
    schema = schemathesis.openapi.from_dict(without_security(callers.document))
    operations = {
        (operation.method.upper(), operation.path): operation
        for operation in (found.ok() for found in schema.get_all_operations())
    }
    routes = operations.keys() - FREE - {LOGOUT, *GUESSES}
    found = {route: _weakest(callers, operations[route]) for route in sorted(routes, key=deletions_last)}
    expected = {
        (method, path.replace("~", "/v1/projects/{project}")): caller
        for caller, lines in REQUIRED.items()
        for method, path in (line.split() for line in lines.split("\n") if line.strip())
    }
    assert found == expected


def _weakest(callers: Callers, operation: Any) -> str:
    found = []

    @settings(
        max_examples=1,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Case) -> None:
        found.append(callers.weakest(case))

    ask()
    return found[0]
