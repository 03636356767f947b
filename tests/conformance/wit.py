"""Reads `wasi.wit`: interfaces, their functions and types.

It supports the part of the WIT language that the file uses, and writes types as component text. The memory
layout of values is in `canonical.py`.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

VERSIONS = {"svc:dev": "0.1.0", "svc:doors": "0.1.0"}
WASI = "0.2.12"


@dataclass(frozen=True, slots=True)
class Prim:
    """A number, `bool` or `string`."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A name in the scope of an interface: a type, or a resource (then it is an owned handle)."""

    interface: str
    name: str


@dataclass(frozen=True, slots=True)
class Borrow:
    resource: Ref


@dataclass(frozen=True, slots=True)
class List:
    element: "Type"


@dataclass(frozen=True, slots=True)
class Tuple:
    members: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Record:
    fields: tuple[tuple[str, "Type"], ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """Cases with their payloads; `enum` is whether the file declares an enum."""

    cases: tuple[tuple[str, "Type | None"], ...]
    enum: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    payload: "Type"


@dataclass(frozen=True, slots=True)
class Result:
    ok: "Type | None"
    err: "Type | None"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type where it is defined; `interface` and `name` are its identity."""

    interface: str
    name: str


Type: TypeAlias = Prim | Ref | Borrow | List | Tuple | Record | Variant | Option | Result | Resource


@dataclass(frozen=True, slots=True)
class Function:
    """`name` is as a component imports it ("[method]fields.get"), `short` without the bracket."""

    interface: str
    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Type | None

    @property
    def short(self) -> str:
        if self.name.startswith("[constructor]"):
            return f"{self.name.removeprefix('[constructor]')}.constructor"
        return self.name.partition("]")[2] or self.name

    @property
    def key(self) -> str:
        """The name in the registry of host functions."""
        return f"{self.interface}#{self.name}"

    @property
    def identifier(self) -> str:
        """The name in component text, which does not allow brackets."""
        return "$" + self.key.replace("[", "<").replace("]", ">")


@dataclass(slots=True)
class Interface:
    """`types` maps local names to types in declared order; one that was imported with `use` is a `Ref`."""

    name: str
    types: dict[str, Type] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)

    @property
    def versioned(self) -> str:
        package = self.name.partition("/")[0]
        return f"{self.name}@{VERSIONS.get(package, WASI)}"


def resolve(kind: Type) -> Type:
    """Return the definition of a name."""
    while isinstance(kind, Ref):
        kind = interfaces()[kind.interface].types[kind.name]
    return kind


@cache
def interfaces() -> dict[str, Interface]:
    """Return every interface of the file by name, dependencies first."""
    return read(Path(__file__).with_name("wasi.wit").read_text())


def read(text: str) -> dict[str, Interface]:
    """Return the interfaces of WIT packages; versions, feature gates and worlds are ignored."""
    text = re.sub(r"//[^\n]*|@\w+\([^)]*\)|@\d+\.\d+\.\d+|%|^world [^}]*\}", "", text, flags=re.MULTILINE)
    return _Reader(text).read()


@cache
def functions() -> dict[str, Function]:
    """Return every function by its short name, and by `<interface>/<short name>` ("wall-clock/now")."""
    result: dict[str, Function] = {}
    for function in (f for interface in interfaces().values() for f in interface.functions):
        result.setdefault(function.short, function)
        result[f"{function.interface.partition('/')[2]}/{function.short}"] = function
    return result


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = re.findall(r"->|[A-Za-z][\w-]*(?::[a-z][\w-]*(?:/[a-z][\w-]*)?)?|[{}()<>,;:=_.]", text)
        self._at = 0
        self._scope = ""
        self._package = ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _need(self, *tokens: str) -> None:
        for token in tokens:
            assert self._take(token), f"{token} wanted before {self._tokens[self._at : self._at + 5]}"

    def read(self) -> dict[str, Interface]:
        result: dict[str, Interface] = {}
        while self._at < len(self._tokens):
            if self._take("package"):
                self._package = self._next()
                self._need(";")
                continue
            self._need("interface")
            interface = Interface(f"{self._package}/{self._next()}")
            result[interface.name] = interface
            self._scope = interface.name
            self._need("{")
            while not self._take("}"):
                self._item(interface)
        return result

    def _item(self, interface: Interface) -> None:
        word = self._next()
        if word == "use":
            source = self._next()
            source = source if "/" in source else f"{self._package}/{source}"
            self._need(".", "{")
            while not self._take("}"):
                name = self._next()
                interface.types[self._next() if self._take("as") else name] = Ref(source, name)
                self._take(",")
            self._need(";")
        elif word == "type":
            name = self._next()
            self._need("=")
            interface.types[name] = self._type()
            self._need(";")
        elif word == "record":
            name = self._next()
            interface.types[name] = Record(self._fields("{", "}"))
        elif word in ("variant", "enum"):
            name = self._next()
            interface.types[name] = Variant(self._cases(), word == "enum")
        elif word == "resource":
            self._resource(interface)
        else:
            interface.functions.append(self._function(word, ()))

    def _resource(self, interface: Interface) -> None:
        name = self._next()
        interface.types[name] = Resource(interface.name, name)
        if self._take(";"):
            return
        self._need("{")
        myself = Ref(interface.name, name)
        while not self._take("}"):
            word = self._next()
            if word == "constructor":
                interface.functions.append(
                    Function(interface.name, f"[constructor]{name}", self._fields("(", ")"), myself)
                )
                self._need(";")
                continue
            static = self._tokens[self._at + 1] == "static"
            owner = f"[{'static' if static else 'method'}]{name}."
            first = () if static else (("self", Borrow(myself)),)
            interface.functions.append(self._function(owner + word, first))

    def _function(self, name: str, first: tuple[tuple[str, Type], ...]) -> Function:
        self._need(":")
        self._take("static")
        self._need("func")
        parameters = self._fields("(", ")")
        result = self._type() if self._take("->") else None
        self._need(";")
        return Function(self._scope, name, first + parameters, result)

    def _fields(self, begin: str, end: str) -> tuple[tuple[str, Type], ...]:
        self._need(begin)
        result = []
        while not self._take(end):
            name = self._next()
            self._need(":")
            result.append((name, self._type()))
            self._take(",")
        return tuple(result)

    def _cases(self) -> tuple[tuple[str, Type | None], ...]:
        self._need("{")
        result = []
        while not self._take("}"):
            name, payload = self._next(), None
            if self._take("("):
                payload = self._type()
                self._need(")")
            result.append((name, payload))
            self._take(",")
        return tuple(result)

    def _type(self) -> Type:
        word = self._next()
        if word in ("bool", "string", "u8", "u16", "u32", "u64", "s32"):
            return Prim(word)
        if word not in ("list", "tuple", "option", "result", "borrow"):
            return Ref(self._scope, word)
        arguments: list[Type | None] = []
        if self._take("<"):
            while not self._take(">"):
                arguments.append(None if self._take("_") else self._type())
                self._take(",")
        if word == "result":
            return Result(*[*arguments, None, None][:2])
        present = [argument for argument in arguments if argument is not None]
        if word == "tuple":
            return Tuple(tuple(present))
        (only,) = present
        if word == "borrow":
            assert isinstance(only, Ref)
            return Borrow(only)
        return List(only) if word == "list" else Option(only)
