"""The imports of a component, as text: instance types made from `wasi.wit`.

Interfaces are declared with the types that they share; functions that are not called are omitted.
"""

from collections.abc import Iterable

from tests.conformance.wit import (
    Borrow,
    Function,
    Interface,
    List,
    Option,
    Prim,
    Record,
    Ref,
    Resource,
    Result,
    Tuple,
    Type,
    Variant,
    interfaces,
    resolve,
)


def imports(called: Iterable[Function], named: Iterable[str] = ()) -> str:
    """Return the imports of a component `$world` that calls these functions.

    `named` are interfaces required for their types. `$<interface>` is then an instance and
    `$<interface>.<name>` a type of it.
    """
    functions = {function.key: function for function in called}
    expected = {function.interface for function in functions.values()} | set(named)
    used = []
    for interface in reversed(interfaces().values()):
        if interface.name in expected:
            used.append(interface)
            expected |= {t.interface for t in interface.types.values() if isinstance(t, Ref)}
    return "\n".join(_import(interface, functions) for interface in reversed(used))


def _import(interface: Interface, called: dict[str, Function]) -> str:
    lines = [_type_export(interface.name, name, kind) for name, kind in interface.types.items()]
    for function in interface.functions:
        if function.key in called:
            parameters = "".join(f' (param "{name}" {written(kind)})' for name, kind in function.parameters)
            result = f" (result {written(function.result)})" if function.result else ""
            lines.append(f'  (export "{function.name}" (func{parameters}{result}))')
    aliases = [
        f'(alias export ${interface.name} "{name}" (type ${interface.name}.{name}))'
        for name in interface.types
    ]
    return "\n".join([f'(import "{interface.versioned}" (instance ${interface.name}', *lines, "))", *aliases])


def _type_export(interface: str, name: str, kind: Type) -> str:
    if isinstance(kind, Resource):
        return f'  (export "{name}" (type ${name} (sub resource)))'
    if isinstance(kind, Ref) and kind.interface == interface:
        return f'  (export "{name}" (type ${name} (eq ${kind.name})))'
    if isinstance(kind, Ref):
        shape = f"(alias outer $world ${kind.interface}.{kind.name} (type $shape-of-{name}))"
    else:
        shape = f"(type $shape-of-{name} {written(kind)})"
    return f'  {shape} (export "{name}" (type ${name} (eq $shape-of-{name})))'


def written(kind: Type) -> str:
    """Return a type as component text, in the scope of the interface that it is written in."""
    match kind:
        case Prim(name):
            return name
        case Ref(_, name):
            return f"(own ${name})" if isinstance(resolve(kind), Resource) else f"${name}"
        case Borrow(Ref(_, name)):
            return f"(borrow ${name})"
        case List(element):
            return f"(list {written(element)})"
        case Option(payload):
            return f"(option {written(payload)})"
        case Tuple(members):
            return f"(tuple {' '.join(map(written, members))})"
        case Record(fields):
            return "".join(["(record", *(f' (field "{name}" {written(t)})' for name, t in fields), ")"])
        case Result(ok, err):
            good = f" {written(ok)}" if ok else ""
            bad = f" (error {written(err)})" if err else ""
            return f"(result{good}{bad})"
        case Variant(cases, enum=True):
            return "".join(["(enum", *(f' "{name}"' for name, _ in cases), ")"])
        case Variant(cases):
            return f"(variant {' '.join(_case(name, payload) for name, payload in cases)})"
    raise TypeError(kind)


def _case(name: str, payload: Type | None) -> str:
    return f'(case "{name}" {written(payload)})' if payload else f'(case "{name}")'
