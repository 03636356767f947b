"""The writing style: a deny-list over prose, and the shape of docstrings.

`python -m tests.test_writing PATH...` prints every violation in files and folders.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.tracked import ROOT, tracked

PRODUCT = ("svc_tui", "engine", "lanes", "doors", "screens")
DENIED = {
    r"\b[Cc]an not\b": "cannot",
    r"\b(?:[Ww]hoever|[Nn]obody|[Ss]omebody|[Ee]verybody|[Aa]nybody)\b": "name the subject",
    r"\b[Ww]hom?\b": "name the subject",
    r"\b[Aa]new\b": "again",
    r"\b(?:[Tt]ells?|[Tt]old|[Tt]elling)\b": "report, notify, show",
    r"\b(?:[Hh]ears?|[Hh]eard|[Hh]earing)\b": "receive, handle",
    r"\b(?:[Kk]eeps?|[Kk]ept|[Kk]eeping)\b(?![- ]?[Aa]live)": "store, retain, leave",
    r"\b[Ww]hat (?:is there|there is|came|comes)\b": "name the thing",
    r"\b[Uu]nless you say\b": "(default: ...)",
    r"\b(?:is|are|was|were) had\b": "name the action",
    r"(?<![Tt]here )\b(?:is|are) (?:no|none)\b(?! (?:longer|more|other|less|fewer|later))": "is not, are not",
    r"\b[Ii]n place of\b": "instead of",
    r"\b[Gg](?:o|oes|oing) on\b": "continue",
    r"\b[Hh]ave (?:it|them|him|one)\b": "make, let the object be the subject",
    r"\b(?:un)?(?:colour|behaviour)\w*\b": "US spelling",
    r"\b[Cc]ancell(?:ed|ing)\b": "US spelling",
    r"\b(?:favour|honour|neighbour|licence|centre|catalogue|artefact|grey|whilst)\w*\b": "US spelling",
    r"(?<=[a-z,] )(?:Project|Resource)s?\b(?! Bucket|[(\[=]|\.[a-z])": "project, resource",
    r"\b\w*(?:initial|serial|organ|recogn|normal|optim)is(?:e|es|ed|ing|ation)\b": "US spelling",
}
STARTS = re.compile(r"(?:Have|Hear|Tell|Let|Hold|Say|Take|Look|Who|What|Owns|Knows|Whether|Of|Such)\b")
DENIED_IN_NAMES = frozenset(
    ("tell", "tells", "told", "teller", "hear", "hears", "heard", "keep", "keeps", "kept", "keeping", "said")
) | {"wish", "nobody", "whoever", "anew"}
VAGUE_NAMES = frozenset(("begun", "came", "given", "gone", "made", "ours", "took", "wanted", "whole"))
"""Names of the product that say when or how a value came to be, not what it is."""
VERBLESS = re.compile(r"(?:A|An|The|This|That|It|How|Where|When|Whether|As|So|If|All|Every|Each|No|One)\b")
THIRD_PERSON = re.compile(r"[A-Z][a-z]+(?:[^s]s|sses|ches|shes|xes)\b")
_DENIED = {re.compile(pattern): instead for pattern, instead in DENIED.items()}
_ANY = re.compile("|".join(DENIED))
"""Finds most texts without a denied word in a single search."""


class Violation(NamedTuple):
    """A sentence that breaks a rule, with its place."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def denied(text: str) -> Iterator[str]:
    """Yield a rule for every denied word in a piece of prose; code in backticks does not count."""
    if not _ANY.search(text):
        return
    prose = re.sub(r"`[^`]*`", "``", text)
    for pattern, instead in _DENIED.items():
        for match in pattern.finditer(prose):
            yield f'"{match[0]}" (write: {instead})'


def documented(nodes: list[ast.AST]) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield the owner, line and text of every docstring, those under assignments included."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for previous, statement in zip([None, *body], body, strict=False):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                continue
            text = statement.value.value
            if isinstance(text, str):
                yield (previous or node), statement.lineno, text


def messages(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string of at least three words."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text:
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every comment of a file that may have a denied word in one."""
    if not any(_ANY.search(line, line.index("#")) for line in source.splitlines() if "#" in line):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and name of every definition: functions, classes, arguments, variables and attributes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def words_of(name: str) -> set[str]:
    """Return the words of an identifier, without `keep_alive`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return set(re.sub(r"keep_?alive", "", snake).split("_"))


def raised(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of the errors that a function itself creates and raises."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            if name[0].isupper() and name not in {"Exit", "NotImplementedError", "AssertionError"}:
                names.add(name)
    return names


def misshapen(nodes: list[ast.AST], *, commands: bool) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and text of docstrings of public functions without the standard shape.

    The docstrings of `commands` are their help texts, so they name no errors.
    """
    for owner in nodes:
        if not isinstance(owner, ast.Module | ast.ClassDef):
            continue
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        for function in owner.body:
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name[0] == "_":
                continue
            text = ast.get_docstring(function)
            if text is None:
                continue
            first = text.split("\n\n")[0]
            decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
            noun = bool({"property", "cached_property", "functools.cached_property"} & decorators)
            if not noun and (VERBLESS.match(first) or THIRD_PERSON.match(first)):
                yield function.lineno, "begin with an imperative verb", first
            example = commands and ": svc " in first  # help ends with a command to copy
            if not example and first.rstrip()[-1:] not in {".", ":"}:
                yield function.lineno, "end the first paragraph with a period", first
            errors = raised(function)
            if errors and not commands and not re.search("[Rr]aise", text):
                yield function.lineno, f"name the errors it raises ({', '.join(sorted(errors))})", first


def of_python(path: Path, source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and text of every violation in a Python file."""
    nodes = [*ast.walk(ast.parse(source))]
    name = path.relative_to(ROOT).parts[0]
    texts = [*documented(nodes)]
    docstrings = {id(text): None for _, _, text in texts}
    for owner, line, text in texts:
        if match := STARTS.match(text.strip()):
            function = isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)
            if match[0] != "Whether" or function:
                yield line, f'"{match[0]}" begins it', text
        yield from ((line, rule, text) for rule in denied(text))
    yield from ((line, rule, text) for line, text in comments(source) for rule in denied(text))
    for line, identifier in names(nodes):
        if words := words_of(identifier) & DENIED_IN_NAMES:
            yield line, f'"{min(words)}" is in its name', identifier
        if name in PRODUCT and identifier.strip("_").lower() in VAGUE_NAMES:
            yield line, "name the value", identifier
    if name in PRODUCT:
        for line, text in messages(nodes):
            if id(text) not in docstrings:
                yield from ((line, rule, text) for rule in denied(text))
        commands = path.is_relative_to(ROOT / "svc_tui" / "commands") or path.name == "main.py"
        yield from misshapen(nodes, commands=commands)


LINE_COMMENTS = {
    r"(?:^|\s)//": (".go", ".added", ".rs", ".js", ".mjs", ".cjs", ".ts", ".s", ".wit"),
    r"(?:^|\s)/?\*": (".js", ".mjs", ".cjs", ".ts", ".css"),
    r"(?:^|\s)#(?!!)": (".toml", ".sh", ".mod", ".work", "Makefile", "run"),
    r";;": (".wat",),
    r"<!--": (".html",),
}
"""What begins a comment, or continues one, by the suffix or name of the files."""


def of_source(path: Path, source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and text of every violation in the comments of a file that is not Python."""
    for begin, kinds in LINE_COMMENTS.items():
        if path.suffix in kinds or path.name in kinds:
            for number, line in enumerate(source.splitlines(), 1):
                if found := re.search(begin, line):
                    comment = line[found.end() :]
                    yield from ((number, rule, comment) for rule in denied(comment))


def of_text(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and text of every violation in a Markdown file; code blocks do not count."""
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield from ((number, rule, line) for rule in denied(line))


def violations(path: Path) -> list[Violation]:
    """Return the violations in a file, by line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        rows = of_python(path, source)
    elif path.suffix == ".md":
        rows = of_text(source)
    else:
        rows = of_source(path, source)
    name = path.relative_to(ROOT)
    return sorted({Violation(name, line, rule, " ".join(text.split())[:90]) for line, rule, text in rows})


KINDS = {".py", ".md"}.union(*LINE_COMMENTS.values())
EXEMPT = {"docs/contributing/writing-style.md", "tests/test_writing.py"}
"""The files that quote what they forbid."""


def written() -> list[Path]:
    """Return the files with prose: Python, Markdown, and sources with comments."""
    paths = [path for path in tracked() if path.suffix in KINDS or path.name in KINDS]
    return [path for path in paths if str(path.relative_to(ROOT)) not in EXEMPT]


def test_prose_follows_the_writing_style() -> None:
    assert [str(row) for path in written() for row in violations(path)] == []


if __name__ == "__main__":
    chosen = [Path(argument).resolve() for argument in sys.argv[1:]] or [ROOT]
    for path in written():
        if any(path.is_relative_to(base) for base in chosen):
            for row in violations(path):
                print(row)
