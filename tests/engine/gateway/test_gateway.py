import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import FolderArtifact
from engine.gateway.app import guest_headers
from engine.gateway.routes import NotReady
from engine.gateway.static.responder import StaticResponder
from engine.grant import Grant
from engine.lane import BuildFailed, Diagnostic
from engine.manifest.model import Mount, Resource
from engine.timeline.record import LineRecord, PlatformRecord
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.exchanges import PLAIN
from tests.engine.gateway.serving import Scripted, Site, echo, reply, report, with_site

ROOT = Path("/")
FRONT = Resource("front", "static", ROOT, public=True, mounts=(Mount("/api/*", "api"),))
API = Resource("api", "js", ROOT)
PUBLIC_API = Resource("api", "js", ROOT, public=True)


def with_api(version: Any, test: Any, **options: Any) -> Any:
    return with_site([PUBLIC_API], {"api": version}, test, **options)


@pytest.fixture
def files(tmp_path: Path) -> StaticResponder:
    (tmp_path / "index.html").write_text("<h1>front</h1>")
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "now").write_text("a file below a mount")
    return StaticResponder(FolderArtifact(tmp_path), PLAIN)


def test_front_files_and_mounts_share_an_origin(files: StaticResponder) -> None:
    async def test(site: Site) -> None:
        assert (await site.ask("/")).text == "<h1>front</h1>"
        for path in ("/api/now", "/api", "/api/", "/api/a%20b?x=%2F&y"):
            answer = await site.ask(path, "front--shop.localhost")
            assert answer.text == f"GET front--shop.localhost {path}"
        assert (await site.ask("/apix")).status_code == 404

    with_site([FRONT, API], {"front": files, "api": echo()}, test)


def test_fallback_gets_requests_without_mount_and_file(files: StaticResponder, tmp_path: Path) -> None:
    (tmp_path / "about.html").write_text("about")
    front = replace(FRONT, fallback="web")
    live = StaticResponder(FolderArtifact(tmp_path), replace(PLAIN, fallback="web"))

    async def test(site: Site) -> None:
        host = "front--shop.localhost"
        assert (await site.ask("/")).text == "<h1>front</h1>"
        assert (await site.ask("/about")).text == "about"
        assert (await site.ask("/", method="POST")).status_code == 405
        assert (await site.ask("/api/now", host)).text == f"GET {host} /api/now"
        for method in ("GET", "POST", "OPTIONS"):
            for path in ("/cart?a=1", "/about/", "/.env", "/a%2Fb"):
                assert (await site.ask(path, host, method)).text == f"{method} {host} {path}"
        assert [(each.resource, each.root) for each in site.spans[-2:]] == [("web", False), ("front", True)]
        assert site.spans[-2].parent == site.spans[-1].span_id

    with_site([front, API, Resource("web", "js", ROOT)], {"front": live, "api": echo(), "web": echo()}, test)


def test_404_of_a_fallback_records_no_missing_mount(files: StaticResponder) -> None:
    async def missing(request: GuestRequest) -> RunReport:
        return await reply(request, b"", 404)

    async def test(site: Site) -> None:
        assert (await site.ask("/api/x")).status_code == 404
        assert not [record for record in site.records if isinstance(record, PlatformRecord)]

    front = replace(FRONT, mounts=(), fallback="api")
    with_site([front, API], {"front": files, "api": Scripted(missing)}, test)


def test_path_that_names_an_unmounted_resource_records_the_mount_that_routes_it(
    files: StaticResponder,
) -> None:
    async def test(site: Site) -> None:
        front = "front--shop.localhost"
        for path in ("/other", "/apix", "/front/x", "/api/x", "*"):
            await site.ask(path, front) if path != "*" else await site.ask("*", front, "OPTIONS")
        (event,) = (record for record in site.records if isinstance(record, PlatformRecord))
        assert event.resource == "front" and "no mount of front has the path /api/x" in event.text
        assert event.grant == Grant.mount("front", "/api/*", "api")

    with_site([replace(FRONT, mounts=()), API], {"front": files, "api": echo()}, test)


def test_unknown_and_private_hosts_return_equal_responses(files: StaticResponder) -> None:
    async def test(site: Site) -> None:
        observed = set()
        for host in (
            "api--shop.localhost",
            "nope--shop.localhost",
            "front--nope.localhost",
            "x",
            "example.com",
        ):
            request = b"GET /api/now HTTP/1.1\r\nhost: " + host.encode() + b"\r\nconnection: close\r\n\r\n"
            answer = await site.raw(request)
            head, _, body = answer.partition(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if not line.startswith((b"x-request-id", b"date"))]
            observed.add((tuple(lines), json.loads(body)["status"], len(body), body[:120]))
        assert len(observed) == 1
        assert observed.pop()[1] == 404

    with_site([FRONT, API], {"front": files, "api": echo()}, test)


@pytest.mark.parametrize(
    "host",
    ["localhost..", ".localhost", ".", "local host", "localhost :80", "localhost:80 80", "a@localhost"],
)
def test_invalid_host_returns_400(files: StaticResponder, host: str) -> None:
    async def test(site: Site) -> None:
        answer = await site.raw(f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"code": "invalid-host"' in answer

    with_site([FRONT, API], {"front": files, "api": echo()}, test)


def test_mounted_request_records_two_spans_of_one_trace(files: StaticResponder) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def test(site: Site) -> None:
        answer = await site.ask("/api/x", headers={"traceparent": trace, "x-request-id": "mine"})
        inner, outer = site.spans
        assert (inner.resource, outer.resource) == ("api", "front")
        assert inner.trace_id == outer.trace_id == trace.split("-")[1]
        assert inner.parent == outer.span_id and outer.parent == trace.split("-")[2]
        assert inner.request_id == outer.request_id == answer.headers["x-request-id"] != "mine"
        assert (inner.root, outer.root) == (False, True)
        assert (inner.compute_ns, inner.peak_memory) == (3, 7)
        assert outer.wall_ns >= inner.wall_ns > 0

    with_site([FRONT, API], {"front": files, "api": echo()}, test)


def test_target_of_a_record_has_no_credentials() -> None:
    async def body(request: GuestRequest) -> RunReport:
        return await reply(request, request.target.encode())

    async def test(site: Site) -> None:
        answer = await site.ask("/a?token=x&page=2", "api--shop.localhost")
        assert answer.text == "/a?token=x&page=2"
        assert [span.target for span in site.spans] == ["/a?token=[redacted]&page=2"]

    with_api(Scripted(body), test)


@pytest.mark.parametrize(("scheme", "expected"), [("", "http"), ("https", "https")])
def test_guest_scheme_is_configured_and_ignores_forwarded_header(scheme: str, expected: str) -> None:
    async def body(request: GuestRequest) -> RunReport:
        return await reply(request, request.scheme.encode())

    async def test(site: Site) -> None:
        spoofed = {"x-forwarded-proto": "gopher"}
        assert (await site.ask("/", "api--shop.localhost", headers=spoofed)).text == expected

    with_api(Scripted(body), test, scheme=scheme)


def test_guest_receives_request_ids_and_no_hop_by_hop_fields() -> None:
    observed: list[GuestRequest] = []

    async def body(request: GuestRequest) -> RunReport:
        observed.append(request)
        forged = [(b"connection", b"close"), (b"x-request-id", b"forged"), (b"date", b"forged")]
        return await reply(request, b"", 200, *forged)

    async def test(site: Site) -> None:
        answer = await site.ask(
            "/", "api--shop.localhost", headers={"connection": "x-secret", "x-secret": "1", "te": "trailers"}
        )
        exchange = observed[0]
        names = {name for name, _ in exchange.headers}
        assert names.isdisjoint({b"connection", b"x-secret", b"te", b"x-request-id"})
        assert exchange.env["SVC_REQUEST_ID"] == answer.headers["x-request-id"] != "forged"
        (date,) = answer.headers.get_list("date")
        assert date.endswith(" GMT")
        assert exchange.env["TRACEPARENT"].encode() in dict(exchange.headers)[b"traceparent"]
        assert "connection" not in answer.headers

    with_api(Scripted(body), test)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("guest-failed", 500),
        ("unavailable", 503),
        ("memory-limit", 500),
        ("run-limit", 504),
        ("body-too-large", 413),
        ("overloaded", 503),
    ],
)
def test_failure_before_response_returns_problem(outcome: Any, status: int) -> None:
    async def body(_request: GuestRequest) -> RunReport:
        return report(outcome, None, detail="secret guest detail")

    async def test(site: Site) -> None:
        answer = await site.ask("/", "api--shop.localhost")
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["status"], problem["code"]) == (status, outcome)
        assert problem["request_id"] == answer.headers["x-request-id"]
        assert "secret" not in answer.text
        assert ("retry-after" in answer.headers) == (status == 503)
        page = await site.ask("/", "api--shop.localhost", headers={"accept": "text/html,*/*"})
        assert page.headers["content-type"].startswith("text/html") and "secret" not in page.text
        head = await site.ask("/", "api--shop.localhost", "HEAD")
        assert head.status_code == status and head.content == b""
        assert site.spans[0].code == outcome

    with_api(Scripted(body), test)


def test_dev_error_page_shows_message_and_stack_of_guest() -> None:
    async def body(request: GuestRequest) -> RunReport:
        request.on_line("stderr", "    at fetch (src/<index>.js:3:4)")
        return report("guest-failed", None, detail="Error: boom & <b>bust</b>")

    async def test(site: Site) -> None:
        page = (await site.ask("/", "api--shop.localhost", headers={"accept": "text/html"})).text
        assert "Error: boom &amp; &lt;b&gt;bust&lt;/b&gt;" in page
        assert "src/&lt;index&gt;.js:3:4" in page
        assert (await site.ask("/", "api--shop.localhost")).json()["detail"] == "Error: boom & <b>bust</b>"
        line = next(r for r in site.records if isinstance(r, LineRecord))
        assert line.text.startswith("    at fetch")

    with_api(Scripted(body), test, dev=True)


def test_failed_build_page_shows_code_frame_in_dev_only() -> None:
    error = BuildFailed(
        "it does not build", diagnostics=(Diagnostic("Unexpected }", "src/i.js", 3, 7, "> 3 │ }"),)
    )

    async def test(site: Site) -> str:
        answer = await site.ask("/", "api--shop.localhost", headers={"accept": "text/html"})
        assert answer.status_code == 503
        return answer.text

    assert "src/i.js:3:7" in with_api(NotReady(error), test, dev=True)
    assert "src/i.js" not in with_api(NotReady(error), test)


@pytest.mark.parametrize("outcome", ["guest-failed", "run-limit", "memory-limit"])
def test_failure_after_head_truncates_response(outcome: Any) -> None:
    async def body(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        await request.exchange.send_body(b"part", end=False)
        return report(outcome, 200, complete=False)

    async def test(site: Site) -> None:
        answer = await site.raw(b"GET / HTTP/1.1\r\nhost: api--shop.localhost\r\n\r\n")
        assert b"4\r\npart\r\n" in answer and not answer.endswith(b"0\r\n\r\n")
        assert (await site.ask("/", "missing")).status_code == 404

    with_api(Scripted(body), test)


def test_failure_after_complete_response_is_recorded_only() -> None:
    async def body(request: GuestRequest) -> RunReport:
        await reply(request, b"whole")
        return report("guest-failed", 200, complete=True)

    async def test(site: Site) -> None:
        assert (await site.ask("/", "api--shop.localhost")).text == "whole"
        assert site.spans[0].code == "guest-failed"

    with_api(Scripted(body), test)


def test_content_length_above_limit_returns_413_at_once() -> None:
    async def test(site: Site) -> None:
        request = b"POST / HTTP/1.1\r\nhost: api--shop.localhost\r\ncontent-length: 9999999\r\n\r\n"
        assert b" 413 " in (await site.raw(request)).split(b"\r\n")[0]

    with_api(echo(), test)


def test_mount_loop_returns_508() -> None:
    a = Resource("a", "js", ROOT, public=True, mounts=(Mount("/*", "b"),))
    b = Resource("b", "js", ROOT, mounts=(Mount("/*", "a"),))

    async def test(site: Site) -> None:
        answer = await site.ask("/x")
        assert answer.status_code == 508 and answer.json()["code"] == "mount-loop"

    with_site([a, b], {"a": echo(), "b": echo()}, test)


def test_internal_error_returns_500_and_is_logged() -> None:
    async def body(_request: GuestRequest) -> RunReport:
        raise KeyError("/some/path/of/the/host")

    async def test(site: Site) -> None:
        answer = await site.ask("/", "api--shop.localhost")
        assert answer.status_code == 500 and answer.json()["code"] == "internal"
        assert "/some/path" not in answer.text
        assert any("KeyError" in getattr(record, "text", "") for record in site.records)

    with_api(Scripted(body), test)


def test_response_chunks_are_sent_at_once() -> None:
    go_on = asyncio.Event()

    async def body(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [])
        await request.exchange.send_body(b"one", end=False)
        await go_on.wait()
        await request.exchange.send_body(b"two", end=True)
        return report()

    async def test(site: Site) -> None:
        async with site.client.stream("GET", "/", headers={"host": "api--shop.localhost"}) as answer:
            chunks = answer.aiter_raw()
            assert await anext(chunks) == b"one"
            go_on.set()
            assert await anext(chunks) == b"two"

    with_api(Scripted(body), test)


def test_connection_field_cannot_remove_fields_that_proxies_set() -> None:
    headers = [
        (b"host", b"a.localhost"),
        (b"connection", b"host, X-Real-IP, x-own"),
        (b"x-real-ip", b"192.0.2.1"),
        (b"x-own", b"1"),
    ]
    assert guest_headers(headers) == [headers[0], headers[2]]


@pytest.mark.parametrize("dev", [True, False])
def test_unknown_host_is_explained_in_development_only(files: StaticResponder, *, dev: bool) -> None:
    async def test(site: Site) -> None:
        unknown = (await site.ask("/", "x.ngrok.io", headers={"accept": "text/html"})).text
        for host in ("api--shop.localhost", "other--shop.localhost"):
            answer = (await site.ask("/", host)).json()
            assert answer["detail"] in unknown and (answer["status"], answer["code"]) == (404, "unknown-host")
        assert (await site.ask("/missing")).json()["code"] == "not-found"
        assert ("No resource has this host" in unknown) == ("front--shop.localhost" in unknown) == dev
        assert "api--shop" not in unknown

    with_site([FRONT, API], {"front": files, "api": echo()}, test, dev=dev)


@pytest.mark.parametrize(("scheme", "secure"), [("", ""), ("https", "; Secure")])
def test_cookie_has_the_last_write_of_a_session(scheme: str, secure: str) -> None:
    seen: list[int] = []

    async def body(request: GuestRequest) -> RunReport:
        seen.append(request.session.written)
        if request.method == "POST":
            request.session.written = max(request.session.written, 7)
        return await reply(request, b"")

    async def test(site: Site) -> None:
        written = await site.ask("/api/", method="POST")
        attributes = f"Path=/; Max-Age=3600; HttpOnly; SameSite=Lax{secure}"
        assert written.headers["set-cookie"] == f"svc-written=7; {attributes}"
        site.client.cookies.clear()
        for method, cookie in (
            ("GET", "a=1; svc-written=7"),
            ("POST", "svc-written=8;b=2"),
            ("GET", "svc-written=x"),
            ("GET", "my-svc-written=8"),
        ):
            answer = await site.ask("/api/", method=method, headers={"cookie": cookie})
            assert "set-cookie" not in answer.headers
        assert seen == [0, 7, 8, 0, 0]

    stale = Resource("page", "js", ROOT, reads="stale")
    with_site(
        [FRONT, API, stale], {"front": echo(), "api": Scripted(body), "page": echo()}, test, scheme=scheme
    )


def test_project_without_stale_reads_sets_no_cookie() -> None:
    async def body(request: GuestRequest) -> RunReport:
        assert request.session.written == 0
        request.session.written = 7
        return await reply(request, b"")

    async def test(site: Site) -> None:
        answer = await site.ask("/", "api--shop.localhost", headers={"cookie": "svc-written=9"})
        assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)

    with_api(Scripted(body), test)


NAMES = ("a.example", "b.example", "c.example")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proven_domains_redirect_to_the_first_one_and_hsts_is_for_https(scheme: str) -> None:
    async def test(site: Site) -> None:
        assert (await site.ask("/", "a.example")).status_code == 404
        answer = await site.ask("/", "B.example.:8443")
        assert answer.status_code == 200
        assert answer.headers.get("strict-transport-security") == (
            "max-age=31536000" if scheme == "https" else None
        )
        answer = await site.ask("/x//%2e?y=/&z", "c.example:8443", method="POST")
        assert answer.status_code == 308
        assert answer.headers["location"] == f"{scheme}://b.example:8443/x//%2e?y=/&z"
        assert [(span.resource, span.status) for span in site.spans if span.root] == [
            ("", 404),
            ("front", 200),
            ("front", 308),
        ]

    front = replace(FRONT, mounts=(), domains=NAMES, hsts=True)
    with_site([front], {"front": echo()}, test, scheme=scheme, domains={"b.example", "c.example"})


def test_domains_in_development_answer_without_redirects() -> None:
    async def test(site: Site) -> None:
        assert {(await site.ask("/", name)).status_code for name in NAMES} == {200}

    with_site([replace(FRONT, mounts=(), domains=NAMES)], {"front": echo()}, test, dev=True)
