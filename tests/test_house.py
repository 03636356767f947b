"""Repository rules: import contracts, make targets, and strings that no file contains."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

from tests.support.size import PRODUCT, maximum, modules, size

ROOT = Path(__file__).resolve().parents[1]
MAX_POSITIONAL = 5
MAX_FUNCTION_LINES = 80
LONG_FUNCTIONS = {
    "engine/control/auth/routes.py: blueprint",
    "engine/control/auth/routes.py: user_blueprint",
    "engine/control/routes/deployments.py: blueprint",
    "engine/control/routes/fleet.py: blueprint",
    "engine/control/routes/logs.py: blueprint",
    "engine/wasm/weave/modules.py: access_module",
    "svc_tui/commands/console.py: console",
    "svc_tui/commands/logs.py: logs",
    "svc_tui/commands/serve.py: serve",
    "svc_tui/dev/server.py: run_dev",
}
"""Functions that are longer today. No other may become so."""
HOOK = re.compile(r"_|(?:compose|render\w*|(?:on|action|check|watch|validate)_\w+)$")
"""Functions whose callers know them by name: private ones, and those that Textual calls."""
BINARY = {".png", ".ico", ".woff2", ".gz", ".br", ".bin", ".wasm"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@functools.cache
def texts() -> dict[str, str]:
    """The text of every file that belongs to the repository, by its name."""
    listed = run("git", "ls-files", "-z").stdout.split("\0")
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in filter(None, listed)
        if (ROOT / name).is_file() and (ROOT / name).suffix not in BINARY
    }


def test_import_contracts_hold() -> None:
    program = (
        "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    )
    result = run(sys.executable, "-c", program, "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr


def test_documented_make_targets_exist() -> None:
    named = {
        target
        for name, text in texts().items()
        if name.endswith(".md")
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)\b", text, re.MULTILINE)
    }
    targets = set(re.findall(r"^([a-z][a-z _-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named >= {"demo", "test", "install", "check"}
    assert named - {word for line in targets for word in line.split()} == set()


def test_make_targets_are_documented() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    text = "\n".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    steps = {"toolchains", "bytecode", "chromium-and-tmux", "js-and-go", "rust-target", "clean"}
    silent = {target for target in phony[1].split() if f"make {target}" not in text}
    assert {target for target in silent if not target.startswith("bench-")} <= steps


def test_docs_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    text = (docs / "index.md").read_text()
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"index.md"}
    listed_elsewhere = {page for page in pages if page.startswith("reference/commands/")}
    assert {page for page in pages - listed_elsewhere if f"({page})" not in text} == set()


def test_architecture_lists_every_folder() -> None:
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    rows = [line for line in page.partition("## Folders")[2].splitlines() if line.startswith("| `")]
    folders = {name.rpartition("/")[0] for name in texts() if name.split("/")[0] in PRODUCT}
    missing = set()
    for folder in (folder for folder in folders if folder.count("/") == 1):
        parent, _, name = folder.partition("/")
        named = re.compile(rf"`(?:{parent}/)?{name}(?:/\w+)*/?`")
        if not any(row.startswith(f"| `{parent}/") and named.search(row) for row in rows):
            missing.add(folder)
    assert missing == set()


def test_ci_script_is_valid_bash() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert run("bash", "-n", ".ci/run").returncode == 0


def test_no_file_contains_a_machine_path() -> None:
    home = re.compile(r"(?<![\w.$}])/(?:root|work|Users|home/[a-z]\w*)/")
    assert [name for name, text in texts().items() if home.search(text)] == []


def test_no_file_contains_a_registry_address() -> None:
    registry = re.compile(r"https?://[^\s\"')]*(?:registry|pypi|/simple\b)", re.IGNORECASE)
    result = {name: result[0] for name, text in texts().items() if (result := registry.search(text))}
    assert result == {}


def test_class_names_are_unique_in_a_package_and_no_long_positional_constructors() -> None:
    places: dict[str, list[str]] = {}
    positional = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            if node.col_offset == 0:
                package = name.rpartition("/")[0]
                places.setdefault(f"{package}/{node.name.lstrip('_')}", []).append(name)
            if count_positional(node) > MAX_POSITIONAL:
                positional.append(f"{name}: {node.name}")
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
    assert positional == []


def test_size_of_the_product_only_falls() -> None:
    most = maximum()
    assert {name: number for name, number in size().items() if number > most[name]} == {}, "make lines"


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of the product by the names of their files."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in modules()}


@functools.cache
def functions() -> list[tuple[str, ast.AST, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return every function of the product with its file, and the class, module or function that it is in."""
    return [
        (name, owner, node)
        for name, tree in trees().items()
        for owner in ast.walk(tree)
        if not isinstance(owner, ast.expr)
        for node in ast.iter_child_nodes(owner)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_functions_are_at_most_a_page() -> None:
    lengths = {
        f"{name}: {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for name, _, function in functions()
    }
    assert {name for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} <= LONG_FUNCTIONS


def test_public_functions_of_several_statements_have_docstrings() -> None:
    protocols = {
        function.name
        for _, owner, function in functions()
        if isinstance(owner, ast.ClassDef) and "Protocol" in map(ast.unparse, owner.bases)
    }
    silent = [
        f"{name}:{function.lineno}: {function.name}"
        for name, owner, function in functions()
        if owner is (tree := trees()[name])
        or (owner in tree.body and isinstance(owner, ast.ClassDef) and owner.name[0] != "_")
        if not HOOK.match(function.name) and function.name not in protocols
        if not any(ast.unparse(name).endswith(".setter") for name in function.decorator_list)
        if len(function.body) > 1 and ast.get_docstring(function) is None
    ]
    assert silent == []


def test_only_lanes_and_templates_name_a_lane() -> None:
    templates = "svc_tui/project/scaffold.py"
    named = [
        f"{name}:{node.lineno}: {node.value}"
        for name, tree in trees().items()
        if not name.startswith("lanes/") and name != templates
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in {"go", "rust", "js"}
    ]
    assert named == []


def test_no_call_or_literal_packs_values_with_a_star() -> None:
    packed = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, text in texts().items()
        if name.endswith(".py") and re.search(r"\*\s*[(\[]", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List)
    ]
    assert packed == []


def count_positional(node: ast.ClassDef) -> int:
    """Return how many positional arguments a class's own constructor takes."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return len(item.args.args) - 1
    decorators = [ast.unparse(each) for each in node.decorator_list]
    if not any("dataclass" in each and "kw_only=True" not in each for each in decorators):
        return 0
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    names = [ast.unparse(item.annotation) for item in fields if "init=False" not in ast.unparse(item)]
    names = [name for name in names if "ClassVar" not in name]
    return names.index("KW_ONLY") if "KW_ONLY" in names else len(names)
