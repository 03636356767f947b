"""fetch() of the js lane against a server: redirects, encodings, URLs and errors, in dev and deploy mode."""

import gzip
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from tests.lanes.js.sources import MODES, Sources
from tests.lanes.workdir import answers
from tests.support.guest_client import Answer
from tests.support.peer import COMPRESSED, as_json, peer

pytestmark = pytest.mark.slow
Options = dict[str, Any] | None
PROGRAM = """\
async function* failing(how) {
  yield new TextEncoder().encode('tea');
  if (how === 'text') yield 'text';
  throw new RangeError('no tea');
}
async function answer(input, init, read) {
  if (init?.codings) init.headers = { 'accept-encoding': globalThis.CODINGS };
  if (init?.stream) {
    const bytes = new TextEncoder().encode(init.stream);
    init.body = ReadableStream.from([bytes, bytes]);
  }
  if (init?.blob) init.body = new Blob([init.blob, 'a'.repeat(3 << 20)], { type: 'text/tea' });
  if (init?.failing) init.body = ReadableStream.from(failing(init.failing));
  if (init?.together) {
    const calls = Array.from({ length: init.together }, () => fetch(input));
    return Promise.any(calls.map((call) => call.then(() => Promise.reject(), ({ message }) => message)));
  }
  const response = await (init?.request ? fetch(new Request(input, init)) : fetch(input, init));
  if (read === 'pass') return response;
  if (read === 'copy') return new Response(response.body, response);
  const { status, url, redirected, headers } = response;
  const [location, text] = [headers.get('location'), await response.text()];
  return { status, url, redirected, location, text };
}
export default {
  async fetch(request, env) {
    if (env.READ) return answer(env.READ_URL, undefined, env.READ);
    const results = [];
    for (const [input, init] of JSON.parse(env.CALLS)) {
      try {
        results.push(await answer(input, init));
      } catch (error) {
        results.push({ error: error.name, message: error.message });
      }
    }
    return Response.json(results);
  },
};
"""
# A program with these words contains the decoder of brotli, which each request to a dev build evaluates.
CLOSED = "http://127.0.0.1:1"
"""An origin that the program may call, and where nothing listens."""
CODINGS = "globalThis.CODINGS = ['accept-encoding', 'br, gzip;q=0.5, zstd, *;q=0.1'][1];\n"


@pytest.fixture(scope="module")
def origins() -> Iterator[list[str]]:
    """The addresses of two servers that return requests as JSON."""
    with peer(as_json) as one, peer(as_json) as other:
        yield [one.origin, other.origin]


@dataclass
class Program:
    """The program with a resource that may call the servers."""

    cache: Path
    resource: Resource
    artifact: ComponentArtifact

    def fetch(self, *calls: tuple[str, Options]) -> list[Any]:
        """Return the result of fetch() for each URL with its options, all in one request."""
        answer = self._ask(CALLS=json.dumps(calls))
        assert answer.status == 200, answer
        results: list[Any] = json.loads(answer.body)
        return results

    def read(self, how: str, url: str) -> Answer:
        """Return the response of the program if it returns that of fetch(), passed on or copied."""
        answer = self._ask(READ=how, READ_URL=url)
        assert answer.status == 200, answer
        return answer

    def _ask(self, **environment: str) -> Answer:
        return answers(self.cache, self.resource, self.artifact, "/", method="GET", environment=environment)[
            0
        ]


@pytest.fixture(scope="module", params=MODES)
def decoder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path, origins: list[str]
) -> Program:
    """The program with the decoder of brotli."""
    sources = Sources(tmp_path_factory.mktemp("fetch ü").resolve(), cache)
    sources.write("index.js", PROGRAM + CODINGS)
    allowed = (*origins, CLOSED)
    return Program(cache, replace(sources.resource, egress=allowed), sources.build(request.param))


@pytest.fixture(scope="module")
def program(decoder: Program, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program, without the decoder in development; the deploy build is compiled once."""
    if decoder.artifact.script is None:
        return decoder
    sources = Sources(tmp_path_factory.mktemp("fetch ü").resolve(), decoder.cache)
    sources.write("index.js", PROGRAM)
    return replace(decoder, artifact=sources.build())


def redirect(origin: str, to: str, status: int = 302) -> str:
    return f"{origin}/redirect?status={status}&to={quote(to, safe='')}"


REDIRECTED = [
    (301, "POST", "GET"),
    (302, "POST", "GET"),
    (303, "PUT", "GET"),
    (307, "POST", "POST"),
    (308, "PUT", "PUT"),
]


def test_redirect_is_followed_with_the_standard_method(program: Program, origins: list[str]) -> None:
    headers = {"content-type": "text/x", "x-a": "1"}
    answers = program.fetch(
        *(
            (redirect(origins[0], "/end?x=1", status), {"method": method, "body": "tea", "headers": headers})
            for status, method, _ in REDIRECTED
        )
    )
    for answer, (status, _, expected) in zip(answers, REDIRECTED, strict=True):
        assert (answer["status"], answer["redirected"]) == (200, True), (status, answer)
        assert answer["url"] == f"{origins[0]}/end?x=1"
        sent_method, path, fields, body = json.loads(answer["text"])
        same = expected != "GET"
        assert (sent_method, path, body) == (expected, "/end?x=1", "tea" if same else ""), status
        assert (fields.get("content-type"), fields["x-a"]) == ("text/x" if same else None, "1"), status


def test_redirect_to_another_origin_drops_credentials(program: Program, origins: list[str]) -> None:
    init = {"headers": {"authorization": "secret", "cookie": "a=b", "x-a": "1"}}
    same, other = program.fetch(
        (redirect(origins[0], "/end"), init), (redirect(origins[0], f"{origins[1]}/end"), init)
    )
    assert json.loads(same["text"])[2]["authorization"] == "secret"
    sent = json.loads(other["text"])[2]
    assert "authorization" not in sent and "cookie" not in sent and sent["x-a"] == "1"


def test_redirect_sends_the_body_of_a_request_again(program: Program, origins: list[str]) -> None:
    init = {"method": "POST", "body": "tea", "request": True}
    (answer,) = program.fetch((redirect(origins[0], "/end", 307), init))
    assert json.loads(answer["text"])[3] == "tea"


@pytest.mark.parametrize("is_request", [True, False])
def test_large_blob_is_sent_with_its_length_and_type_and_sent_again(
    program: Program, origins: list[str], is_request: bool
) -> None:
    init = {"method": "POST", "blob": "tea", "request": is_request}
    for answer in program.fetch((f"{origins[0]}/", init), (redirect(origins[0], "/end", 307), init)):
        _, _, headers, body = json.loads(answer["text"])
        assert (headers["content-type"], headers["content-length"]) == ("text/tea", str((3 << 20) + 3))
        assert body == "tea" + "a" * (3 << 20)


def test_manual_redirect_returns_the_response(program: Program, origins: list[str]) -> None:
    calls = [
        (redirect(origins[0], "/end"), {"redirect": "manual", "request": is_request})
        for is_request in (True, False)
    ]
    for answer in program.fetch(*calls):
        assert (answer["status"], answer["location"], answer["redirected"]) == (302, "/end", False)


FAILING_REDIRECTS: list[tuple[str, Options, str]] = [
    ("end", {"redirect": "error"}, "has redirect: 'error'"),
    ("/loop", None, "more than 20 redirects"),
    ("http://[", None, "which is not a URL"),
    ("http://example.org/", None, "egress in svc.toml does not allow it"),
    ("end", {"method": "POST", "stream": "tea", "duplex": "half"}, "cannot be sent twice"),
    ("end", {"redirect": "never"}, 'redirect is "never"'),
    ("end", {"mode": "navigate"}, 'mode is "navigate"'),
    ("ftp://a.example/", None, "is not http, https or data"),
]


def test_failing_redirect_raises_type_error(program: Program, origins: list[str]) -> None:
    calls = ((redirect(origins[0], target, 307), init) for target, init, _ in FAILING_REDIRECTS)
    for answer, (_, _, message) in zip(program.fetch(*calls), FAILING_REDIRECTS, strict=True):
        assert answer["error"] == "TypeError" and message in answer["message"]


FAILING_URLS = {
    "/path": '"/path" is not an absolute URL',
    "ftp://a.example/": "the scheme of ftp://a.example/ is not http, https or data",
    "http://127.0.0.1:2/": "http://127.0.0.1:2: HTTP-request-denied: egress in svc.toml does not allow it",
    f"{CLOSED}/": f"{CLOSED}: connection-refused",
    "data:none": "has no comma",
}


def test_failing_fetch_raises_type_error_with_the_reason(program: Program) -> None:
    answers = program.fetch(*((url, None) for url in FAILING_URLS))
    for answer, message in zip(answers, FAILING_URLS.values(), strict=True):
        assert answer["error"] == "TypeError" and message in answer["message"]


def test_call_above_the_limit_names_it(program: Program) -> None:
    refused = "connection-limit-reached: too many calls at once, or a quota of the project is used up"
    with socket.create_server(("127.0.0.1", 0), backlog=200) as mute:
        origin = f"http://127.0.0.1:{mute.getsockname()[1]}"
        caller = replace(program, resource=replace(program.resource, egress=(origin,)))
        assert caller.fetch((origin, {"together": 200})) == [f"fetch failed: {origin}: {refused}"]


@pytest.mark.parametrize(
    ("failing", "reason"), [("error", "no tea"), ("text", "a chunk is a string, not a Uint8Array")]
)
def test_failing_upload_rejects_its_promise(
    program: Program, origins: list[str], failing: str, reason: str
) -> None:
    init = {"method": "POST", "duplex": "half", "failing": failing}
    calls = [(f"{origins[0]}/", init | {"request": is_request}) for is_request in (True, False)]
    for answer in program.fetch(*calls):
        assert answer["error"] == "TypeError"
        assert answer["message"] == f"fetch: the body of the request failed: {reason}"


def test_streamed_upload_of_a_request_arrives(program: Program, origins: list[str]) -> None:
    init = {"method": "PUT", "duplex": "half", "stream": "tea", "request": True, "headers": {"x-a": "1"}}
    (answer,) = program.fetch((f"{origins[0]}/", init))
    method, _, headers, body = json.loads(answer["text"])
    assert (method, headers["x-a"], body) == ("PUT", "1", "teatea")


def test_long_headers_reject_the_promise(program: Program, origins: list[str]) -> None:
    (answer,) = program.fetch((f"{origins[0]}/", {"headers": {"x-a": "a" * 70_000}}))
    assert answer["error"] == "TypeError"


DATA_URLS = {
    "data:,a%20b": "a b",
    "data:text/plain;charset=utf-8,%C3%BC": "ü",
    "data:text/plain;base64,dGVh": "tea",
    "data:,100%": "100%",
}


def test_data_url_is_decoded(program: Program) -> None:
    answers = program.fetch(*((url, None) for url in DATA_URLS))
    assert [(answer["status"], answer["text"]) for answer in answers] == [
        (200, text) for text in DATA_URLS.values()
    ]


def test_compressed_response_is_decoded(decoder: Program, origins: list[str]) -> None:
    answers = decoder.fetch((f"{origins[0]}/gzip", None), (f"{origins[0]}/br", None))
    assert [answer["text"] for answer in answers] == [COMPRESSED, COMPRESSED]


def test_incomplete_brotli_is_a_type_error(decoder: Program, origins: list[str]) -> None:
    (answer,) = decoder.fetch((f"{origins[0]}/br-cut", None))
    assert answer["error"] == "TypeError"
    assert answer["message"].startswith("brotli: ")


def test_response_with_an_unknown_coding_is_not_decoded(decoder: Program, origins: list[str]) -> None:
    (answer,) = decoder.fetch((f"{origins[0]}/zstd", None))
    assert answer["text"] == "unknown"


def test_request_accepts_only_codings_that_are_decoded(decoder: Program, origins: list[str]) -> None:
    inits: list[dict[str, Any]] = [{}, {"request": True}, {"method": "POST", "body": "x", "request": True}]
    codings: list[tuple[dict[str, Any], str | None]] = [
        ({}, None),
        ({"codings": True}, "br, gzip;q=0.5"),
        ({"headers": {"accept-encoding": "zstd"}}, "identity"),
    ]
    cases = [(init | options, expected) for init in inits for options, expected in codings]
    answers = decoder.fetch(*((f"{origins[0]}/", init) for init, _ in cases))
    for answer, (init, expected) in zip(answers, cases, strict=True):
        method, _, fields, body = json.loads(answer["text"])
        assert (method, body) == (init.get("method", "GET"), init.get("body", ""))
        assert fields.get("accept-encoding") == expected, init


def test_compressed_response_is_passed_on_unchanged(decoder: Program, origins: list[str]) -> None:
    answer = decoder.read("pass", f"{origins[0]}/gzip")
    assert gzip.decompress(answer.body).decode() == COMPRESSED
    assert answer.headers[b"content-encoding"] == b"gzip"


def test_copy_of_a_compressed_response_is_not_encoded(decoder: Program, origins: list[str]) -> None:
    answer = decoder.read("copy", f"{origins[0]}/gzip")
    assert answer.body.decode() == COMPRESSED
    assert b"content-encoding" not in answer.headers
