"""Custom domains in the bucket and in routes: a name has one project."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.bucket.folder import FolderBucket
from engine.errors import SvcError
from engine.gateway.domain_proof import answer, with_proof
from engine.gateway.routes import NotReady, RouteTable
from engine.http.exchange import Exchange
from engine.http.server import serve
from engine.http.sockets import bind
from engine.http.tls import Certificate
from engine.manifest.egress import DomainInvalid, parse_domain
from engine.manifest.model import Project, Resource
from engine.manifest.schema import is_name
from engine.service.domain_checks import DomainChecks, Reached, next_ns, summary
from engine.service.domains import NAMES, Domain, DomainStore, DomainTaken
from engine.service.policy import PolicyViolation
from tests.engine.deploy.packing import image_artifact
from tests.engine.service.serving import STATIC, Served, served
from tests.support.certificates import self_signed
from tests.support.examples import examples

SERVICE = "apps.example"
NAME = "shop.example.org"


def with_store(test: Callable[[DomainStore, FolderBucket], Awaitable[Any]]) -> None:
    async def main() -> None:
        with TemporaryDirectory() as folder:
            bucket = FolderBucket(Path(folder) / "bucket")
            try:
                await test(DomainStore(bucket.kv, SERVICE), bucket)
            finally:
                await bucket.aclose()

    asyncio.run(main())


async def prove(store: DomainStore, project: str, name: str, *, reached: bool = True) -> str:
    domain = (await store.get(project))[name]
    await store.checked(project, domain, reached=reached, detail="")
    return store.known(project)[name].state


def test_first_project_that_proves_a_name_has_it_until_it_removes_it() -> None:
    async def test(store: DomainStore, _: FolderBucket) -> None:
        for project in ("first", "second"):
            await store.declare(project, [NAME])
            await store.check_free(project, [NAME], lambda other: True)
        assert await prove(store, "second", NAME, reached=False) == "waiting"
        assert await prove(store, "first", NAME) == "valid"
        assert await prove(store, "second", NAME) == "failed" and not await store.proven("second")
        for may_view, named in ((True, "the project first"), (False, "another project")):
            with pytest.raises(DomainTaken, match=named):
                await store.check_free("third", [NAME], lambda other, seen=may_view: seen)
        assert await prove(store, "first", NAME, reached=False) == "failed"
        assert await store.proven("first") == {NAME}
        await store.declare("first", [])
        assert await prove(store, "second", NAME) == "valid"
        await store.check_free("second", [NAME], lambda other: False)

    with_store(test)


def test_names_of_the_service_are_refused() -> None:
    async def test(store: DomainStore, _: FolderBucket) -> None:
        for name in (SERVICE, f"web--shop.{SERVICE}"):
            with pytest.raises(DomainInvalid, match="belongs to the service"):
                await store.check_free("shop", [name], lambda other: True)

    with_store(test)


def test_check_that_ends_after_the_removal_of_its_name_gives_it_to_no_project() -> None:
    async def test(store: DomainStore, bucket: FolderBucket) -> None:
        await store.declare("first", [NAME])
        domain = (await store.get("first"))[NAME]
        await store.declare("first", [])
        await store.checked("first", domain, reached=True, detail="")
        assert not await store.get("first") and await bucket.kv.get(NAMES + NAME) is None

    with_store(test)


def test_name_that_a_killed_process_did_not_release_is_free() -> None:
    async def test(store: DomainStore, bucket: FolderBucket) -> None:
        await bucket.kv.cas(NAMES + NAME, b'"removed"', None)
        await store.declare("shop", [NAME])
        await store.check_free("shop", [NAME], lambda other: False)
        assert await prove(store, "shop", NAME) == "valid"
        assert await DomainStore(bucket.kv, SERVICE).proven("shop") == {NAME}

    with_store(test)


LABELS = st.sampled_from(
    [name for size in (1, 2, 3) for text in product("ab-", repeat=size) if is_name(name := "".join(text))]
)
PROJECTS = st.sampled_from(["a", "b", "a-b"]) | LABELS
RESOURCES = st.sampled_from(["a", "web"]) | LABELS
SPELLINGS = st.sampled_from([str, str.upper, "{}.".format, lambda name: name.replace(".", "\u3002")])
"""Forms of one name, as a user writes it."""


def parsed(spell: Callable[[str], str], name: str) -> str:
    with suppress(DomainInvalid):  # as for ab--shop.apps.example
        return parse_domain(spell(name))
    return NAME


DOMAINS = st.lists(
    st.builds(
        parsed,
        SPELLINGS,
        st.sampled_from(["a.example.org", "b\u00fc.example.org", "apps.example", "a.apps.example"])
        | st.builds("{}.example.org".format, LABELS)
        | st.builds("{}--{}.apps.example".format, RESOURCES, PROJECTS),
    ),
    max_size=3,
    unique=True,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(PROJECTS, st.dictionaries(RESOURCES, DOMAINS, min_size=1)),
        st.tuples(PROJECTS, st.booleans()),
    ),
    min_size=6,
    max_size=16,
)
"""Deploys of a project with the domains of its resources, and checks of all its domains with a result."""


@settings(max_examples=examples(25), deadline=None)
@given(STEPS)
def test_no_two_projects_serve_one_host(steps: list[tuple[Any, ...]]) -> None:
    projects: dict[str, Project] = {}

    async def test(store: DomainStore, _: FolderBucket) -> None:
        for name, step in steps:
            if isinstance(step, dict):
                taken: set[str] = set()
                resources = {}
                for resource, domains in step.items():
                    own = tuple(each for each in domains if each not in taken)
                    taken |= set(own)
                    resources[resource] = Resource(resource, "static", Path("/"), public=True, domains=own)
                project = Project(name, Path("/"), resources, front_name=next(iter(resources), ""))
                projects[name] = project
                await store.declare(name, project.domains)
            else:
                for each in await store.get(name):
                    await prove(store, name, each, reached=step)
            hosts: list[str] = []
            for project in projects.values():
                versions = {each: NotReady() for each in project.resources}
                table = RouteTable.build(
                    project, versions, domain=SERVICE, front=False, domains=await store.proven(project.name)
                )
                hosts += table.hosts
            assert len(hosts) == len(set(hosts))

    with_store(test)


def test_pause_between_checks_grows_with_the_time_without_success() -> None:
    second = 10**9
    new = Domain(name=NAME, declared_ns=0, since_ns=0)
    pauses = [next_ns(replace(new, checked_ns=each * second)) // second - each for each in (0, 100, 10**6)]
    assert pauses == [2, 10, 300]
    assert next_ns(replace(new, state="valid", checked_ns=10**6 * second)) // second - 10**6 == 3600


def test_name_that_was_checked_while_the_clock_was_ahead_is_due() -> None:
    later = time.time_ns() + 365 * 86400 * 10**9
    assert next_ns(Domain(name=NAME, declared_ns=0, since_ns=0, checked_ns=later)) == 0


def test_search_domains_of_the_resolver_are_not_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def main() -> None:
        async def look_up(name: str, *_: object, **__: object) -> list[Any]:
            asked.append(name)
            return []

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up, raising=False)
        checks = DomainChecks(SERVICE, "http://{}", b"key")
        for name in ("shop.example.org", "localhost"):
            await checks.addresses(name)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    assert asked == ["shop.example.org.", "localhost"]


def test_summary_needs_one_address_that_reaches_the_service_and_names_the_others() -> None:
    good, bad = Reached("192.0.2.1", ""), Reached("2001:db8::1", "does not answer")
    assert summary([good, bad], "") == (True, "2001:db8::1 does not answer")
    assert summary([bad], "") == (False, "2001:db8::1 does not answer")
    assert summary([], "DNS fails") == (False, "DNS fails")


def test_answers_differ_by_service_name_and_token() -> None:
    answers = {answer(key, name, "t" * 20) for key in (b"1", b"2") for name in ("a.example", "b.example")}
    assert len(answers) == 4


@pytest.mark.parametrize("tls", [False, True])
def test_check_reaches_the_service_that_has_the_key_only(tls: bool, tmp_path: Path) -> None:
    context = Certificate(*self_signed(tmp_path)).load().context() if tls else None

    async def others(exchange: Exchange) -> None:
        await exchange.send_head(404, [])
        await exchange.send_body(b"", end=True)

    async def main() -> None:
        stop, sockets = asyncio.Event(), bind("127.0.0.1", 0)
        origin = f"{'https' if tls else 'http'}://{{}}:{sockets[0].getsockname()[1]}"
        handler = with_proof(others, b"key")
        server = asyncio.create_task(serve(handler, sockets, stop=stop, grace=1, tls=context))
        problems = {}
        for key in (b"key", b"other"):
            answers, _ = await DomainChecks(SERVICE, origin, key).check("localhost")
            problems[key] = next(each.problem for each in answers if each.address == "127.0.0.1")
        assert problems == {b"key": "", b"other": "is another server, which answers with 200"}
        reached = [Reached("127.0.0.1", ""), Reached("127.0.0.2", "does not answer")]
        blocked = await DomainChecks(SERVICE, origin, b"key").port_80("localhost", reached)
        assert blocked.startswith("the authority checks names at port 80: 127.0.0.1 ")
        assert not await DomainChecks(SERVICE, origin, b"key").port_80("localhost", reached[1:])
        stop.set()
        await server

    asyncio.run(main())


def test_check_of_another_server_and_of_a_closed_port_do_not_reach_the_service() -> None:
    async def main() -> None:
        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 301 Moved\r\nlocation: http://localhost/\r\ncontent-length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        checks = DomainChecks(SERVICE, f"http://{{}}:{port}", b"key")
        answers, problem = await checks.check("localhost")
        assert [each.problem for each in answers if each.address == "127.0.0.1"] == [
            "is another server, which answers with 301"
        ]
        assert not problem
        server.close()
        answers, _ = await checks.check("localhost")
        assert all("does not answer" in each.problem for each in answers)
        assert await checks.check("no-such-name.invalid") in (
            ([], "DNS has no address for this name"),
            ([], "DNS fails for no-such-name.invalid: Temporary failure in name resolution"),
        )

    asyncio.run(main())


def test_new_domain_needs_an_owner_and_in_a_live_project_the_option(tmp_path: Path) -> None:
    artifacts = {"web": image_artifact(tmp_path / "site", {"index.html": "one"})}

    async def test(service: Served) -> None:
        domain = STATIC + f'domains = ["{NAME}"]\n'

        def owner(project: str, role: str) -> bool:
            return project == "shop"

        with pytest.raises(SvcError, match="require the role owner") as caught:
            await service.deploy(await service.order(domain, artifacts))
        assert caught.value.code == "forbidden"
        await service.deploy(await service.order(STATIC, artifacts))
        with pytest.raises(PolicyViolation, match=f"web now answers at {NAME}"):
            await service.deploy(await service.order(domain, artifacts, may=owner))
        await service.deploy(await service.order(domain, artifacts, may=owner, allow_new_capability=True))
        assert list(await service.service.domains.get("shop")) == [NAME]
        await service.deploy(await service.order(domain, artifacts))
        with pytest.raises(DomainInvalid, match="belongs to the service"):
            await service.deploy(await service.order(STATIC + 'domains = ["a.apps.example"]\n', artifacts))

    served(tmp_path, test)


def test_rollback_adds_domains_for_owners_only_and_takes_none_of_another_project(tmp_path: Path) -> None:
    artifacts = {"web": image_artifact(tmp_path / "site", {"index.html": "one"})}
    others = {"web": image_artifact(tmp_path / "other", {"index.html": "two"})}
    domain = STATIC + f'domains = ["{NAME}"]\n'

    async def test(running: Served) -> None:
        service, store = running.service, running.service.domains
        older = await running.deploy(await running.order(domain, artifacts, may=lambda *_: True))
        assert await prove(store, "shop", NAME) == "valid"
        await running.deploy(await running.order(STATIC, artifacts))
        assert not await store.get("shop")
        other = domain.replace('name = "shop"', 'name = "other"')
        await running.deploy(await running.order(other, others, name="other", may=lambda *_: True))
        assert await prove(store, "other", NAME) == "valid"
        live = await service.history.live("shop")
        assert live is not None
        options: dict[str, Any] = {"by": "bob", "message": "", "revision": live.revision}
        with pytest.raises(SvcError, match=f"new domains of shop require the role owner: {NAME}"):
            await service.rollback("shop", older.id, owner=False, **options)
        assert not await store.get("shop")
        await service.rollback("shop", older.id, owner=True, **options)
        assert await prove(store, "shop", NAME) == "failed"
        assert store.known("shop")[NAME].detail == "another project has this domain"
        for project in ("shop", "other"):
            await service.reload(project)
        assert not await store.proven("shop") and await store.proven("other") == {NAME}
        assert (await running.client.get("/", headers={"host": NAME})).text == "two"

    served(tmp_path, test)
