"""WASI imports of a generated component as component text, reduced to the called functions.

`wasi.wat` has the complete interfaces.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

Expression: TypeAlias = "str | list[Expression]"
_TOKEN = re.compile(r'\s+|;;[^\n]*|(\(|\)|"[^"]*"|[^\s()"]+)')


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Import text of a component named `$world`, with its identifiers.

    `instances` maps an interface ("wasi:io/poll@0.2.4") to the identifier of its instance; `functions` has
    the names of all functions of each interface, called or not.
    """

    text: str
    instances: dict[str, str]
    functions: dict[str, frozenset[str]]


def parse_interfaces(calls: Mapping[str, Collection[str]]) -> Interfaces:
    """Return the imports of a component that calls these functions: names by interface.

    An interface is imported if one of its functions is called or another one needs its types.
    """
    forms = _forms()
    aliased = {form[2] for form in forms if form[0] == "alias"}
    imports, instances, functions = [], {}, {}
    for form in forms:
        if form[0] == "import":
            name, instance = str(form[1]).strip('"'), form[2]
            functions[name] = frozenset(str(item[1]).strip('"') for item in instance if _is_function(item))
            called = set(calls.get(name, ())) & functions[name]
            if not called and instance[1] not in aliased:
                continue
            instances[name] = str(instance[1])
            body = [i for i in instance if not _is_function(i) or str(i[1]).strip('"') in called]
            form = [*form[:2], body]
        imports.append(_written(form))
    return Interfaces("\n".join(imports), instances, functions)


def _is_function(item: Expression) -> bool:
    return isinstance(item, list) and item[0] == "export" and item[2][0] == "func"


@cache
def _forms() -> list[list[Expression]]:
    text = Path(__file__).with_name("wasi.wat").read_text(encoding="utf-8")
    stack: list[list[Expression]] = [[]]
    for match in _TOKEN.finditer(text):
        token = match[1]
        if token == "(":
            stack.append([])
        elif token == ")":
            form = stack.pop()
            stack[-1].append(form)
        elif token is not None:
            stack[-1].append(token)
    return stack[0]  # type: ignore[return-value]


def _written(form: Expression) -> str:
    return form if isinstance(form, str) else f"({' '.join(map(_written, form))})"
