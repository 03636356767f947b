"""Signed URLs: a permission to read or write one file until a moment, for clients without an account."""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from doors.files.store import MAX_BYTES, FileError, check_key

PATH = "/.svc/files/"
"""Path of signed URLs, at each public host of the project."""
MAX_SECONDS = 7 * 86_400
"""Longest validity of a URL."""
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


class Permission(NamedTuple):
    """Permission of a signed URL: `GET`, which includes HEAD, or `PUT`, until `expires` (Unix time).

    A PUT has at most `max` bytes, the content type `type` if that is not empty, and with `once` creates the
    file, so that a second one fails.
    """

    key: str
    method: str
    expires: int
    max: int = MAX_BYTES
    type: str = ""
    once: int = 0


def project_key(secret: bytes, project: str) -> bytes:
    """Return the key for the URLs of a project."""
    return hmac.new(secret, f"files\n{project}".encode(), hashlib.sha256).digest()


def sign(key: bytes, permission: Permission) -> str:
    """Return the path and query of a signed URL."""
    members = permission._asdict() | {"signature": _signature(key, permission)}
    return f"{PATH}{quote(members.pop('key'), safe='/')}?{urlencode(members)}"


def verify(key: bytes, file: str, query: str, method: str) -> Permission:
    """Return the permission of a request to a signed URL. Raises `FileError`."""
    members = dict(parse_qsl(query, keep_blank_values=True))
    signature = members.pop("signature", "")
    numbers = [members.get(name, "") for name in ("expires", "max", "once")]
    if not all(map(_NUMBER.fullmatch, numbers)) or members.keys() | {"key"} != {*Permission._fields}:
        raise _denied("it is not one that files.sign has returned")
    expires, most, once = map(int, numbers)
    permission = Permission(check_key(file), members["method"], expires, most, members["type"], once)
    if not hmac.compare_digest(_signature(key, permission).encode(), signature.encode()):
        raise _denied("it was altered, or signed by another service")
    if time.time() >= expires:
        raise _denied("it has expired")
    if method != permission.method and (method, permission.method) != ("HEAD", "GET"):
        raise _denied(f"it permits {permission.method}, not {method}")
    return permission


def _signature(key: bytes, permission: Permission) -> str:
    return hmac.new(key, urlencode(permission._asdict()).encode(), hashlib.sha256).hexdigest()


def _denied(reason: str) -> FileError:
    return FileError(f"the signed URL is not valid: {reason}", "Request a new one.", code="bad-signature")


def permission_of(document: Mapping[str, object]) -> Permission:
    """Return the permission that a guest asks for. Raises `FileError`."""
    known = {"key": "", "method": "GET", "expires_s": 600, "max_bytes": MAX_BYTES, "type": "", "once": False}
    wrong = [name for name, value in document.items() if type(value) is not type(known.get(name, ...))]
    if "key" not in document or wrong:
        message, hint = f"the body has no valid {[*wrong, 'key'][0]}", f"Its members are {', '.join(known)}."
        raise FileError(message, hint, code="bad-request")
    values: dict[str, Any] = {**known, **document}
    seconds, most, method = values["expires_s"], values["max_bytes"], values["method"]
    if method not in ("GET", "PUT"):
        raise FileError(f"method is {method!r}", "Use GET or PUT.", code="bad-request")
    if not (1 <= seconds <= MAX_SECONDS and 0 <= most <= MAX_BYTES):
        hint = f"Use 1 to {MAX_SECONDS} seconds and up to {MAX_BYTES} bytes."
        raise FileError("expires_s or max_bytes is out of range", hint, code="bad-request")
    expires, once = int(time.time()) + seconds, int(values["once"])
    return Permission(check_key(values["key"]), method, expires, most, values["type"], once)
