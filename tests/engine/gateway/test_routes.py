from itertools import chain, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gateway.routes import NotReady, RouteTable, internal_request, internal_resource
from engine.manifest.model import Mount, Project, Resource, host_label
from engine.manifest.schema import NAME_LENGTH, is_name
from tests.support.examples import examples

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
        "web--shop.localhost..",
        "web--shop.localhost:80 ",
        "web--shop.localhost :80",
    ],
)
def test_match_host_with_unknown_authority_returns_none(authority: str) -> None:
    assert table(WEB, API).match_host(authority) is None


def test_service_domain_excludes_local_hosts() -> None:
    routes = table(WEB, domain="apps.example")
    assert routes.match_host("localhost") is None
    assert routes.match_host("apps.example") is not None


@pytest.mark.parametrize(
    ("resources", "named", "front"),
    [
        ("static web, js api", "", "web"),
        ("js api", "", "api"),
        ("js api, static web, go old", "", "web"),
        ("js api, static web", "api", "api"),
        ("static web, static docs", "", None),
        ("static web, static docs", "docs", "docs"),
        ("js api, go old", "", None),
        ("js api, go old", "old", "old"),
        ("", "", None),
    ],
)
def test_front_answers_at_address_of_project_and_in_development_at_localhost(
    resources: str, named: str, front: str | None
) -> None:
    pairs = [text.split() for text in resources.split(", ") if text]
    public = {name: Resource(name, lane, ROOT, public=True) for lane, name in pairs}
    project = Project("shop", ROOT, public | {"back": API}, front_name=named)
    versions = dict.fromkeys(project.resources, NotReady())
    service = RouteTable.build(project, versions, domain="apps.example", front=False)
    dev = RouteTable.build(project, versions, domain="localhost", front=True)
    for found in (service.match_host("shop.apps.example"), dev.match_host("localhost:3000")):
        assert (found.name if found is not None else None) == front
    assert (dev.match_host("shop.localhost") is None) == (front is None)
    assert service.match_host("apps.example") is service.match_host("localhost") is None


def names(alphabet: str, length: int) -> list[str]:
    texts = (product(alphabet, repeat=size) for size in range(1, length + 1))
    return [name for text in chain.from_iterable(texts) if is_name(name := "".join(text))]


def test_no_two_projects_and_resources_of_short_names_have_one_host() -> None:
    valid = names("ax-1", 4)
    labels = [host_label(project) for project in valid]
    labels += [host_label(project, resource) for project in valid for resource in valid]
    assert len(labels) > 10_000 and len(set(labels)) == len(labels)


NAMES = st.sampled_from([*names("ab-1", 5), "x" * NAME_LENGTH, "xn", "localhost", "console", "www"])


@settings(max_examples=examples(50), deadline=None)
@given(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=4, unique=True), min_size=2, max_size=4))
def test_hosts_of_generated_projects_lead_to_their_own_resources(projects: dict[str, list[str]]) -> None:
    tables = []
    for name, resources in projects.items():
        public = {each: Resource(each, "static", ROOT, public=True) for each in resources}
        project = Project(name, ROOT, public, front_name=resources[0])
        versions = dict.fromkeys(resources, NotReady())
        tables.append(RouteTable.build(project, versions, domain="apps.example", front=False))
    merged = RouteTable.merge(tables)
    assert len(merged.hosts) == sum(len(table.hosts) for table in tables)
    for name, resources in projects.items():
        found = [merged.match_host(f"{host_label(name, each)}.apps.example") for each in ("", *resources)]
        reached = [(each.project, each.name) for each in found if each is not None]
        assert reached == [(name, each) for each in (resources[0], *resources)]


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


def test_host_of_requests_by_svc_itself_is_no_address() -> None:
    routes = RouteTable.merge([table(WEB, API)])
    for name in ("web", "api"):
        authority = dict(internal_request("shop", name, "/", "01", {}).headers)[b"host"].decode()
        assert routes.match_host(authority) is None
        assert internal_resource(authority) == ("shop", name)
        endpoint = routes.resource("shop", name)
        assert endpoint is not None and endpoint.name == name
    assert internal_resource("web--shop.localhost") is None and routes.resource("other", "web") is None
