"""fetch() of the js lane against a server: redirects, encodings, URLs and errors, in dev and deploy mode."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.lanes.js.conftest import MODES, Sources
from tests.lanes.workdir import answers
from tests.support.peer import COMPRESSED, as_json, peer

pytestmark = pytest.mark.slow
PROGRAM = """\
async function* failing(how) {
  yield new TextEncoder().encode('tea');
  if (how === 'text') yield 'text';
  throw new RangeError('no tea');
}
const CODINGS = { 'accept-encoding': 'br, gzip;q=0.5, zstd, *;q=0.1' };
export default {
  async fetch(request, env) {
    const [input, init, read] = JSON.parse(env.CALL);
    if (init?.codings) init.headers = CODINGS;
    if (init?.stream) init.body = ReadableStream.from([new TextEncoder().encode(init.stream)]);
    if (init?.failing) init.body = ReadableStream.from(failing(init.failing));
    try {
      const response = await (init?.request ? fetch(new Request(input, init)) : fetch(input, init));
      if (read === 'pass') return response;
      if (read === 'copy') return new Response(response.body, response);
      const { status, url, redirected, headers } = response;
      const [location, text] = [headers.get('location'), await response.text()];
      return Response.json({ status, url, redirected, location, text });
    } catch (error) {
      return Response.json({ error: error.name, message: error.message });
    }
  },
};
"""


@pytest.fixture(scope="module")
def origins() -> Iterator[list[str]]:
    """The addresses of two servers that return requests as JSON."""
    with peer(as_json) as one, peer(as_json) as other:
        yield [one.origin, other.origin]


Call = Callable[..., Any]


@pytest.fixture(scope="module", params=MODES)
def send(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path, origins: list[str]
) -> Call:
    """Return the result of a fetch() of the program."""
    sources = Sources(tmp_path_factory.mktemp("fetch ü").resolve(), cache)
    sources.write("index.js", PROGRAM)
    artifact = sources.build(request.param)
    resource = replace(sources.resource, egress=tuple(origins))

    def send(url: str, init: dict[str, Any] | None = None, read: str = "") -> Any:
        environment = {"CALL": json.dumps([url, init, read])}
        answer = answers(cache, resource, artifact, "/", method="GET", environment=environment)[0]
        assert answer.status == 200, answer
        return answer if read else json.loads(answer.body)

    return send


def redirect(origin: str, to: str, status: int = 302) -> str:
    return f"{origin}/redirect?status={status}&to={quote(to, safe='')}"


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
    ],
)
def test_redirect_is_followed_with_the_standard_method(
    send: Call, origins: list[str], status: int, method: str, expected: str
) -> None:
    init = {"method": method, "body": "tea", "headers": {"content-type": "text/x", "x-a": "1"}}
    answer = send(redirect(origins[0], "/end?x=1", status), init)
    assert (answer["status"], answer["redirected"], answer["url"]) == (200, True, f"{origins[0]}/end?x=1")
    sent_method, path, headers, body = json.loads(answer["text"])
    same = expected != "GET"
    assert (sent_method, path, body) == (expected, "/end?x=1", "tea" if same else "")
    assert (headers.get("content-type"), headers["x-a"]) == ("text/x" if same else None, "1")


def test_redirect_to_another_origin_drops_credentials(send: Call, origins: list[str]) -> None:
    init = {"headers": {"authorization": "secret", "cookie": "a=b", "x-a": "1"}}
    kept = json.loads(send(redirect(origins[0], "/end"), init)["text"])[2]
    assert kept["authorization"] == "secret"
    sent = json.loads(send(redirect(origins[0], f"{origins[1]}/end"), init)["text"])[2]
    assert "authorization" not in sent and "cookie" not in sent and sent["x-a"] == "1"


def test_redirect_sends_the_body_of_a_request_again(send: Call, origins: list[str]) -> None:
    answer = send(redirect(origins[0], "/end", 307), {"method": "POST", "body": "tea", "request": True})
    assert json.loads(answer["text"])[3] == "tea"


@pytest.mark.parametrize("request_object", [True, False])
def test_manual_redirect_returns_the_response(send: Call, origins: list[str], request_object: bool) -> None:
    answer = send(redirect(origins[0], "/end"), {"redirect": "manual", "request": request_object})
    assert (answer["status"], answer["location"], answer["redirected"]) == (302, "/end", False)


@pytest.mark.parametrize(
    ("target", "init", "message"),
    [
        ("end", {"redirect": "error"}, "has redirect: 'error'"),
        ("/loop", None, "more than 20 redirects"),
        ("http://[", None, "which is not a URL"),
        ("http://example.org/", None, "egress in svc.toml does not allow it"),
        ("end", {"method": "POST", "stream": "tea", "duplex": "half"}, "cannot be sent twice"),
        ("end", {"redirect": "never"}, 'redirect is "never"'),
        ("end", {"mode": "navigate"}, 'mode is "navigate"'),
        ("ftp://a.example/", None, "is not http, https or data"),
    ],
)
def test_failing_redirect_raises_type_error(
    send: Call, origins: list[str], target: str, init: dict[str, Any] | None, message: str
) -> None:
    url = redirect(origins[0], target, 307)
    answer = send(url, init)
    assert answer["error"] == "TypeError" and message in answer["message"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/path", '"/path" is not an absolute URL'),
        ("ftp://a.example/", "the scheme of ftp://a.example/ is not http, https or data"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:1 did not answer"),
        ("data:none", "has no comma"),
    ],
)
def test_failing_fetch_raises_type_error_with_the_reason(send: Call, url: str, message: str) -> None:
    answer = send(url)
    assert answer["error"] == "TypeError" and message in answer["message"]


@pytest.mark.parametrize("request_object", [True, False])
@pytest.mark.parametrize(
    ("failing", "reason"), [("error", "no tea"), ("text", "a chunk is a string, not a Uint8Array")]
)
def test_failing_upload_rejects_its_promise(
    send: Call, origins: list[str], failing: str, reason: str, request_object: bool
) -> None:
    init = {"method": "POST", "duplex": "half", "failing": failing, "request": request_object}
    answer = send(f"{origins[0]}/", init)
    assert answer["error"] == "TypeError"
    assert answer["message"] == f"fetch: the body of the request failed: {reason}"


def test_streamed_upload_of_a_request_arrives(send: Call, origins: list[str]) -> None:
    init = {"method": "PUT", "duplex": "half", "stream": "tea", "request": True, "headers": {"x-a": "1"}}
    method, _, headers, body = json.loads(send(f"{origins[0]}/", init)["text"])
    assert (method, headers["x-a"], body) == ("PUT", "1", "tea")


def test_long_headers_reject_the_promise(send: Call, origins: list[str]) -> None:
    assert send(f"{origins[0]}/", {"headers": {"x-a": "a" * 70_000}})["error"] == "TypeError"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("data:,a%20b", "a b"),
        ("data:text/plain;charset=utf-8,%C3%BC", "ü"),
        ("data:text/plain;base64,dGVh", "tea"),
        ("data:,100%", "100%"),
    ],
)
def test_data_url_is_decoded(send: Call, url: str, text: str) -> None:
    answer = send(url)
    assert (answer["status"], answer["text"]) == (200, text)


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_compressed_response_is_decoded(send: Call, origins: list[str], coding: str) -> None:
    assert send(f"{origins[0]}/{coding}")["text"] == COMPRESSED


def test_incomplete_brotli_is_a_type_error(send: Call, origins: list[str]) -> None:
    answer = send(f"{origins[0]}/br-cut")
    assert answer["error"] == "TypeError"
    assert answer["message"].startswith("brotli: ")


def test_response_with_an_unknown_coding_is_not_decoded(send: Call, origins: list[str]) -> None:
    assert send(f"{origins[0]}/zstd")["text"] == "unknown"


@pytest.mark.parametrize("init", [{}, {"request": True}, {"method": "POST", "body": "x", "request": True}])
def test_request_accepts_only_codings_that_are_decoded(
    send: Call, origins: list[str], init: dict[str, Any]
) -> None:
    def accepted(**options: Any) -> str | None:
        method, _, fields, body = json.loads(send(f"{origins[0]}/", {**init, **options})["text"])
        assert (method, body) == (init.get("method", "GET"), init.get("body", ""))
        value: str | None = fields.get("accept-encoding")
        return value

    assert accepted() is None
    assert accepted(codings=True) == "br, gzip;q=0.5"
    assert accepted(headers={"accept-encoding": "zstd"}) == "identity"


def test_compressed_response_is_passed_on_unchanged(send: Call, origins: list[str]) -> None:
    answer = send(f"{origins[0]}/gzip", read="pass")
    assert gzip.decompress(answer.body).decode() == COMPRESSED
    assert answer.headers[b"content-encoding"] == b"gzip"


def test_copy_of_a_compressed_response_is_not_encoded(send: Call, origins: list[str]) -> None:
    answer = send(f"{origins[0]}/gzip", read="copy")
    assert answer.body.decode() == COMPRESSED
    assert b"content-encoding" not in answer.headers
