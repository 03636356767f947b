from pathlib import Path

import pytest

from engine.gateway.routes import NotReady, RouteTable
from engine.manifest.model import Mount, Project, Resource

ROOT = Path("/")


def table(*resources: Resource, domain: str = "localhost") -> RouteTable:
    project = Project("shop", ROOT, {r.name: r for r in resources})
    return RouteTable.build(project, {r.name: NotReady() for r in resources}, domain=domain)


WEB = Resource("web", "static", ROOT, public=True)
API = Resource("api", "js", ROOT)


@pytest.mark.parametrize(
    "authority",
    [
        "web--shop.localhost",
        "WEB--Shop.LOCALHOST:3000",
        "web--shop.localhost.",
        "localhost",
        "localhost:3000",
        "127.0.0.1:80",
        "[::1]:3000",
        "[::1]",
    ],
)
def test_match_host_finds_front(authority: str) -> None:
    result = table(WEB, API).match_host(authority)
    assert result is not None and result.name == "web"


@pytest.mark.parametrize(
    "authority",
    [
        "",
        "api--shop.localhost",
        "web--shop.example",
        "web--shop.localhost.evil",
        "[",
        "web--shop.localhost:99999",
        "web--shop.localhost:x",
        "web--shop.localhost:80:80",
        "[::1]x",
        "[::1",
        "web--shop.localhost:\u0663",
        "web--shop.localhost@evil",
        "user@web--shop.localhost",
    ],
)
def test_match_host_with_unknown_authority_returns_none(authority: str) -> None:
    assert table(WEB, API).match_host(authority) is None


def test_service_domain_excludes_local_hosts() -> None:
    routes = table(WEB, domain="apps.example")
    assert routes.match_host("localhost") is None
    assert routes.match_host("apps.example") is not None


def test_front_is_public_resource_with_mounts() -> None:
    plain = Resource("a", "static", ROOT, public=True)
    mounting = Resource("b", "static", ROOT, public=True, mounts=(Mount("/api/*", "api"),))
    assert table(plain, mounting, API).match_host("localhost").name == "b"  # type: ignore[union-attr]
    assert table(plain, WEB).match_host("localhost").name == "a"  # type: ignore[union-attr]
    assert table(API).match_host("localhost") is None


def test_match_mount_prefers_exact_then_longest_pattern() -> None:
    mounts = (Mount("/*", "r0"), Mount("/a/*", "r1"), Mount("/a/b/*", "r2"), Mount("/a/b", "r3"))
    targets = [Resource(f"r{i}", "js", ROOT) for i in range(4)]
    front = Resource("web", "static", ROOT, public=True, mounts=mounts)
    result = table(front, *targets).match_host("localhost")
    assert result is not None
    expected = {
        "/": "r0",
        "/x": "r0",
        "/a": "r1",
        "/a/": "r1",
        "/ab": "r0",
        "/a/b": "r3",
        "/a/b/": "r2",
        "/a/b/c": "r2",
    }
    assert {path: result.match_mount(path).name for path in expected} == expected  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/caf%C3%A9/*", "/caf%c3%a9/x"),
        ("/caf%c3%a9/*", "/caf%C3%A9"),
        ("/api/*", "/%61pi/x"),
        ("/@me/*", "/%40me/x"),
        ("/a%20b", "/%61%20b"),
        ("/a%2fb/*", "/a%2Fb/x"),
        ("/a%2541/*", "/a%2541/x"),
    ],
)
def test_mount_matches_path_in_another_encoding(pattern: str, path: str) -> None:
    web = Resource("web", "static", ROOT, public=True, mounts=(Mount(pattern, "api"),))
    endpoint = table(web, API).match_host("localhost")
    assert endpoint is not None
    target = endpoint.match_mount(path)
    assert target is not None and target.name == "api" and web.mount_of(path) is not None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("/a/b/*", "/a%2Fb/x"), ("/a/*", "/a%2Fb"), ("/aA/*", "/a%2541/x"), ("/a%25", "/a%"), ("/a/*", "/A/x")],
)
def test_mount_does_not_match_another_path(pattern: str, path: str) -> None:
    web = Resource("web", "static", ROOT, public=True, mounts=(Mount(pattern, "api"),))
    endpoint = table(web, API).match_host("localhost")
    assert endpoint is not None and endpoint.match_mount(path) is None and web.mount_of(path) is None
