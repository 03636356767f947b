from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SvcError
from engine.manifest.load import load
from engine.manifest.problems import ManifestError, ManifestProblem

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
HEAD = '[project]\nname = "shop"\n'
B = '\n[resource.b]\nlane = "js"'
A = '[resource.a]\nlane = "js"\n'
F = '[resource.a]\nlane = "static"\nfiles = "public/"\n'
S = '[resource.a]\nlane = "static"\noutput = "out"\n'


def problems(root: Path, text: str) -> tuple[ManifestProblem, ...]:
    (root / "svc.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as exc_info:
        load(root)
    return exc_info.value.problems


def only_problem(root: Path, body: str) -> ManifestProblem:
    """Return the only problem of a manifest whose body starts in line 3."""
    result = problems(root, HEAD + body)
    assert len(result) == 1, result
    return result[0]


# The body from line 3 on; line and column of the mistake; its key; words of the message; words of the hint.
@pytest.mark.parametrize(
    ("body", "place", "key", "message", "hint"),
    [
        ('[resource.a]\nlane = "statik"', (4, 1), "resource.a.lane", 'unknown lane "statik"', 'Did you mean "static"?'),
        ('[resource.a]\nlane = "cobol"', (4, 1), "resource.a.lane", 'unknown lane "cobol"', "static, go, rust, js"),
        ("[resource.a]\nlane = 3", (4, 1), "resource.a.lane", "must be a string, not a number", 'lane = "static"'),
        ('[resource.a]\nlane = ["js"]', (4, 1), "resource.a.lane", "must be a string, not an array", 'without brackets: lane = "js"'),
        ("[resource.a]\npublic = true", (3, 11), "resource.a.lane", '"lane" is missing', 'lane = "static"'),
        (A + "pubic = true", (5, 1), "resource.a.pubic", 'unknown key "pubic"', 'Did you mean "public"?'),
        (A + "  PUBLIC = true", (5, 3), "resource.a.PUBLIC", "unknown key", '"public"'),
        (A + 'public = "true"', (5, 1), "resource.a.public", "true or false, not a string", "public = true"),
        (A + "public = 1", (5, 1), "resource.a.public", "not a number", "Write true or false."),
        (A + 'run_limit_secs = "5"', (5, 1), "resource.a.run_limit_secs", "a whole number", "run_limit_secs = 5"),
        (A + "run_limit_secs = 1.5", (5, 1), "resource.a.run_limit_secs", "a whole number, not a decimal number", "such as 30."),
        (A + 'memory_limit_mb = "128MB"', (5, 1), "resource.a.memory_limit_mb", "not a string", "Write a whole number, such as 128."),
        (A + "run_limit_secs = 0", (5, 1), "resource.a.run_limit_secs", "0 is out of range", "1 to 900"),
        (A + "runLimitSecs = 901", (5, 1), "resource.a.runLimitSecs", "901 is out of range", "1 to 900"),
        (A + "run_limit_secs = 5\nrunLimitSecs = 5", (6, 1), "resource.a.runLimitSecs", "are the same key", "Remove one"),
        (A + "memory_limit_mb = 9999", (5, 1), "resource.a.memory_limit_mb", "9999", "16 to 1024"),
        (A + "build = 5", (5, 1), "resource.a.build", "a string, not a number", 'build = "5"'),
        (A + "workdir = {}", (5, 1), "resource.a.workdir", "a string, not a table", 'workdir = "…"'),
        (A + 'entry = ""', (5, 1), "resource.a.entry", "empty", "remove entry"),
        (A + 'workdir = "../up"', (5, 1), "resource.a.workdir", "outside the project folder", "svc.toml"),
        (A + 'workdir = "a\\u0000b"', (5, 1), "resource.a.workdir", "cannot be resolved", ""),
        (A + 'entry = "/etc/passwd"', (5, 1), "resource.a.entry", "outside the project folder", "relative to workdir"),
        ('[resource.a]\nlane = "static"', (3, 11), "resource.a.output", "needs output", 'output = "public"'),
        ('[resource.a]\nlane = "static"\noutput = "/etc"', (5, 1), "resource.a.output", "outside", "relative"),
        ('[resource.a]\nlane = "static"\noutput = 3', (5, 1), "resource.a.output", "a string", 'output = "3"'),
        (A + 'build = "make"', (5, 1), "resource.a.build", "needs output", "app.wasm"),
        (A + 'output = "app.wasm"', (5, 1), "resource.a.output", "no meaning", "build"),
        (A + 'build = "a\\u0000b"\noutput = "c"', (5, 1), "resource.a.build", "NUL character", "Remove \\u0000"),
        (A + "spa = true", (5, 1), "resource.a.spa", "static resources", "Remove"),
        ('[resource.a]\nlane = "go"\nentry = "x.js"', (5, 1), "resource.a.entry", "js resources", "Remove"),
        ('[resource.A]\nlane = "js"', (3, 11), "resource.A", "not a name for a resource", "a-z"),
        ('[resource.a--b]\nlane = "js"', (3, 11), "resource.a--b", "not a name for a resource", "single -"),
        ('[resource."a b"]\nlane = "js"', (3, 11), 'resource."a b"', "not a name for a resource", "a-z"),
        ('[resource."a\\nb"]\nlane = "js"', (3, 11), 'resource."a\\nb"', '"a\\nb" is not a name', "a-z"),
        (A + 'env = { NUL = "a\\u0000b" }', (5, 9), "resource.a.env.NUL", "the value of NUL has a NUL character", "Remove \\u0000"),
        (A + 'env = "A=1"', (5, 1), "resource.a.env", "a table, not a string", 'env = { NAME = "value" }'),
        (A + 'env = { "A-B" = "x" }', (5, 9), "resource.a.env.A-B", "not a variable name", "letters"),
        (A + 'mounts = { "x" = "b" }' + B, (5, 12), "resource.a.mounts.x", "does not start with /", 'Write "/x"'),
        (A + '[resource.a.mounts]\n"/x/*" = "bb"' + B, (6, 1), 'resource.a.mounts."/x/*"', 'unknown resource "bb"', 'Did you mean "b"?'),
        (A + 'mounts = { "/x/*" = "other" }', (5, 12), 'resource.a.mounts."/x/*"', "unknown resource", "[resource.other]"),
        (A + 'mounts = { "/x/*" = "a" }', (5, 12), 'resource.a.mounts."/x/*"', "into itself", "another resource"),
        (A + 'mounts = { "/x/*" = 1 }', (5, 12), 'resource.a.mounts."/x/*"', "a string", '"/x/*" = "1"'),
        (A + 'mounts = { "/*/x" = "b" }' + B, (5, 12), 'resource.a.mounts."/*/x"', "last segment", "/prefix/*"),
        (A + 'mounts = { "/x*" = "b" }' + B, (5, 12), 'resource.a.mounts."/x*"', "last segment", "/prefix/*"),
        (A + 'rate = "20"', (5, 1), "resource.a.rate", '"20" is not a rate', "a period of s, m, h or d"),
        (A + 'rate = "0/1m"', (5, 1), "resource.a.rate", '"0/1m" is not a rate', "at most 1000000"),
        (A + 'rate = "1/2d"', (5, 1), "resource.a.rate", '"1/2d" is not a rate', "up to 1d"),
        (A + 'rate = ""', (5, 1), "resource.a.rate", "must not be empty", "remove rate"),
        (A + "rate = 20", (5, 1), "resource.a.rate", "a string, not a number", 'rate = "20"'),
        (S + 'spa = true\nnot_found = "404.html"', (7, 1), "resource.a.not_found", "exclude each other", "Remove one"),
        (S + 'spa = true\nfallback = "b"' + B, (7, 1), "resource.a.fallback", "spa and fallback exclude", "Remove one"),
        (S + 'not_found = "4.html"\nfallback = "b"' + B, (7, 1), "resource.a.fallback", "exclude each other", "Remove one"),
        (S + 'fallback = "a"' + B, (6, 1), "resource.a.fallback", "a is its own fallback", "runs code: b."),
        (S + 'fallback = "bb"' + B, (6, 1), "resource.a.fallback", 'unknown resource "bb"', 'Did you mean "b"?'),
        (S + 'fallback = "other"', (6, 1), "resource.a.fallback", 'unknown resource "other"', "svc add js"),
        (S + 'fallback = "s"\n[resource.s]\nlane = "static"\noutput = "s"', (6, 1), "resource.a.fallback", "serves files only", "svc add js"),
        (A + 'fallback = "b"' + B, (5, 1), "resource.a.fallback", "for static resources", "Remove it"),
        (S + 'fallback = "b"' + B + '\nmounts = { "/x/*" = "a" }', (9, 12), 'resource.b.mounts."/x/*"', "form a cycle: a → b → a", "or its fallback"),
        (A + 'not_found = "404.html"', (5, 1), "resource.a.not_found", "for static resources", "Remove it"),
        (A + 'redirects = { "/a" = "/b" }', (5, 1), "resource.a.redirects", "for static resources", "Remove it"),
        (A + 'headers = { "/a" = { x = "1" } }', (5, 1), "resource.a.headers", "for static resources", "Remove it"),
        (A + 'files = "public/"', (5, 1), "resource.a.files", "for static resources", "Remove it"),
        (F + 'output = "out"', (6, 1), "resource.a.output", "no meaning with files", "Remove output, or files."),
        (F + 'build = "make"', (6, 1), "resource.a.build", "no meaning with files", "Remove build, or files."),
        (F + 'builder = "vite"', (6, 1), "resource.a.builder", "no meaning with files", "Remove builder, or files."),
        (F + 'workdir = "."', (6, 1), "resource.a.workdir", "no meaning with files", "Remove workdir, or files."),
        (F + "spa = true", (6, 1), "resource.a.spa", "no meaning with files", "Remove spa, or files."),
        (F.replace("public/", "/public"), (5, 1), "resource.a.files", "not a prefix", 'Write files = "public/".'),
        (F.replace("public/", "a/../b/"), (5, 1), "resource.a.files", "not a prefix", 'Write files = "a/b/".'),
        (F.replace("public/", "../"), (5, 1), "resource.a.files", "not a prefix", 'Write files = "public/".'),
        (F.replace("public/", "ä ö"), (5, 1), "resource.a.files", "not a prefix", 'Write files = "ä ö/".'),
        (F.replace("public/", "a\\u0000//b/"), (5, 1), "resource.a.files", "not a prefix", 'Write files = "a/b/".'),
        (F.replace("public", "ü" * 128), (5, 1), "resource.a.files", "more than 256 bytes", "Shorten it."),
        (F.replace("public/", ""), (5, 1), "resource.a.files", "empty", "remove files"),
        (S + 'headers = { "/a" = "no-cache" }', (6, 13), 'resource.a.headers."/a"', "a table, not a string", '"cache-control"'),
        (S + 'headers = { "a" = { x = "1" } }', (6, 13), "resource.a.headers.a", "start with /", 'Write "/a"'),
        (S + 'headers = { "/a" = { "x y" = "1" } }', (6, 22), 'resource.a.headers."/a"."x y"', "not a header name", "cache-control"),
        (S + 'headers = { "/a" = { Date = "1" } }', (6, 22), 'resource.a.headers."/a".Date', "set by the platform", "Remove"),
        (S + 'headers = { "/a" = { x = "1\\r\\nb: 2" } }', (6, 22), 'resource.a.headers."/a".x', "not valid", "printable"),
        (S + 'headers = { "/a" = { x = "1", X = "2" } }', (6, 31), 'resource.a.headers."/a".X', "same header", "Remove one"),
        (S + 'redirects = { "/a" = 1 }', (6, 15), 'resource.a.redirects."/a"', "a table, not a number", '"/old/*" = "/new/*"'),
        (S + 'redirects = { "/a" = {} }', (6, 15), 'resource.a.redirects."/a".to', "is missing", 'to = "/new"'),
        (S + 'redirects = { "/a" = { to = "/b", statsu = 301 } }', (6, 35), 'resource.a.redirects."/a".statsu', "unknown key", "status"),
        (S + 'redirects = { "/a" = { to = "/b", status = "301" } }', (6, 35), 'resource.a.redirects."/a".status', "a whole number", "status = 301"),
        (S + 'redirects = { "/a" = { to = "/b", status = 200 } }', (6, 15), 'resource.a.redirects."/a"', "200 is not", "301, 302"),
        (S + 'redirects = { "/a" = "b" }', (6, 15), 'resource.a.redirects."/a"', "neither a path nor a URL", "https://host"),
        (S + 'redirects = { "/a" = "//evil.example" }', (6, 15), 'resource.a.redirects."/a"', "neither", "https://host"),
        (S + 'redirects = { "/a/*" = "https://evil.example*" }', (6, 15), 'resource.a.redirects."/a/*"', "neither", "https://host"),
        (S + 'redirects = { "/a" = "/b c" }', (6, 15), 'resource.a.redirects."/a"', "how a URL is written", "percent-encoded"),
        (S + 'redirects = { "/a" = "/\\\\b" }', (6, 15), 'resource.a.redirects."/a"', "how a URL is written", "percent-encoded"),
        (S + 'redirects = { "/a" = "/b/*" }', (6, 15), 'resource.a.redirects."/a"', "has a *", "/*"),
        (S + 'redirects = { "/a/*" = "/*/*" }', (6, 15), 'resource.a.redirects."/a/*"', "several", "rest of the path"),
        (S + 'redirects = { "/a" = "/b", "/%61" = "/c" }', (6, 28), 'resource.a.redirects."/%61"', "same path", "Remove one"),
        (S + 'redirects = { "/a" = "/a?x" }', (6, 15), 'resource.a.redirects."/a"', "leads to itself: /a → /a?x", "no other"),
        (S + 'redirects = { "/*" = "/a" }', (6, 15), 'resource.a.redirects."/*"', "leads to itself", "no other"),
        (A + 'mounts = { "/x?y" = "b" }' + B, (5, 12), 'resource.a.mounts."/x?y"', "no ?", "/path"),
        (A + 'mounts = { "/../x" = "b" }' + B, (5, 12), 'resource.a.mounts."/../x"', "no request", "segments"),
        (A + 'mounts = { "/%2e/*" = "b" }' + B, (5, 12), 'resource.a.mounts."/%2e/*"', "no request", "segments"),
        (A + 'mounts = { "/a/%2E%2e/b" = "b" }' + B, (5, 12), 'resource.a.mounts."/a/%2E%2e/b"', "no request", "segments"),
        (A + 'mounts = { "/süß/*" = "b" }' + B, (5, 12), 'resource.a.mounts."/süß/*"', "sent", "/s%C3%BC%C3%9F/*"),
        (A + 'mounts = { "/a%2" = "b" }' + B, (5, 12), 'resource.a.mounts."/a%2"', "sent", '"/a%252"'),
        (A + 'mounts = { "/x" = "a\\nb" }', (5, 12), 'resource.a.mounts."/x"', 'resource "a\\nb"', "another resource"),
        (A + 'mounts = { "/~a" = "b", "/%7ea" = "b" }' + B, (5, 25), 'resource.a.mounts."/%7ea"', 'same path as "/~a"', "Remove"),
        (A + 'mounts = ["b"]' + B, (5, 1), "resource.a.mounts", "a table, not an array", 'mounts = { "/api/*" = "api" }'),
        (A + 'egress = [\n  "https://ok.example",\n  "api.example.com",\n]', (7, 3), "resource.a.egress[1]", "not an origin", "https://"),
        ('front = "b"\n' + A, (3, 1), "project.front", 'unknown resource "b"', "Possible: a"),
        ('front = "a"\n' + A, (3, 1), "project.front", "the front a is not public", "public = true"),
        ("front = true\n" + A, (3, 1), "project.front", "a string, not a boolean", ""),
        ('[resource.xn]\nlane = "js"\npublic = true', (3, 11), "resource.xn", "browsers do not accept", "another name"),
        ('otlp_headers = { authorization = "TOKEN" }\n' + A, (3, 1), "project.otlp_headers", "needs otlp", "otlp ="),
        ('otlp = "http://a"\notlp_headers = { authorization = "Bearer x" }\n' + A, (4, 18), "project.otlp_headers.authorization", "not the name of a secret", "OTLP_TOKEN"),
        ('otlp = "http://a"\notlp_headers = { Host = "TOKEN" }\n' + A, (4, 18), "project.otlp_headers.Host", "set by the platform", "Remove"),
        ('otlp = "http://a"\notlp_headers = { "a b" = "TOKEN" }\n' + A, (4, 18), 'project.otlp_headers."a b"', "not a header name", "authorization"),
        ('otlp = "collector:4318"\n' + A, (3, 1), "project.otlp", "not the URL of a collector", "https://"),
        (A + 'egress = ["https://a.example/path"]', (5, 11), "resource.a.egress[0]", "not an origin", "https://"),
        (A + 'egress = ["https://*"]', (5, 11), "resource.a.egress[0]", "not an origin", "https://"),
        (A + 'egress = ["ftp://a.example"]', (5, 11), "resource.a.egress[0]", "not an origin", "https://"),
        (A + 'egress = ["https://me@a.example"]', (5, 11), "resource.a.egress[0]", "not an origin", "https://"),
        (A + 'egress = "https://a.example"', (5, 1), "resource.a.egress", "an array", '["https://a.example"]'),
        (A + "egress = 7", (5, 1), "resource.a.egress", "an array", '["…"]'),
        (A + 'egress = ["https://a.example", 7]', (5, 32), "resource.a.egress[1]", "a string", '"7"'),
        (A + 'env = { SVC_PROJECT = "x" }', (5, 9), "resource.a.env.SVC_PROJECT", "by the platform", "another name"),
        (A + 'env.TRACEPARENT = "x"', (5, 5), "resource.a.env.TRACEPARENT", "by the platform", "another name"),
        (A + "env = { N = 5 }", (5, 9), "resource.a.env.N", "a string, not a number", 'N = "5"'),
        (A + "env = { N = true }", (5, 9), "resource.a.env.N", "a string, not a boolean", 'N = "true"'),
        (A + 'secrets = ["A", "SVC_X"]', (5, 17), "resource.a.secrets[1]", "by the platform", "another name"),
        (A + 'env = { K = "x" }\nsecrets = ["K"]', (6, 12), "resource.a.secrets[0]", "in env as well", "one of them"),
        ('check = "/a b"\n' + A, (3, 1), "project.check", '"/a b" is not a path', '"/health"'),
        ('redact_headers = ["a", "b c"]\n' + A, (3, 24), "project.redact_headers[1]", '"b c" is not the name', "x-api-key"),
        ("[resource]", (3, 2), "resource", "no resource is defined", "[resource.web]"),
        ('[resource]\nlane = "js"', (4, 1), "resource.lane", "a table, not a string", "[resource.web]"),
        (A + "[resources.b]", (5, 2), "resources", 'unknown key "resources"', '"resource"'),
        ("[[resource]]\nlane = 'js'", (3, 3), "resource", "a table, not an array", "[resource.web]"),
    ],
)  # fmt: skip
def test_problem_has_position_key_message_and_hint(
    tmp_path: Path, body: str, place: tuple[int, int], key: str, message: str, hint: str
) -> None:
    result = only_problem(tmp_path, body)
    assert (result.line, result.column) == place
    assert result.key == key
    assert message in result.message and hint in result.hint


def test_invalid_resource_name_is_not_suggested(tmp_path: Path) -> None:
    body = 'mounts = { "/x" = "c" }\n[resource.""]\nlane = "js"\n[resource."c\\n"]\nlane = "js"'
    mount, *names = problems(tmp_path, HEAD + A + body)
    assert mount.hint == "Add a table [resource.c]."
    assert [p.message for p in names] == [
        '"" is not a name for a resource', '"c\\n" is not a name for a resource'
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["Shop", "a--b", "a-", "1a", "a" * 40, ""])
def test_invalid_project_name_is_reported(tmp_path: Path, name: str) -> None:
    result = problems(tmp_path, f'[project]\nname = "{name}"\n{A}')
    assert [(p.line, p.key) for p in result] == [(2, "project.name")]
    assert "a letter first" in result[0].hint


def test_host_name_above_length_limit_is_reported(tmp_path: Path) -> None:
    body = f'[project]\nname = "{"p" * 39}"\n[resource.{"r" * 39}]\nlane = "js"\npublic = true\n'
    result = problems(tmp_path, body)
    assert len(result) == 1 and "80 characters" in result[0].message and "Shorten" in result[0].hint


def test_empty_file_reports_missing_keys(tmp_path: Path) -> None:
    result = problems(tmp_path, "")
    assert [p.key for p in result] == ["project", "resource"]
    assert all(p.hint for p in result)


def test_all_problems_are_reported_in_file_order(tmp_path: Path) -> None:
    result = problems(
        tmp_path,
        '[project]\nname = "Shop"\n'
        '[resource.a]\nlane = "go"\npublik = true\nmounts = { "/x/*" = "nope" }\negress = [1, "x"]\n'
        '[resource.b]\nlane = "rusty"\nrun_limit_secs = "5"\nworkdir = "../b"\n'
        'env = { SVC_A = "1" }\nmounts = { "/broken/*" = "c" }\n'
        "[resource]\nc = 3\n",
    )
    assert [p.line for p in result] == [2, 5, 6, 7, 9, 10, 11, 12, 15]


def test_invalid_table_causes_no_follow_up_problems(tmp_path: Path) -> None:
    body = (
        '[resource.a]\nlane = "statc"\noutput = 3\nspa = true\nmounts = { "/b/*" = "b" }\n[resource]\nb = 1\n'
    )
    assert [p.key for p in problems(tmp_path, HEAD + body)] == [
        "resource.a.lane",
        "resource.a.output",
        "resource.b",
    ]


def test_mount_cycle_is_reported_once(tmp_path: Path) -> None:
    result = only_problem(
        tmp_path,
        '[resource.a]\nlane="js"\nmounts={"/b/*"="b", "/bb/*"="b"}\n[resource.b]\nlane="js"\n'
        'mounts={"/c/*"="c"}\n[resource.c]\nlane="js"\nmounts={"/a/*"="a"}\n',
    )
    assert result.line == 11 and "a → b → c → a" in result.message


def test_mount_cycle_of_200_resources_is_reported(tmp_path: Path) -> None:
    tables = [f'[resource.r{n}]\nlane="js"\nmounts={{"/x"="r{(n + 1) % 200}"}}' for n in range(200)]
    assert "r0 → r1 → " in only_problem(tmp_path, "\n".join(tables)).message


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('[project]\nname = "a"\n[project]\n', (3, 2), "project: duplicate key; the first is in line 1"),
        ('[project]\nname = "a"\n\n name = """\nb"""\n', (4, 2), "project.name: duplicate key"),
        ('[resource.a]\nlane = "js"\n[resource."a"]\nlane = "js"', (3, 11), "the first is in line 1"),
        ('[project]\nname = "a"\n\n[resource.a]\nlane = static\n', (5, 8), "needs quotes"),
        ('[project\nname = "a"', (1, 9), "invalid TOML"),
        ('[project]\nname = "a', (2, 1), "ends unexpectedly"),
        ('[project]\nname = "a\n', (2, 10), "Close the quotes"),
        ('[project]\nname = "a"\nfoo = [\n "x]",  # ]\n', (3, 7), "the array is not closed"),
        ('[project]\nname = "a"\nfoo = { a = [1]', (3, 7), "the inline table is not closed"),
        ("[project]\nname = " + "[" * 50_000, (0, 0), "too deep"),
        (f"[project]\nname = {'9' * 5000}", (2, 8), "a number has too many digits"),
        ("name: shop", (1, 5), 'Write key = "value"'),
    ],
)  # fmt: skip
def test_invalid_toml_is_one_problem(tmp_path: Path, text: str, place: tuple[int, int], words: str) -> None:
    (found,) = problems(tmp_path, text)
    assert words in f"{found.key}: {found.message} {found.hint}"
    assert (found.line, found.column) == place


def test_workdir_symlink_outside_project_is_reported(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    (inside / "loop").symlink_to("loop")
    assert only_problem(inside, A + 'workdir="link"').key == "resource.a.workdir"


def test_file_as_workdir_and_folder_as_entry_are_reported(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "index.js").touch()
    found = only_problem(tmp_path, A + 'workdir = "src/index.js"')
    assert (found.line, found.key, found.message) == (5, "resource.a.workdir", '"src/index.js" is a file')
    found = only_problem(tmp_path, A + 'entry = "src"')
    assert (found.line, found.key, found.message) == (5, "resource.a.entry", '"src" is a folder')


def test_error_message_contains_every_problem(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + A + "publik = true\nspaa = true\n")
    with pytest.raises(ManifestError, match="has 2 mistakes") as exc_info:
        load(tmp_path)
    assert "svc.toml:5" in exc_info.value.message and 'Did you mean "spa"?' in exc_info.value.message


SIGNS = ["[", "]", "{", "}", "=", ".", ",", "\n", '"', "'", '"""', "#", " ", "\\", "é", "[[", "]]"]
KEYS = ["project", "resource", "name", "lane", "mounts", "egress", "env", '"js"', "true", "3", "inf"]
PARTS = ['[resource.a]\nlane = "js"\n', '[project]\nname = "x"\n', "1979-05-27", '"\\u0000"']
WORDS = st.sampled_from([*SIGNS, *KEYS, *PARTS])


@UNHURRIED
@given(st.lists(WORDS, max_size=25).map("".join))
def test_arbitrary_text_raises_only_svc_errors(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("any")
    (root / "svc.toml").write_text(text, encoding="utf-8")
    try:
        load(root)
    except SvcError as error:
        assert error.message
