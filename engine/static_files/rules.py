"""Redirects and response fields of a static resource: those of the manifest, and of files in its output.

The files are `_redirects` and `_headers`, in the format that Netlify and Cloudflare Pages share.
"""

import re
from collections.abc import Iterator, Mapping

from engine.lane import BuildFailed
from engine.manifest.model import Redirect, Resource, normal_path
from engine.manifest.path_rules import (
    ENDLESS_HINT,
    PathRules,
    Problem,
    endless,
    fields_problem,
    location,
    redirect_problem,
)

REDIRECTS = "_redirects"
HEADERS = "_headers"
RULE_FILES = (REDIRECTS, HEADERS)
MAX_BYTES = 2 << 20
"""Maximum size of one of the files."""
_STATUS = re.compile(r"(\d{3})!?")
_REMEDIES = {200: "For a page application, set spa = true.", 404: 'Set not_found = "404.html".'}

Header = tuple[bytes, bytes]


class StaticRules:
    """The rules of a resource. `files` are the contents of `RULE_FILES` that exist.

    The manifest wins over the files for the redirect of a path, and for a header of a path. `notes` are lines
    for the user about redirects of the file that it replaces. Raises `BuildFailed` for an invalid line.
    """

    def __init__(self, resource: Resource, files: Mapping[str, bytes]) -> None:
        lines: dict[str, int] = {}
        of_file = _redirects(files.get(REDIRECTS, b""), lines)
        paths = {normal_path(pattern) for pattern in resource.redirects}
        rest = {pattern: each for pattern, each in of_file.items() if normal_path(pattern) not in paths}
        redirects = rest | dict(resource.redirects)
        self.notes = [
            f"{REDIRECTS}:{lines[pattern]}: svc.toml redirects {pattern}, too, and wins"
            for pattern in of_file
            if pattern not in rest
        ]
        for pattern, steps in endless(redirects):
            message = f"the redirect leads to itself: {steps}"
            if pattern in lines and pattern not in resource.redirects:
                raise _failure(REDIRECTS, lines[pattern], (message, ENDLESS_HINT))
            raise BuildFailed(f"resource {resource.name}: {message}", ENDLESS_HINT)
        encoded: dict[str, dict[bytes, bytes]] = {}
        spelled: dict[str, str] = {}
        for headers in (_headers(files.get(HEADERS, b"")), resource.headers):
            for pattern, fields in headers.items():
                fields_of_path = encoded.setdefault(spelled.setdefault(normal_path(pattern), pattern), {})
                fields_of_path |= {name.lower().encode(): value.encode() for name, value in fields.items()}
        self._redirects = PathRules(redirects) if redirects else None
        self._headers = PathRules(encoded) if encoded else None

    def redirect(self, path: str, query: bytes) -> tuple[int, Header] | None:
        """Return status and `location` for a request to redirect. Its query is added to a URL without one."""
        match = next(self._redirects.matching(path), None) if self._redirects is not None else None
        if match is None:
            return None
        url, mark, fragment = location(*match).partition("#")
        if query and "?" not in url:
            url += f"?{query.decode('latin-1')}"
        return match[0].status, (b"location", f"{url}{mark}{fragment}".encode("latin-1"))

    def redirects_folder(self, path: str) -> bool:
        """Return whether a redirect from a folder's path to the one with a slash may lead back to it."""
        return self.redirect(f"{path}/", b"") is not None

    def fields(self, path: str) -> dict[bytes, bytes]:
        """Return the fields for a URL path. Of equal names, the most specific pattern wins."""
        fields: dict[bytes, bytes] = {}
        for each, _ in self._headers.matching(path) if self._headers is not None else ():
            fields = each | fields
        return fields


def _redirects(content: bytes, lines: dict[str, int]) -> dict[str, Redirect]:
    """Return the redirects of a file; add the line of each pattern to `lines`."""
    redirects: dict[str, Redirect] = {}
    paths: dict[str, int] = {}
    for number, line in _lines(REDIRECTS, content):
        words = re.split(r"\s#", line, maxsplit=1)[0].split()
        status = _STATUS.fullmatch(words[2]) if len(words) > 2 else None
        if len(words) < 2 or len(words) > 3 or (len(words) == 3 and status is None):
            hint = "Write: /from /to 301, without conditions (query, country, language, cookie)."
            raise _failure(REDIRECTS, number, ("not a redirect that svc supports", hint))
        redirect = Redirect(words[1].replace(":splat", "*"), int(status[1]) if status else 308)
        if (problem := _redirect_problem(words[0], redirect)) is not None:
            raise _failure(REDIRECTS, number, problem)
        earlier = paths.setdefault(normal_path(words[0]), number)
        if earlier != number:
            problem = f"{words[0]} is redirected in line {earlier}", "Remove one of the two lines."
            raise _failure(REDIRECTS, number, problem)
        redirects[words[0]], lines[words[0]] = redirect, number
    return redirects


def _redirect_problem(pattern: str, redirect: Redirect) -> Problem | None:
    if redirect.status in _REMEDIES:
        return f"status {redirect.status} is not supported", _REMEDIES[redirect.status]
    if "/:" in pattern or "/:" in redirect.to.removeprefix("https:/").removeprefix("http:/"):
        return "placeholders are not supported, except for :splat", "Write the path, or end it with /*."
    return redirect_problem(pattern, redirect.to, redirect.status)


def _headers(content: bytes) -> dict[str, dict[str, str]]:
    """Return the fields of a file by path; a repeated field is joined by commas."""
    rules: dict[str, dict[str, str]] = {}
    paths: dict[str, str] = {}
    fields: dict[str, str] | None = None
    for number, line in _lines(HEADERS, content):
        if not line[0].isspace():
            pattern = line.strip()
            if (problem := next((each for _, each in fields_problem(pattern, {})), None)) is not None:
                raise _failure(HEADERS, number, problem)
            fields = rules.setdefault(paths.setdefault(normal_path(pattern), pattern), {})
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if fields is None or not colon:
            message = "not a path, and not a header below a path"
            raise _failure(HEADERS, number, (message, "Indent headers, and write name: value."))
        for _, problem in fields_problem("/", {name: value}):
            raise _failure(HEADERS, number, problem)
        fields[name.lower()] = f"{fields[name.lower()]}, {value}" if name.lower() in fields else value
    return rules


def _lines(name: str, content: bytes) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are neither empty nor comments."""
    if len(content) > MAX_BYTES:
        raise BuildFailed(f"{name} is larger than {MAX_BYTES >> 20} MiB", "Remove lines.")
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            line = raw.decode().rstrip()
        except UnicodeDecodeError:
            raise _failure(name, number, ("the text is not UTF-8", "Save the file as UTF-8.")) from None
        if line and not line.lstrip().startswith("#"):
            yield number, line


def _failure(name: str, number: int, problem: Problem) -> BuildFailed:
    return BuildFailed(f"{name}:{number}: {problem[0]}", problem[1])
