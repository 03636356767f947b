import hashlib
import json
import re
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import quote

import pytest

from engine.timeline.recording import Redaction
from svc_tui.capsule.redaction import Redactor

SECRETS = (
    "password",
    "Password",
    "user_password",
    "newPassword",
    "password-hash",
    "accessToken",
    "csrf_token",
    "X-Auth-Token",
    "api_key",
    "apiKey",
    "APIKEY",
    "x-api-key",
    "private-key",
    "client_secret",
    "sessionId",
    "session",
    "Cookie",
    "set-cookie",
    "authorization",
    "proxy-authorization",
    "otp",
)
PUBLIC = (
    "author",
    "authored",
    "key",
    "monkey",
    "tokenizer",
    "passenger",
    "spin",
    "secretary",
    "content-type",
    "host",
    "primary_key",
)


@pytest.mark.parametrize("name", SECRETS)
def test_name_of_a_credential_is_secret(name: str) -> None:
    assert Redactor().is_secret(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_other_names_are_not_secret(name: str) -> None:
    assert not Redactor().is_secret(name)


def test_options_add_and_exempt_names_in_any_spelling() -> None:
    redactor = Redactor(added=["Iban-Number"], exempt=["session", "csrfToken"])
    assert redactor.is_secret("ibanNumber") and redactor.is_secret("iban_number")
    assert not redactor.is_secret("Session") and not redactor.is_secret("csrf-token")


def test_json_with_half_a_surrogate_pair_is_redacted() -> None:
    body = b'{"password": "x", "c": "\\ud83d"}'
    assert json.loads(Redactor().body(body, "application/json"))["c"] == "\ud83d"


def test_numbers_of_redacted_json_have_their_text() -> None:
    numbers = b"[1.10, -0, 12345678901234567890.123, 1E400, 1e5, NaN]"
    body = b'{"numbers": ' + numbers + b', "pin": %s}'
    assert Redaction().body(body % b"1.50", "application/json") == body % b'"[redacted]"'
    assert Redactor().body(body % b"1.50", "application/json") == body % b'"[redacted 1]"'


def test_json_is_redacted_by_keys_at_any_depth() -> None:
    document = {"user": "ann", "Password": "hunter22", "deep": [{"token": {"value": "abcdef", "n": 1234567}}]}
    redacted = json.loads(Redactor().body(json.dumps(document).encode(), "application/json"))
    assert redacted == {
        "user": "ann",
        "Password": "[redacted 1]",
        "deep": [{"token": {"value": "[redacted 2]", "n": "[redacted 3]"}}],
    }


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{ "a" : 1.0,\n"b":"\\u00fc" }', "application/json"),
        (b"\xff\xd8\xff\xe0 password=x \0", "image/jpeg"),
        (b'{"password": ', "application/json"),
        (b"[" * 5000, "application/json"),
        (b"a=1&b=%20+", "application/x-www-form-urlencoded"),
        (b"\xff=\xfe", "application/x-www-form-urlencoded"),
        (b"", ""),
    ],
)
def test_body_without_credentials_stays_exact(body: bytes, kind: str) -> None:
    redactor = Redactor()
    redactor.add_value("S", "something else")
    assert redactor.data(redactor.body(body, kind)) == body


def test_forms_and_queries_are_redacted_by_names() -> None:
    redactor = Redactor()
    body = redactor.body(b"user=ann&password=hunter%2022&x=", "application/x-www-form-urlencoded; charset=x")
    assert body == b"user=ann&password=%5Bredacted+1%5D&x="
    assert redactor.target("/login?token=abcdefg&next=/a?b") == "/login?token=%5Bredacted+2%5D&next=/a?b"
    assert redactor.target("/page?next=/a%3Fb") == "/page?next=/a%3Fb"
    assert dict(redactor.hits) == {("key", "password"): 1, ("parameter", "token"): 1}


def test_equal_values_get_equal_replacements_everywhere() -> None:
    redactor = Redactor()
    redactor.add_value("KEY", "sk-live/ü 42")
    assert redactor.document({"token": "abcdefgh"}) == {"token": "[redacted 2]"}
    assert redactor.replace("column", "token", "abcdefgh") == "[redacted 2]"
    document: Any = {"sql": "select 'abcdefgh'", "params": [1, None, True, "x abcdefgh y", "sk-live/ü 42"]}
    assert redactor.everywhere(document) == {
        "sql": "select '[redacted 2]'",
        "params": [1, None, True, "x [redacted 2] y", "[redacted 1]"],
    }
    assert redactor.text("/?k=sk-live%2F%C3%BC+42") == "/?k=[redacted 1]"
    assert redactor.text('"sk-live/\\u00fc 42"') == '"[redacted 1]"'
    assert redactor.hits["value", "KEY"] == 3


def test_values_in_binary_bodies_are_replaced_and_other_bytes_are_not() -> None:
    redactor = Redactor()
    redactor.add_value("KEY", "sk-live-42")
    assert redactor.data(b"\xff\0sk-live-42\xfe\r\n") == b"\xff\0[redacted 1]\xfe\r\n"
    message = {
        "headers": [["content-length", "14"], ["x", "y"]],
        "body": b64encode(b"\xff\0sk-live-42\r\n").decode(),
        "size": 14,
        "truncated": False,
    }
    changed = redactor.message(message, redactor.data)
    body = b64decode(changed["body"])
    assert body == b"\xff\0[redacted 1]\r\n"
    assert changed["headers"] == [["content-length", str(len(body))], ["x", "y"]]
    assert changed["size"] == len(body)


def test_short_values_are_redacted_by_name_only() -> None:
    redactor = Redactor()
    assert redactor.document({"pin": "1234", "count": "1234"}) == {"pin": "[redacted 1]", "count": "1234"}
    redactor.add_value("SHORT", "12345")
    assert redactor.text("1234 12345") == "1234 12345"


def test_exempt_secret_is_not_redacted_by_its_value() -> None:
    redactor = Redactor(exempt=["STRIPE_KEY"])
    redactor.add_value("STRIPE_KEY", "sk-live-42")
    assert redactor.text("sk-live-42") == "sk-live-42"


def test_column_values_are_replaced_where_they_occur_in_the_request() -> None:
    redactor = Redactor()
    assert [redactor.replace("column", "token", f"token-{n}") for n in (1, 2)] == [
        "[redacted 1]",
        "[redacted 2]",
    ]
    assert redactor.document({"token": "token-3"}) == {"token": "[redacted 3]"}
    redactor.forget_unused("the text has token-2")
    assert dict(redactor.values()) == {"token-2": "[redacted 2]", "token-3": "[redacted 3]"}
    assert redactor.text("token-2 token-3") == "[redacted 2] [redacted 3]"


def test_credentials_of_header_fields_get_texts_of_their_form_and_digests_follow() -> None:
    redactor = Redactor()
    session, basic = "0a9f" * 16, "Bearer eyJhbGciOi.Z-_x9%C3%BC"
    fields = redactor.headers([["cookie", f"theme=dark; id={session}"], ["authorization", basic], ["x", "y"]])
    (_, cookie), (_, authorization), plain = fields
    theme, _, stand_in = cookie.removeprefix("theme=").partition("; id=")
    assert re.fullmatch("[a-z]{4}", theme) and re.fullmatch("[0-9a-f]{64}", stand_in) and stand_in != session
    assert (
        re.fullmatch(r"Bearer [a-zA-Z]{10}\.[A-Z]-_[a-z][0-9]%C3%BC", authorization)
        and authorization != basic
    )
    assert plain == ("x", "y")
    digest, stored = (hashlib.sha256(each.encode()) for each in (session, stand_in))
    assert redactor.replace("column", "token", digest.hexdigest()) == stored.hexdigest()
    assert redactor.text(f"{session} {b64encode(digest.digest()).decode().rstrip('=')}=") == (
        f"{stand_in} {b64encode(stored.digest()).decode().rstrip('=')}="
    )
    assert redactor.headers([["x-auth-token", session], ["cookie", ""]]) == [
        ("x-auth-token", stand_in),
        ("cookie", ""),
    ]


def test_values_are_replaced_in_encodings_of_their_bytes() -> None:
    redactor = Redactor()
    redactor.add_value("KEY", "sk/live+42 ü")
    data = "sk/live+42 ü".encode()
    forms = (data.hex(), data.hex().upper(), b64encode(data).decode(), quote(data, safe=""))
    assert [redactor.text(f"a {form} b").rstrip("= b") for form in forms] == ["a [redacted 1]"] * 4


def test_json_with_the_content_type_of_a_form_is_redacted_as_json() -> None:
    body = Redactor().body(b'{"password":"hunter22","n":1}', "application/x-www-form-urlencoded")
    assert json.loads(body) == {"password": "[redacted 1]", "n": 1}
