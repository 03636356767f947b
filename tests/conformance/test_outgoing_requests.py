"""`outgoing-request` and `request-options` of wasi:http/types."""

from typing import Any

import pytest

from tests.conformance.client import MOST
from tests.conformance.guest import Guest
from tests.conformance.host import Host


def test_new_request_defaults_to_get_without_target(host: Host) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    steps = [
        guest.call(f"outgoing-request.{name}", request)
        for name in ("method", "path-with-query", "scheme", "authority")
    ]
    headers = guest.call("outgoing-request.headers", request)
    entries = guest.call("fields.entries", headers)
    answer = host.run(guest)
    assert [answer[step] for step in steps] == ["get", None, None, None] and answer[entries] == []


@pytest.mark.parametrize(("stored", "ended"), [(128, False), (129, True)])
def test_too_many_unsent_requests_trap(host: Host, stored: int, ended: bool) -> None:
    guest = Guest()
    for _ in range(3):
        guest.drop(guest.call("outgoing-request.constructor", guest.call("fields.constructor")))
        sent = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
        guest.call("outgoing-handler/handle", sent, None)  # is not routable, and is dropped
    for _ in range(stored):
        last = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    answer = host.run(guest)
    assert answer.reached(last) != ended
    assert ("more than 128 requests" in answer.detail) == ended


GOOD: dict[str, list[Any]] = {
    "method": [
        "get",
        "head",
        "post",
        "put",
        "delete",
        "connect",
        "options",
        "trace",
        "patch",
        ("other", "PURGE"),
        ("other", "M-SEARCH"),
    ],
    "scheme": [None, "HTTP", "HTTPS", ("other", "gopher"), ("other", "a+b-c.1")],
    "authority": [None, "a", "example.com:8080", "127.0.0.1", "[::1]:80", "a_b%20c", "a:"],
    "path-with-query": [None, "", "/", "/a?b=c&d[]=/?", "?q", "/%20", "*"],
}
BAD: dict[str, list[Any]] = {
    "method": [("other", name) for name in ("", " ", "A B", "A\r\nB", "Ä", "A:")],
    "scheme": [("other", name) for name in ("", "1a", "a b", "ä", "a:", "http://", "-a")],
    "authority": [
        "",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a:b",
        "[::1",
        "a\r\nb",
        "ä",
        "a\\b",
        "<a>",
        "a:80:80",
    ],
    "path-with-query": ["a b", "/a b", "/a\r\nb", "/ä", "/#a", "http://other/", "a", "/\0"],
}


@pytest.mark.parametrize("part", GOOD)
def test_request_setters_and_getters_agree(host: Host, part: str) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    steps = [
        (
            guest.call(f"outgoing-request.set-{part}", request, value),
            guest.call(f"outgoing-request.{part}", request),
        )
        for value in GOOD[part]
    ]
    answer = host.run(guest)
    assert [answer[done] for done, _ in steps] == [("ok", None)] * len(steps)
    assert [answer[read] for _, read in steps] == GOOD[part]


@pytest.mark.parametrize("part", BAD)
def test_malformed_request_part_is_rejected_without_change(host: Host, part: str) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    before = GOOD[part][-1]
    guest.call(f"outgoing-request.set-{part}", request, before)
    rejected = {str(v): guest.call(f"outgoing-request.set-{part}", request, v) for v in BAD[part]}
    after = guest.call(f"outgoing-request.{part}", request)
    answer = host.run(guest)
    assert [name for name, step in rejected.items() if answer[step] != ("err", None)] == []
    assert answer[after] == before


@pytest.mark.parametrize("name", ["connect", "first-byte", "between-bytes"])
def test_timeouts_can_be_set_and_read(host: Host, name: str) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    before = guest.call(f"request-options.{name}-timeout", options)
    steps = []
    for value in (5, 0, MOST, None):
        result = guest.call(f"request-options.set-{name}-timeout", options, value)
        steps.append((result, guest.call(f"request-options.{name}-timeout", options), value))
    guest.drop(options)
    answer = host.run(guest)
    assert answer[before] is None
    assert [(answer[result], answer[read]) for result, read, _ in steps] == [
        (("ok", None), value) for _, _, value in steps
    ]
