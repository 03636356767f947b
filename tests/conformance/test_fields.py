"""`fields` of wasi:http/types."""

import pytest

from tests.conformance.guest import Guest
from tests.conformance.host import Client, Host

MIXED = [("accept", b"a"), ("x-b", b"1"), ("accept", b"c"), ("x-empty", b"")]
NO_NAMES = ["", " ", "a b", "a:", "a\r\nb", "a\0", "ä", "(x)", "a,b", '"q"']
NO_VALUES = [b"\r", b"\n", b"a\r\nb: c", b"\0", b"a\x7f", b"\x01"]
FORBIDDEN = [
    "connection",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "Host",
    "CONNECTION",
]


def test_new_fields_are_empty_and_mutable(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.constructor")
    steps = [
        guest.call("fields.entries", fields),
        guest.call("fields.has", fields, "a"),
        guest.call("fields.get", fields, "a"),
        guest.call("fields.append", fields, "a", b"1"),
        guest.call("fields.has", fields, "a"),
        guest.call("fields.get", fields, "a"),
        guest.call("fields.entries", fields),
    ]
    answer = host.run(guest)
    assert [answer[step] for step in steps] == [[], False, [], ("ok", None), True, [b"1"], [("a", b"1")]]


def test_order_and_duplicates_are_preserved(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", MIXED)
    entries, both = guest.call("fields.entries", fields), guest.call("fields.get", fields, "accept")
    empty = guest.call("fields.get", fields, "x-empty")
    guest.call("fields.append", fields, "accept", b"d")
    grown = guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert answer[entries] == MIXED and answer[both] == [b"a", b"c"] and answer[empty] == [b""]
    assert answer[grown] == [*MIXED, ("accept", b"d")]


def test_field_names_are_case_insensitive(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", [("X-Name", b"1"), ("x-nAME", b"2")])
    got, has = guest.call("fields.get", fields, "x-NAME"), guest.call("fields.has", fields, "X-NAME")
    guest.call("fields.delete", fields, "X-name")
    remaining = guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert (answer[got], answer[has], answer[remaining]) == ([b"1", b"2"], True, [])


def test_set_replaces_values_and_empty_set_removes_name(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", MIXED)
    replaced = guest.call("fields.set", fields, "Accept", [b"x", b"y"])
    entries = guest.call("fields.entries", fields)
    guest.call("fields.set", fields, "accept", [])
    remaining = guest.call("fields.has", fields, "accept")
    answer = host.run(guest)
    assert answer[replaced] == ("ok", None) and answer[remaining] is False
    assert [value for name, value in answer[entries] if name == "accept"] == [b"x", b"y"]
    assert ("x-b", b"1") in answer[entries]


def test_delete_missing_name_does_nothing(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", MIXED)
    deleted, entries = guest.call("fields.delete", fields, "other"), guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert answer[deleted] == ("ok", None) and answer[entries] == MIXED


def test_clone_is_independent(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", MIXED)
    clone = guest.call("fields.clone", fields)
    guest.call("fields.append", clone, "new", b"1")
    guest.call("fields.delete", fields, "accept")
    original, copied = guest.call("fields.entries", fields), guest.call("fields.entries", clone)
    guest.drop(fields)
    after = guest.call("fields.entries", clone)
    answer = host.run(guest)
    assert answer[original] == [("x-b", b"1"), ("x-empty", b"")]
    assert answer[copied] == answer[after] == [*MIXED, ("new", b"1")]


def test_malformed_names_are_rejected(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.constructor")
    refused, absent = [], []
    for name in NO_NAMES:
        refused += [
            guest.call("fields.from-list", [("good", b""), (name, b"")]),
            guest.call("fields.append", fields, name, b""),
            guest.call("fields.set", fields, name, [b""]),
            guest.call("fields.set", fields, name, []),
            guest.call("fields.delete", fields, name),
        ]
        absent += [guest.call("fields.get", fields, name), guest.call("fields.has", fields, name)]
    entries = guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert {answer[step] for step in refused} == {("err", "invalid-syntax")}
    assert [answer[step] for step in absent] == [[], False] * len(NO_NAMES)
    assert answer[entries] == []


def test_malformed_values_are_rejected(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.from-list", [("a", b"kept")])
    rejected = []
    for value in NO_VALUES:
        rejected += [
            guest.call("fields.from-list", [("a", value)]),
            guest.call("fields.append", fields, "a", value),
            guest.call("fields.set", fields, "a", [b"good", value]),
        ]
    for length in (b"", b"-1", b"1a", b"1,1", b"0x10"):
        rejected.append(guest.call("fields.append", fields, "content-length", length))
    entries = guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert {answer[step] for step in rejected} == {("err", "invalid-syntax")}
    assert answer[entries] == [("a", b"kept")]


def test_values_accept_all_bytes_of_http(host: Host) -> None:
    value = b"\t !~" + bytes(range(0x80, 0x100)) + b"x"
    guest = Guest()
    fields = guest.call("fields.from-list", [("a", value), ("b", b"  in  between\t")])
    got, trimmed = guest.call("fields.get", fields, "a"), guest.call("fields.get", fields, "b")
    answer = host.run(guest)
    assert answer[got] == [value.strip(b"\t ")] and answer[trimmed] == [b"in  between"]


def test_connection_level_names_are_forbidden(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.constructor")
    rejected = []
    for name in FORBIDDEN:
        rejected += [
            guest.call("fields.from-list", [(name, b"x")]),
            guest.call("fields.append", fields, name, b"x"),
            guest.call("fields.set", fields, name, [b"x"]),
            guest.call("fields.delete", fields, name),
        ]
    answer = host.run(guest)
    assert {answer[step] for step in rejected} == {("err", "forbidden")}


@pytest.mark.parametrize("message", ["incoming-request", "outgoing-request", "outgoing-response"])
def test_message_fields_are_immutable(host: Host, message: str) -> None:
    guest = Guest()
    if message == "incoming-request":
        headers = guest.call("incoming-request.headers", guest.request)
    else:
        result = guest.call("fields.from-list", [("accept", b"1")])
        headers = guest.call(f"{message}.headers", guest.call(f"{message}.constructor", result))
    rejected = [
        guest.call("fields.set", headers, "accept", [b"2"]),
        guest.call("fields.append", headers, "accept", b"2"),
        guest.call("fields.delete", headers, "accept"),
    ]
    entries = guest.call("fields.entries", headers)
    clone = guest.call("fields.clone", headers)
    changed = guest.call("fields.append", clone, "accept", b"3")
    second = guest.call("fields.entries", headers)
    answer = host.run(guest, Client(headers=[(b"accept", b"1")]))
    assert {answer[step] for step in rejected} == {("err", "immutable")}
    assert answer[changed] == ("ok", None)
    assert answer[entries] == answer[second] == [("accept", b"1")]


def test_immutable_error_precedes_forbidden(host: Host) -> None:
    guest = Guest()
    headers = guest.call("incoming-request.headers", guest.request)
    step = guest.call("fields.delete", headers, "host")
    assert host.run(guest)[step] == ("err", "immutable")


def test_fields_above_their_limit_are_an_error(host: Host) -> None:
    guest = Guest()
    long = guest.call("fields.from-list", [("a", bytes(0)), ("b", b"x" * 65_536)])
    fields = guest.call("fields.constructor")
    steps = [
        guest.call("fields.append", fields, "a", b"x" * 40_000),
        guest.call("fields.append", fields, "b", b"x" * 40_000),
        guest.call("fields.set", fields, "c", [b""] * 2_048),
    ]
    entries = guest.call("fields.entries", fields)
    answer = host.run(guest)
    refused = ("err", "invalid-syntax")
    assert answer[long] == refused
    assert [answer[step] for step in steps] == [("ok", None), refused, refused]
    assert answer[entries] == [("a", b"x" * 40_000)]
