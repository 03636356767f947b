from pathlib import Path

import pytest

from engine.errors import SvcError
from engine.manifest.load import NoProject, find, load, warnings
from engine.manifest.model import Mount
from engine.manifest.problems import ManifestError

GOOD = """
[project]
name = "shop"

[resource.front]
lane = "static"
public = true
output = "dist"
build = "make"
spa = true
mounts = { "/api/*" = "api", "/health" = "api" }

[resource.api]
lane = "js"
workdir = "api"
runLimitSecs = 12
memory_limit_mb = 64
egress = ["https://api.example.com", "https://*.example.org", "http://127.0.0.1:9000"]
env = { COLOUR = "blue" }
secrets = ["KEY"]
"""


def write(root: Path, text: str) -> Path:
    (root / "svc.toml").write_text(text, encoding="utf-8")
    return root


def problems(root: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(ManifestError) as caught:
        load(write(root, text))
    return [(p.line, p.key, p.message + " | " + p.hint) for p in caught.value.problems]


def one(root: Path, body: str) -> tuple[int, str, str]:
    """Return the only problem of a manifest whose body starts in line 3."""
    found = problems(root, '[project]\nname = "shop"\n' + body)
    assert len(found) == 1, found
    return found[0]


def test_every_key_arrives(tmp_path: Path) -> None:
    (tmp_path / "api" / "src").mkdir(parents=True)
    (tmp_path / "api" / "src" / "index.ts").touch()
    project = load(write(tmp_path, GOOD))
    front, api = project.resources.values()
    root = tmp_path.resolve()
    assert (project.name, project.root, project.front) == ("shop", root, front)
    assert front.mounts == (Mount("/api/*", "api"), Mount("/health", "api"))
    assert (front.public, front.spa, front.build, front.output) == (True, True, "make", root / "dist")
    assert (api.public, api.workdir, api.entry) == (False, root / "api", root / "api/src/index.ts")
    assert (api.run_limit_secs, api.memory_limit_mb) == (12, 64)
    assert (api.egress[2], api.env, api.secrets) == ("http://127.0.0.1:9000", {"COLOUR": "blue"}, ("KEY",))


def test_defaults(tmp_path: Path) -> None:
    api = load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n')).resources["api"]
    assert (api.public, api.run_limit_secs, api.memory_limit_mb, api.entry) == (False, 30, 128, None)


def test_the_entry_comes_from_package_json_first(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"main": "server.js"}')
    (tmp_path / "server.js").touch()
    (tmp_path / "index.js").touch()
    project = load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n'))
    assert project.resources["api"].entry == tmp_path.resolve() / "server.js"


@pytest.mark.parametrize(
    ("body", "line", "key", "words"),
    [
        ('[resource.a]\nlane = "statik"', 4, "resource.a.lane", 'no lane "statik" | did you mean "static"?'),
        ('[resource.a]\nlane = "js"\npubic = true', 5, "resource.a.pubic", 'unknown key "pubic" | did you mean "public"?'),
        ('[resource.a]\nlane = "js"\npublic = "true"', 5, "resource.a.public", "true or false, not a string"),
        ('[resource.a]\nlane = "js"\nrun_limit_secs = 0', 5, "resource.a.run_limit_secs", "1 to 900"),
        ('[resource.a]\nlane = "js"\nmemory_limit_mb = 9999', 5, "resource.a.memory_limit_mb", "16 to 1024"),
        ('[resource.a]\nlane = "js"\nworkdir = "../up"', 5, "resource.a.workdir", "outside the Project folder"),
        ('[resource.a]\nlane = "static"', 3, "resource.a", "needs output"),
        ('[resource.a]\nlane = "static"\noutput = "/etc"', 5, "resource.a.output", "outside the Project folder"),
        ('[resource.A]\nlane = "js"', 3, "resource.A", "not a name for a Resource"),
        ('[resource.a--b]\nlane = "js"', 3, "resource.a--b", "not a name for a Resource"),
        ('[resource.a]\nlane = "js"\nmounts = { "x" = "b" }\n[resource.b]\nlane = "js"', 5, "resource.a.mounts.x", 'Write "/x"'),
        ('[resource.a]\nlane = "js"\n[resource.a.mounts]\n"/x/*" = "bb"\n[resource.b]\nlane = "js"', 6, "resource.a.mounts./x/*", 'no Resource "bb" | did you mean "b"?'),
        ('[resource.a]\nlane = "js"\nmounts = { "/x/*" = "a" }', 5, "resource.a.mounts./x/*", "mounted to itself"),
        ('[resource.a]\nlane = "js"\nmounts = { "/*/x" = "b" }\n[resource.b]\nlane = "js"', 5, "resource.a.mounts./*/x", "not a path pattern"),
        ('[resource.a]\nlane = "js"\negress = ["api.example.com"]', 5, "resource.a.egress", "not an origin"),
        ('[resource.a]\nlane = "js"\nenv = { SVC_PROJECT = "x" }', 5, "resource.a.env", "set by the platform"),
        ('[resource.a]\nlane = "js"\nspa = true', 5, "resource.a.spa", "static Resources"),
        ("[resource.a]\npublic = true", 3, "resource.a.lane", '"lane" is missing'),
        ("[resource]", 3, "resource", "no Resource"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line_key_and_remedy(
    tmp_path: Path, body: str, line: int, key: str, words: str
) -> None:
    found = one(tmp_path, body)
    assert found[:2] == (line, key)
    assert words in found[2]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        '[project]\nname = "Shop"\n[resource.a]\nlane = "go"\npublik = true\n'
        'mounts = { "/x/*" = "nope" }\n[resource.b]\nlane = "rusty"\n'
        'run_limit_secs = "5"\nworkdir = "../b"\n',
    )
    assert [line for line, _, _ in found] == [2, 5, 6, 8, 9, 10]


def test_a_circle_of_mounts_is_named(tmp_path: Path) -> None:
    line, _, words = one(
        tmp_path,
        '[resource.a]\nlane="js"\nmounts={"/b/*"="b"}\n[resource.b]\nlane="js"\nmounts={"/c/*"="c"}\n'
        '[resource.c]\nlane="js"\nmounts={"/a/*"="a"}\n',
    )
    assert line == 11 and "a → b → c → a" in words


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[project]\nname = "a"\n[project]\n', 3, "twice"),
        ('[project]\nname = "a"\n\n[resource.a]\nlane = static\n', 5, "quotes"),
        ('[project\nname = "a"', 1, "not TOML"),
        ('[project]\nname = "a', 2, "not TOML"),
    ],
)
def test_what_is_not_toml(tmp_path: Path, text: str, line: int, words: str) -> None:
    found = problems(tmp_path, text)
    assert found[0][0] == line and words in found[0][2]


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_bytes(b'[project]\nname = "\xff"\n')
    with pytest.raises(ManifestError) as caught:
        load(tmp_path)
    assert caught.value.problems[0].line == 2


def test_a_folder_in_place_of_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").mkdir()
    with pytest.raises(SvcError):
        load(tmp_path)


def test_an_empty_file_says_what_is_missing(tmp_path: Path) -> None:
    assert {key for _, key, _ in problems(tmp_path, "")} == {"project", "resource"}


def test_a_symlinked_workdir_may_not_lead_out(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    assert one(inside, '[resource.a]\nlane="js"\nworkdir="link"')[1] == "resource.a.workdir"


def test_find_walks_up_and_says_what_to_do(tmp_path: Path) -> None:
    deep = tmp_path / "a ü" / "b"
    deep.mkdir(parents=True)
    write(tmp_path, GOOD)
    assert find(deep) == tmp_path
    (tmp_path / "svc.toml").unlink()
    with pytest.raises(NoProject) as caught:
        find(deep)
    assert "svc new" in caught.value.hint


def test_a_project_without_a_public_resource_is_a_warning(tmp_path: Path) -> None:
    warning = warnings(load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n')))[0]
    assert "public = true" in warning.hint and "[resource.api]" in warning.hint


def test_lines_are_right_in_quoted_dotted_and_spread_out_manifests(tmp_path: Path) -> None:
    text = (
        '# a comment with [resource.x]\n[project]\nname = "shop" # "quoted" # twice\n'
        'resource."a".lane = "js"\n'
        "[resource.b]\nlane = 'js'\negress = [\n  \"https://ok.example\", # = [\n]\n"
        'build = """\nmake [all]\nlane = 3\n"""\noutput = "x.wasm"\nnope = 1\n'
    )
    text = text.replace('resource."a".lane = "js"\n', "")
    assert [(line, key) for line, key, _ in problems(tmp_path, text)] == [(14, "resource.b.nope")]
