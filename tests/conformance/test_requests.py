"""`incoming-request` of wasi:http/types."""

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.guest import Guest
from tests.conformance.host import Client, Host

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]


@pytest.mark.parametrize("name", METHODS)
def test_known_methods_map_to_variants(host: Host, name: str) -> None:
    guest = Guest()
    method = guest.call("incoming-request.method", guest.request)
    assert host.run(guest, Client(name))[method] == name.lower()


@pytest.mark.parametrize("name", ["PURGE", "get", "M-SEARCH"])
def test_other_methods_are_passed_through(host: Host, name: str) -> None:
    guest = Guest()
    method = guest.call("incoming-request.method", guest.request)
    assert host.run(guest, Client(name))[method] == ("other", name)


@pytest.mark.parametrize(
    ("scheme", "error"), [("http", "HTTP"), ("https", "HTTPS"), ("gopher", ("other", "gopher"))]
)
def test_scheme_is_that_of_the_server_address(host: Host, scheme: str, error: object) -> None:
    guest = Guest()
    step = guest.call("incoming-request.scheme", guest.request)
    assert host.run(guest, Client(scheme=scheme))[step] == error


@pytest.mark.parametrize("target", ["/", "/a/b?c=d&e=%20/?", "*", "/%C3%A4"])
def test_path_and_authority_are_passed_through(host: Host, target: str) -> None:
    guest = Guest()
    path = guest.call("incoming-request.path-with-query", guest.request)
    authority = guest.call("incoming-request.authority", guest.request)
    answer = host.run(guest, Client(target=target))
    assert (answer[path], answer[authority]) == (target, "api.localhost")


def test_header_fields_arrive_in_order_with_duplicates_and_raw_values(host: Host) -> None:
    data = [(b"host", b"api.localhost"), (b"x", b"1"), (b"accept", b"\xff\xfe"), (b"x", b"2"), (b"e", b"")]
    guest = Guest()
    headers = guest.call("incoming-request.headers", guest.request)
    entries, both = guest.call("fields.entries", headers), guest.call("fields.get", headers, "X")
    answer = host.run(guest, Client(headers=data))
    assert answer[entries] == [(name.decode(), value) for name, value in data]
    assert answer[both] == [b"1", b"2"]


def test_headers_can_be_requested_repeatedly(host: Host) -> None:
    guest = Guest()
    steps = [guest.call("incoming-request.headers", guest.request) for _ in range(3)]
    guest.drop(*steps, guest.request)
    guest.answer(b"fine")
    answer = host.run(guest)
    assert [answer[step] for step in steps] == [HANDLE] * 3 and answer.body == b"fine"


def test_drop_incoming_request_before_headers_traps(host: Host) -> None:
    guest = Guest()
    guest.call("incoming-request.headers", guest.request)
    guest.drop(guest.request)
    guest.answer()
    answer = host.run(guest)
    assert answer.status is None and "before its headers" in answer.detail


def test_headers_passed_on_do_not_block_request_drop(host: Host) -> None:
    guest = Guest()
    headers = guest.call("incoming-request.headers", guest.request)
    response = guest.call("outgoing-response.constructor", headers)
    guest.drop(guest.request)
    guest.call("response-outparam.set", guest.outparam, ("ok", response))
    answer = host.run(guest, Client(headers=[(b"x", b"back"), (b"x", b"again")]))
    assert answer.status == 200 and [h for h in answer.headers if h[0] == b"x"] == [
        (b"x", b"back"),
        (b"x", b"again"),
    ]


def test_dropped_request_traps(host: Host) -> None:
    guest = Guest()
    guest.drop(guest.request)
    step = guest.call("incoming-request.method", guest.request)
    answer = host.run(guest)
    assert not answer.reached(step) and "unknown handle" in answer.detail
