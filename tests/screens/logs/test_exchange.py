import asyncio
import shutil
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.logs.exchange import (
    MAX_COLORED,
    color_body,
    curl_command,
    exchange_lines,
    parse_request,
    request_text,
)

CONTENT_TYPES = (
    "application/json",
    "application/problem+json",
    "image/svg+xml",
    "text/css",
    "text/html; charset=utf-8",
    "text/javascript",
    "text/plain",
)


def message(body: bytes, **more: Any) -> dict[str, Any]:
    headers = [["content-type", "application/json"], ["cookie", "[redacted]"], ["content-length", "9"]]
    encoded = b64encode(body).decode()
    return {"headers": headers, "body": encoded, "size": len(body), "truncated": False} | more


BODY = '{"a": "ü"}'.encode()


def request(body: bytes = BODY, **more: Any) -> dict[str, Any]:
    head = {"method": "POST", "target": "/a?b=c", "scheme": "http", "authority": "localhost:3000"}
    return message(body, **(head | more))


def test_exchange_shows_fields_and_bodies_of_both_messages() -> None:
    recorded = {"request": request(), "response": message(b"", status=204)}
    text = ["".join(part for part, _ in line) for line in exchange_lines(recorded)]
    assert text[0] == "request  POST /a?b=c"
    assert "  cookie          [redacted]" in text
    assert '    "a": "ü"' in text
    assert text[-1] == "  no body" and "response  204" in text


def test_bodies_have_the_colors_of_their_content_type() -> None:
    (_, *lines) = exchange_lines({"request": request(b'{"a": ["b", 1.5, null]}'), "response": None})
    pieces = [piece for line in lines for piece in line]
    assert ('"a"', "accent") in pieces and ('"b"', "good") in pieces
    assert ("1.5", "teal") in pieces and ("null", "violet") in pieces
    html = color_body(["<!-- old", "-->", '<a href="x">b</a>'], "text/html; charset=utf-8")
    assert html[0] == [("<!-- old", "dim")] and ("href", "yellow") in [
        (text.strip("="), t) for text, t in html[2]
    ]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"))), st.sampled_from(CONTENT_TYPES))
def test_colors_change_no_text(lines: list[str], content_type: str) -> None:
    colored = color_body(lines, content_type)
    assert ["".join(text for text, _ in line) for line in colored] == lines


def test_long_and_unknown_bodies_have_no_colors() -> None:
    assert color_body(["1" * (MAX_COLORED + 1)], "application/json")[0][0][1] == ""
    assert color_body(["1"], "text/plain") == color_body(["1"], "") == [[("1", "")]]


def test_exchange_without_response_says_so() -> None:
    recorded = {"request": request(), "response": None}
    text = ["".join(part for part, _ in line) for line in exchange_lines(recorded)]
    assert text[-1] == "no response"


def test_curl_command_quotes_and_omits_redacted_fields() -> None:
    assert curl_command(request()) == (
        "curl -i 'http://localhost:3000/a?b=c' -H 'content-type: application/json'"
        """ --data-raw '{"a": "ü"}'"""
    )


async def received(command: str) -> tuple[str, dict[str, str], bytes]:
    """Run a curl command; return method and target, fields and body of the request that it sends."""
    requests: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.split(": ", 1) if ": " in line else (line[:-1], "") for line in head[1:-1])
        lower = {name.lower(): value for name, value in fields.items()}
        body = await reader.readexactly(int(lower.get("content-length", "0")))
        requests.append((head[0].rpartition(" ")[0], lower, body))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", command.replace("localhost:3000", f"127.0.0.1:{port}"), stdout=-3, stderr=-3
        )
        async with asyncio.timeout(60):
            await shell.wait()
    return requests[0]


@pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash"
)
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("recorded", "line", "body"),
    [
        (request(b"@/etc/hosts"), "POST /a?b=c", b"@/etc/hosts"),
        (request(b"a\r\nb\x1b[201~'!\\n"), "POST /a?b=c", b"a\r\nb\x1b[201~'!\\n"),
        (request(b"x", method="DELETE", target="/../[1]/{a,b}"), "DELETE /../[1]/{a,b}", b"x"),
        (request(b"", method="HEAD"), "HEAD /a?b=c", b""),
        (request(b"", method="GET", headers=[["x-empty", ""], ["x-two", "a; b\\"]]), "GET /a?b=c", b""),
    ],
)
async def test_curl_command_sends_the_recorded_request(recorded: Any, line: str, body: bytes) -> None:
    sent_line, fields, sent_body = await received(curl_command(recorded))
    assert (sent_line, sent_body) == (line, body)
    omitted = ("cookie", "content-length")
    assert {name: fields[name] for name, _ in recorded["headers"] if name not in omitted} == {
        name: value for name, value in recorded["headers"] if name not in omitted
    }


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (request(b"\xff\xfe"), "binary"),
        (request(b"a\0b"), "binary"),
        (request(truncated=True), "only the first 11 B"),
    ],
)
def test_curl_command_of_binary_or_truncated_body_raises_error(recorded: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        curl_command(recorded)


def test_edited_request_is_parsed_from_its_text() -> None:
    text = request_text(request())
    assert text == 'POST /a?b=c\ncontent-type: application/json\ncookie: [redacted]\n\n{"a": "ü"}'
    edited = parse_request(text.replace("POST /a", "put /b").replace("cookie: [redacted]", "X-A:  1 "))
    assert (edited["method"], edited["target"]) == ("PUT", "/b?b=c")
    assert edited["headers"] == [["content-type", "application/json"], ["x-a", "1"]]
    assert b64decode(edited["body"]) == BODY
    assert parse_request("GET /")["body"] == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "a method"), ("GET", "a method"), ("GET a", "a method"), ("GET /\nx", "x is not")],
)
def test_invalid_text_of_a_request_raises_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_request(text)
