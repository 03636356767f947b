"""`formData()` of requests and responses, in dev and deploy alike."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.js.sources import MODES, Sources
from tests.lanes.workdir import answers
from tests.support.guest_client import Answer

pytestmark = pytest.mark.slow
MULTIPART = "multipart/form-data; boundary=----limit"
PROGRAM = """\
async function describe(form) {
  const entries = [];
  for (const [name, value] of form) {
    entries.push(typeof value === 'string'
      ? [name, value]
      : [name, value.name, value.type, [...new Uint8Array(await value.arrayBuffer())]]);
  }
  return entries;
}
const routes = {
  '/request': async (request) => Response.json(await describe(await request.formData())),
  '/response': async (request) => {
    const { body, headers } = request;
    return Response.json(await describe(await new Response(body, { headers }).formData()));
  },
  '/digest': async (request) => {
    const bytes = await (await request.formData()).get('file').arrayBuffer();
    return new Response(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
  },
  '/size': async (request) => {
    const form = await request.formData();
    const again = await request.text().catch(({ name }) => name);
    return new Response(`${form.get('file').size} ${request.bodyUsed} ${again}`);
  },
  '/error': async (request) => {
    try {
      await request.formData();
      return new Response('parsed');
    } catch (error) {
      return new Response(`${error.name}: ${error.message}`);
    }
  },
  '/form': async () => {
    const form = new FormData();
    form.append('file', new File([new Uint8Array([0, 255, 13, 10])], 'a "b".bin'));
    return Response.json(await describe(await new Response(form).formData()));
  },
};
export default { fetch: (request) => routes[new URL(request.url).pathname](request) };
"""
Post = Callable[..., Answer]


@pytest.fixture(scope="module", params=MODES)
def post(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Post:
    """Send a body to a route of the program."""
    sources = Sources(tmp_path_factory.mktemp("form ü").resolve(), cache)
    sources.write("index.js", PROGRAM)
    artifact: ComponentArtifact = sources.build(request.param)

    def post(target: str, *pieces: bytes, content_type: str = MULTIPART) -> Answer:
        fields: dict[str, Any] = {
            "body": list(pieces),
            "headers": ((b"content-type", content_type.encode()),),
        }
        return answers(cache, sources.resource, artifact, target, method="POST", **fields)[0]

    return post


def part(disposition: str, content: bytes, content_type: str = "") -> bytes:
    """Return one part of a form, with the boundary before it."""
    header = f"------limit\r\nContent-Disposition: form-data; {disposition}\r\n"
    if content_type:
        header += f"Content-Type: {content_type}\r\n"
    return header.encode() + b"\r\n" + content + b"\r\n"


END = b"------limit--\r\n"
EVERY_BYTE = bytes(range(256))


@pytest.mark.parametrize("route", ["/request", "/response"])
def test_form_data_preserves_every_byte_of_a_file(post: Post, route: str) -> None:
    body = part('name="file"; filename="a.png"', EVERY_BYTE, "image/png") + part('name="text"', "ü".encode())
    assert json.loads(post(route, body + END).body) == [
        ["file", "a.png", "image/png", list(EVERY_BYTE)],
        ["text", "ü"],
    ]


def test_form_data_accepts_a_body_in_small_pieces(post: Post) -> None:
    body = part('name="file"; filename="a"', b"\r\n------limi" * 3) + END
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    assert json.loads(post("/request", *pieces).body) == [
        ["file", "a", "application/octet-stream", list(b"\r\n------limi" * 3)]
    ]


def test_form_data_reads_a_file_of_megabytes(post: Post) -> None:
    content = EVERY_BYTE * 16384
    body = part('name="file"; filename="a"', content) + END
    assert post("/digest", body).body == sha256(content).digest()


def test_form_data_has_each_file_once_in_memory_beside_the_body(post: Post) -> None:
    pieces = [b"x" * 65536] * 384
    head = part('name="file"; filename="a"', b"")[:-2]
    answer = post("/size", head, *pieces, b"\r\n" + END)
    assert answer.body == b"%d true TypeError" % (24 << 20)
    assert answer.report.peak_memory is not None and answer.report.peak_memory < 100 << 20


def test_form_data_refuses_too_many_parts_before_it_read_the_body(post: Post) -> None:
    pieces = [part('name="a"', b"1") * 1000] * 400
    answer = post("/error", *pieces)
    assert "10000" in answer.body.decode()
    assert answer.report.bytes_in < 4 << 20


def test_form_data_reads_repeated_names_empty_files_and_escaped_names(post: Post) -> None:
    body = (
        part('name="a"', b"1")
        + part('name="a"', b"")
        + part('name="f"; filename=""', b"")
        + part('name="q%22%0D%0A"; filename="../%22x%22.txt"', b"x", "text/plain")
        + part(r'filename="; name=x C:\new\ü \"b\".txt" ; NAME=file', b"", "text/plain")
        + part("name=file; filename*=UTF-8''%C3%BC.txt", b"", "text/plain")
    )
    assert json.loads(post("/request", body + END).body) == [
        ["a", "1"],
        ["a", ""],
        ["f", "", "application/octet-stream", []],
        ['q"\r\n', '../"x".txt', "text/plain", [120]],
        ["file", '; name=x C:\\new\\ü "b".txt', "text/plain", []],
        ["file", "ü.txt", "text/plain", []],
    ]


def test_form_data_without_parts_is_empty(post: Post) -> None:
    assert json.loads(post("/request", END).body) == json.loads(post("/request", b"\r\n" + END).body) == []


def test_form_data_ignores_what_follows_the_last_part(post: Post) -> None:
    pieces = part('name="a"', b"1"), END[:-2], b"\r\n", b"rest", b"\r\n"
    assert json.loads(post("/request", *pieces).body) == [["a", "1"]]


def test_form_data_reads_urlencoded_forms(post: Post) -> None:
    answer = post("/request", b"a=1&b=%C3%BC+x&a=", content_type="application/x-www-form-urlencoded")
    assert json.loads(answer.body) == [["a", "1"], ["b", "ü x"], ["a", ""]]


def test_form_data_reads_what_form_data_writes(post: Post) -> None:
    assert json.loads(post("/form", b"").body) == [
        ["file", 'a "b".bin', "application/octet-stream", [0, 255, 13, 10]]
    ]


def test_form_data_counts_parts_before_it_parses_headers(post: Post) -> None:
    answer = post("/error", part('name="a"; filename="a"', b"", "text/plain") * 10_001 + END)
    assert "10000" in answer.body.decode()
    assert answer.report.compute_ns < 2_000_000_000


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (part('name="a"', b"1"), MULTIPART, "not finished"),
        (b"no boundary", MULTIPART, "boundary"),
        (b"", MULTIPART, "not finished"),
        (part("x=1", b"1") + END, MULTIPART, "no name"),
        (part('name="a"', b"") * 10_001 + END, MULTIPART, "10000"),
        (b"a&" * 1_000_000, "application/x-www-form-urlencoded", "the form has more than 10000 fields"),
        (part(f'name="{"a" * 20_000}"', b"") + END, MULTIPART, "header size"),
        (b"a=1", "text/plain", 'the content type "text/plain" is not that of a form'),
        (b"a=1", "multipart/form-data", "the content type has no boundary: let the client set the header"),
    ],
    ids=[
        "no-end",
        "no-boundary",
        "empty",
        "no-name",
        "too-many-parts",
        "too-many-fields",
        "long-header",
        "text",
        "no-parameter",
    ],
)
def test_form_data_rejects_what_is_no_form(post: Post, body: bytes, content_type: str, reason: str) -> None:
    text = post("/error", body, content_type=content_type).body.decode()
    assert text.startswith("TypeError: formData(): ") and reason in text
