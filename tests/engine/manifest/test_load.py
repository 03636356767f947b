import os
import tracemalloc
from pathlib import Path

import pytest

from engine.manifest.load import MAX_BYTES, MAX_PROBLEMS, MAX_RESOURCES, NoProject, find, load, warnings
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
reads = "stale"
egress = ["https://api.example.com", "https://*.example.org", "http://127.0.0.1:9000"]
env = { COLOUR = "blue" }
secrets = ["KEY"]
"""


def write(root: Path, text: str) -> Path:
    (root / "svc.toml").write_text(text, encoding="utf-8")
    return root


def test_load_reads_every_key(tmp_path: Path) -> None:
    (tmp_path / "api" / "src").mkdir(parents=True)
    (tmp_path / "api" / "src" / "index.ts").touch()
    project = load(write(tmp_path, GOOD))
    front, api = project.resources.values()
    root = tmp_path.resolve()
    assert (project.name, project.root, project.front) == ("shop", root, front)
    assert front.mounts == (Mount("/api/*", "api"), Mount("/health", "api"))
    assert (front.public, front.spa, front.build, front.output) == (True, True, "make", root / "dist")
    assert (api.public, api.workdir, api.entry) == (False, root / "api", root / "api/src/index.ts")
    assert (api.run_limit_secs, api.memory_limit_mb, api.reads) == (12, 64, "stale")
    assert (api.egress[2], api.env, api.secrets) == ("http://127.0.0.1:9000", {"COLOUR": "blue"}, ("KEY",))


def test_load_applies_defaults(tmp_path: Path) -> None:
    api = load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n')).resources["api"]
    assert (api.public, api.run_limit_secs, api.memory_limit_mb, api.entry) == (False, 30, 128, None)
    assert api.reads == "fresh"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_entry_defaults_to_main_of_package_json(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "package.json").write_text('{"main": "server.js"}', encoding)
    (tmp_path / "server.js").touch()
    (tmp_path / "index.js").touch()
    project = load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n'))
    assert project.resources["api"].entry == tmp_path.resolve() / "server.js"


@pytest.mark.parametrize(
    "package", ['{"main": 3}', "[]", "{", '{"main": "../../out.js", "module": "a\\u0000"}']
)
def test_unusable_package_json_is_ignored(tmp_path: Path, package: str) -> None:
    root = tmp_path / "in" / "side"
    root.mkdir(parents=True)
    (tmp_path / "out.js").touch()
    (root / "package.json").write_text(package)
    (root / "index.ts").touch()
    (root / "index.js").touch()
    project = load(write(root, '[project]\nname="a"\n[resource.api]\nlane="js"\n'))
    assert project.resources["api"].entry == root.resolve() / "index.ts"


def test_paths_are_relative_to_workdir_and_may_be_missing(tmp_path: Path) -> None:
    text = '[project]\nname="a"\n[resource.api]\nlane="js"\nworkdir="süß/x"\nentry="../e.js"\n'
    api = load(write(tmp_path, text)).resources["api"]
    assert api.workdir == tmp_path.resolve() / "süß" / "x"
    assert api.entry == tmp_path.resolve() / "süß" / "e.js"


def test_invalid_utf8_raises_with_position(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_bytes(b'[project]\nname = "\xff"\n')
    with pytest.raises(ManifestError) as exc_info:
        load(tmp_path)
    assert (exc_info.value.problems[0].line, exc_info.value.problems[0].column) == (2, 9)


@pytest.mark.parametrize("make", ["folder", "pipe", "loop"])
def test_manifest_that_is_not_a_file_raises(tmp_path: Path, make: str) -> None:
    path = tmp_path / "svc.toml"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(path)}[make]()
    assert find(tmp_path) == tmp_path
    with pytest.raises(ManifestError) as exc_info:
        load(tmp_path)
    assert str(path) in exc_info.value.message and exc_info.value.problems[0].hint


def test_manifest_above_size_limit_raises(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ManifestError, match="larger than 256 KiB"):
        load(tmp_path)


def test_resources_above_the_limit_raise_with_the_line_of_the_first(tmp_path: Path) -> None:
    table = '[resource.r{}]\nlane = "static"\noutput = "."\n'
    text = '[project]\nname = "shop"\n' + "".join(table.format(number) for number in range(MAX_RESOURCES))
    (tmp_path / "svc.toml").write_text(text)
    assert len(load(tmp_path).resources) == MAX_RESOURCES
    (tmp_path / "svc.toml").write_text(text + table.format("x"))
    with pytest.raises(ManifestError, match="at most 200 resources") as caught:
        load(tmp_path)
    assert [problem.line for problem in caught.value.problems] == [3 + 3 * MAX_RESOURCES]


def test_first_mistakes_of_many_are_listed(tmp_path: Path) -> None:
    keys = "".join(f"k{number} = 1\n" for number in range(10_000))
    (tmp_path / "svc.toml").write_text(
        f'[project]\nname = "shop"\n{keys}[resource.a]\nlane = "static"\noutput = "."\n'
    )
    with pytest.raises(ManifestError) as caught:
        load(tmp_path)
    problems = caught.value.problems
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[0].key == "project.k0"
    assert problems[-1].message == "9900 more mistakes follow"


def test_bom_and_crlf_are_accepted(tmp_path: Path) -> None:
    text = '[project]\nname = "a"\n[resource.api]\nlane = "js"\nx = 1\n'
    (tmp_path / "svc.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    with pytest.raises(ManifestError) as exc_info:
        load(tmp_path)
    assert [(p.line, p.column, p.key) for p in exc_info.value.problems] == [(5, 1, "resource.api.x")]


def test_find_searches_parent_folders(tmp_path: Path) -> None:
    deep = tmp_path / "a ü" / "b"
    deep.mkdir(parents=True)
    write(tmp_path, GOOD)
    assert find(deep) == tmp_path
    (tmp_path / "svc.toml").unlink()
    with pytest.raises(NoProject) as exc_info:
        find(deep)
    assert "svc new" in exc_info.value.hint


def test_project_without_public_resource_warns(tmp_path: Path) -> None:
    warning = warnings(load(write(tmp_path, '[project]\nname="a"\n[resource.api]\nlane="js"\n')))[0]
    assert "public = true" in warning.hint and "[resource.api]" in warning.hint


def test_output_of_whole_project_folder_warns(tmp_path: Path) -> None:
    text = '[project]\nname="a"\n[resource.web]\nlane="static"\npublic=true\noutput="."\n'
    (warning,) = warnings(load(write(tmp_path, text)))
    assert warning.key == "resource.web.output" and "svc.toml" in warning.message


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 100_000 + " = 1",
        "[a" + ".a" * 100_000 + "]",
        "x = {a" + '."b"' * 60_000 + " = 1}",
        'x = "" # "\na' + ".'c'" * 60_000 + " = 1",
        "x = 1 '\na" + " . a" * 60_000 + " = 1",
    ],
    ids=["key", "header", "inline", "quoted", "unclosed"],
)
def test_key_of_many_parts_raises_in_bounded_memory(tmp_path: Path, text: str) -> None:
    tracemalloc.start()
    with pytest.raises(ManifestError, match="a line has 64 dots or more outside of strings"):
        load(write(tmp_path, text))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_dots_in_strings_and_comments_are_accepted(tmp_path: Path) -> None:
    dots = "a." * 200
    build = f'build = """{dots}\\" \'\'\' # {dots}\n{dots}"""'
    text = GOOD.replace('build = "make"', build).replace('"blue"', f"'{dots}\" # '")
    text = text.replace('["KEY"]', f'["KEY"] # {dots} """ \' "')
    project = load(write(tmp_path, text))
    assert project.resources["api"].env["COLOUR"] == f'{dots}" # '
    assert project.resources["front"].build == f"{dots}\" ''' # {dots}\n{dots}"


def test_number_of_many_digits_raises_without_advice_to_programmers(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as exc_info:
        load(write(tmp_path, "a = " + "1" * 5000))
    assert exc_info.value.problems[0].message == "a number has too many digits"
