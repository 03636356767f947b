"""The documentation is complete and matches the code."""

import re
import subprocess
from pathlib import Path

import pytest

import engine.wasm.compile.check
from bench.compat.cases import cases
from bench.compat.report import PAGE, package_cells
from docs import generate
from docs.error_codes import CONTROL_CODES
from doors.tables.guest.problem import KINDS as TABLES_KINDS
from engine.gateway.problem import PROBLEM_TYPES
from engine.wasm.capi.host_functions import FUNCTIONS
from engine.wasm.weave.builder import DIRECT_INTERFACES
from engine.wasm.weave.weaver import library

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def tracked() -> list[Path]:
    process = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in process.stdout.splitlines() if (path := ROOT / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link, _, anchor in (target.partition("#") for target in re.findall(r"\]\(([^):]+)\)", text)):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_generated_pages_are_current() -> None:
    stale = [path.name for path, text in generate.pages().items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make docs`"


def test_compatibility_page_lists_the_current_cases() -> None:
    text = PAGE.read_text()
    rows = [row for row in text.splitlines() if row.startswith("| ") and row.count("|") > 3]
    packages = ["| " + " | ".join(package_cells(case)) + " |" for case in cases("packages")]
    parts = [f"| {case.title} | {', '.join(case.checks)} |" for case in cases("wintertc")]
    listed = [row for row in rows if any(row.startswith(start) for start in (*packages, *parts))]
    assert len(listed) == len(packages) + len(parts), "run `make compat`"
    counts = [int(each[1]) for row in rows if (each := re.search(r"\| \d+ of (\d+) \|", row))]
    assert counts == [len(case.checks) for case in cases("packages")], "run `make compat`"


def test_guide_shows_the_python_component_that_is_tested() -> None:
    source = (ROOT / "tests" / "lanes" / "tools" / "app.py").read_text()
    assert f"```python\n{source}```\n" in (DOCS / "guides" / "build" / "own-component.md").read_text()


def test_every_error_code_has_a_meaning() -> None:
    assert set(CONTROL_CODES) == generate.error_codes()


def test_troubleshooting_covers_gateway_and_tables_codes() -> None:
    text = (DOCS / "guides" / "operate" / "troubleshooting.md").read_text()
    assert {code for code in (*PROBLEM_TYPES, *TABLES_KINDS) if f"`{code}`" not in text} == set()


def interface_states() -> dict[str, str]:
    rows = r"^\| `([a-z-]+:[a-z/-]+)` \| ([a-z ]+) \|"
    return dict(re.findall(rows, (DOCS / "reference" / "wasi.md").read_text(), re.MULTILINE))


def function_states() -> dict[str, str]:
    """State by `<interface>#<resource>.<function>`, of the tables function by function."""
    result = {}
    for section in (DOCS / "reference" / "wasi.md").read_text().split("\n### `")[1:]:
        interface, _, text = section.partition("`")
        for names, state in re.findall(r"^\| (`[^|]+) \| (\w+) \|", text, re.MULTILINE):
            result |= {f"{interface}#{name}": state for name in re.findall(r"`([^`]+)`", names)}
    return result


def documented_name(key: str) -> str:
    """`<interface>#[method]<resource>.<function>` as the documentation writes it."""
    interface, _, name = key.partition("#")
    kind, _, rest = name.rpartition("]")
    return f"{interface}#{rest}.constructor" if kind == "[constructor" else f"{interface}#{rest}"


ERROR_CODES_OF_NOTHING = (
    "wasi:filesystem/types#filesystem-error-code",
    "wasi:sockets/network#network-error-code",
)
"""Functions that return the code of an error of files or sockets, which do not exist."""


def hosted_functions() -> set[str]:
    """Functions that components may import: of the WASI library, and of the host itself."""
    exported = {name.decode() for name in library().functions.exports if name.startswith(b"wasi:")}
    return exported | {name for name in FUNCTIONS if name.partition("#")[0] in DIRECT_INTERFACES}


def test_documented_interfaces_equal_the_hosted_ones() -> None:
    assert interface_states().keys() == engine.wasm.compile.check.HOSTED_INTERFACES
    hosted = {name.partition("#")[0] for name in hosted_functions()}
    assert {n for n, state in interface_states().items() if state == "types only"} == (
        engine.wasm.compile.check.HOSTED_INTERFACES - hosted
    )


def test_documented_functions_equal_the_hosted_ones() -> None:
    assert function_states().keys() == {documented_name(name) for name in hosted_functions()}


def test_denied_functions_are_documented() -> None:
    source = (ROOT / "engine" / "wasm" / "guest_side" / "denied.rs").read_text()
    named = re.findall(r'^    "(wasi:[^"]+)"$', source, re.MULTILINE)
    denied = {documented_name(name) for name in (*named, *ERROR_CODES_OF_NOTHING)}
    assert {name for name, state in function_states().items() if state == "denied"} == denied
    states = {"denied", "hosted", "stubbed"}
    assert set(function_states().values()) <= states
    for interface, state in interface_states().items():
        own = {s for name, s in function_states().items() if name.startswith(f"{interface}#")}
        assert state in own or (state == "types only" and not own)


def test_tests_named_by_the_threat_model_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (DOCS / "contributing" / "threat-model.md").read_text())
    tests = ROOT / "tests"
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (tests / file).is_file() or f"def {name}(" not in (tests / file).read_text()
    ]
    assert len(named) > 40
    assert missing == []


def test_named_modules_exist() -> None:
    modules = [f"/{path.relative_to(ROOT)}" for path in tracked() if path.suffix == ".py"]
    pattern = r"`([a-z0-9_/]+\.py)(?:::\w+)?`"
    named = {(page.name, name) for page in PAGES for name in re.findall(pattern, page.read_text())}
    assert len(named) > 40
    assert not [each for each in named if not any(path.endswith(f"/{each[1]}") for path in modules)]


def test_every_module_has_a_docstring() -> None:
    modules = [path for path in tracked() if path.suffix == ".py" and path.parts[-2] != "tests"]
    silent = [
        path.relative_to(ROOT)
        for path in modules
        if "tests" not in path.relative_to(ROOT).parts and not path.read_text().lstrip().startswith('"""')
    ]
    assert silent == []


def test_a_module_is_at_most_a_chapter() -> None:
    lengths = {path: path.read_text().count("\n") for path in tracked() if path.suffix == ".py"}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > 800} == {}


def test_no_file_has_todo_marks() -> None:
    marks = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")
    texts = [
        path for path in tracked() if path.suffix in {".py", ".js", ".mjs", ".md", ".toml", ".html", ".css"}
    ]
    assert [str(path.relative_to(ROOT)) for path in texts if marks.search(path.read_text())] == []


def test_tree_has_no_registry_address_and_only_one_binary() -> None:
    lock = (ROOT / "lanes" / "js" / "node" / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    binaries = [path for path in tracked() if path.suffix in {".wasm", ".cwasm", ".so", ".node"}]
    assert binaries == [ROOT / "engine" / "wasm" / "guest_side" / "library.wasm"], "a test rebuilds that one"
