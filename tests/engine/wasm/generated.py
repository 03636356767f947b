"""Hypothesis strategies for WebAssembly: modules and components that are mostly valid, and mutations of them.

As in wasm-smith, structure is generated: index spaces are tracked, so that most references exist. Limits,
names and constants are often extreme.
"""

from collections.abc import Callable

from hypothesis import strategies as st

from engine.wasm_binary import COMPONENT_HEADER, MODULE_HEADER, name, section, sleb, uleb, vector
from tests.lanes.components import HANDLER

I32, I64, F32, F64, FUNCREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x70
NAMES = st.one_of(
    st.sampled_from(
        [
            HANDLER,
            "handle",
            "memory",
            "realloc",
            "svc_freeze",
            "_initialize",
            f"{HANDLER}#handle",
            "wasi:io/streams@0.2.3",
            "wasi:http/types@0.2.3",
            "[method]output-stream.write",
            "svc:bytes/streams@0.2.3",
            "",
        ]
    ),
    st.text(max_size=6),
).map(str.encode)
SIZES = st.one_of(st.integers(0, 4), st.sampled_from([64, 1024, 65_535, 65_536, 1 << 31, (1 << 32) - 1]))
COUNTS = st.integers(0, 3)


def a_few(item: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    """Return a vector of items."""
    return st.lists(item, max_size=most).map(vector)


def index(count: int) -> st.SearchStrategy[bytes]:
    """Return an index below a count, and rarely one that does not exist."""
    valid = st.integers(0, max(count - 1, 0))
    return st.one_of(valid, valid, valid, SIZES).map(uleb)


LIMITS = st.one_of(
    SIZES.map(lambda least: b"\x00" + uleb(least)),
    st.tuples(SIZES, SIZES).map(lambda both: b"\x01" + uleb(both[0]) + uleb(both[1])),
    st.tuples(st.integers(2, 7), SIZES, SIZES).map(
        lambda parts: bytes([parts[0]]) + uleb(parts[1]) + uleb(parts[2])
    ),
)
VALUE_TYPES = st.sampled_from([bytes([kind]) for kind in (I32, I32, I64, F32, F64, FUNCREF, 0x7B)])


@st.composite
def function_body(draw: st.DrawFn, functions: int) -> bytes:
    """Return a body without operands left on the stack: constants, memory, calls, nested blocks and loops."""
    body = bytearray()
    depth = 0
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 9))
        number = sleb(draw(st.integers(-(1 << 31), (1 << 31) - 1)))
        if kind <= 1:
            body += b"\x41" + number + b"\x1a"  # i32.const, drop
        elif kind == 2:
            body += b"\x41" + number + b"\x28\x02" + draw(SIZES.map(uleb)) + b"\x1a"  # i32.load, drop
        elif kind == 3:
            body += b"\x41" + number + b"\x41\x00\x36\x02\x00"  # i32.store
        elif kind == 4:
            body += b"\x41" + number + b"\x40\x00\x1a"  # memory.grow, drop
        elif kind == 5:
            body += draw(st.sampled_from([b"\x02\x40", b"\x03\x40"]))  # block, loop
            depth += 1
        elif kind == 6 and depth:
            body += b"\x41" + number + b"\x0d" + uleb(draw(st.integers(0, depth)))  # br_if
        elif kind == 7 and depth:
            body += b"\x0b"
            depth -= 1
        elif kind == 8:
            body += b"\x10" + draw(index(functions))  # call
        else:
            body += draw(st.binary(max_size=2))
    body += b"\x0b" * (depth + 1)
    locals_ = draw(st.one_of(st.just(b"\0"), SIZES.map(lambda count: b"\x01" + uleb(count) + bytes([I32]))))
    code = locals_ + bytes(body)
    return uleb(len(code)) + code


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """Return a core module."""
    types = draw(a_few(st.tuples(a_few(VALUE_TYPES, 3), a_few(VALUE_TYPES, 1)).map(_function_type)))
    imported = draw(COUNTS)
    defined = draw(COUNTS)
    functions = imported + defined
    imports = [
        draw(NAMES.map(name)) + draw(NAMES.map(name)) + b"\0" + draw(index(types[0])) for _ in range(imported)
    ]
    export = st.tuples(
        NAMES.map(name), st.integers(0, 3).map(lambda kind: bytes([kind])), index(functions)
    ).map(b"".join)
    constant = st.integers(-(1 << 31), (1 << 31) - 1).map(lambda number: b"\x41" + sleb(number) + b"\x0b")
    data = st.tuples(st.just(b"\0"), constant, st.binary(max_size=20).map(name)).map(b"".join)
    sections = [
        (1, types),
        (2, vector(imports)),
        (3, vector([draw(index(types[0])) for _ in range(defined)])),
        (4, draw(a_few(LIMITS.map(lambda limits: bytes([FUNCREF]) + limits), 1))),
        (5, draw(a_few(LIMITS, 2))),
        (6, draw(a_few(constant.map(lambda initial: bytes([I32, 1]) + initial)))),
        (7, draw(a_few(export))),
        (8, draw(index(functions))),
        (9, draw(a_few(st.tuples(st.just(b"\0"), constant, a_few(index(functions))).map(b"".join), 1))),
        (10, vector([draw(function_body(functions)) for _ in range(defined)])),
        (11, draw(a_few(data))),
        (0, draw(NAMES.map(name)) + draw(st.binary(max_size=8))),
    ]
    stored = [
        each for each in sections if each[1] != b"\0" and (each[0] != 8 or draw(st.integers(0, 9)) == 0)
    ]
    return MODULE_HEADER + b"".join(section(kind, body) for kind, body in stored)


def _function_type(both: tuple[bytes, bytes]) -> bytes:
    return b"\x60" + both[0] + both[1]


SORTS = st.sampled_from(
    [b"\x00\x00", b"\x00\x02", b"\x00\x11", b"\x00\x12", b"\x01", b"\x03", b"\x04", b"\x05"]
)
EXTERN_NAMES = NAMES.map(lambda text: b"\x00" + name(text))


@st.composite
def components(draw: st.DrawFn, depth: int = 1) -> bytes:
    """Return a component: modules, instances of them, aliases, types, lifted functions, nested components."""
    counts = dict.fromkeys(("module", "core-instance", "component", "instance", "type", "func"), 0)

    def reference(space: str) -> bytes:
        return draw(index(counts[space]))

    def core_instance() -> bytes:
        if draw(st.booleans()):
            argument = lambda: draw(NAMES.map(name)) + b"\x12" + reference("core-instance")  # noqa: E731
            return b"\x00" + reference("module") + vector([argument() for _ in range(draw(COUNTS))])
        exports = [
            draw(NAMES.map(name)) + draw(st.sampled_from([b"\0\0", b"\2\0"])) for _ in range(draw(COUNTS))
        ]
        return b"\x01" + vector(exports)

    def instance() -> bytes:
        items = [draw(NAMES.map(name)) + draw(SORTS) + draw(COUNTS.map(uleb)) for _ in range(draw(COUNTS))]
        return b"\x00" + reference("component") + vector(items)

    def alias() -> bytes:
        kind = draw(st.sampled_from([b"\x00", b"\x01", b"\x02"]))
        target = reference("core-instance") + draw(NAMES.map(name)) if kind != b"\x02" else b"\x00\x00"
        return draw(SORTS) + kind + target

    def type_() -> bytes:
        return draw(
            st.sampled_from(
                [b"\x40\x00\x01\x00", b"\x40\x00\x00\x79", b"\x70\x7d", b"\x6f\x02\x79\x79", b"\x42\x00"]
            )
        )

    def canonical() -> bytes:
        options = draw(a_few(st.sampled_from([b"\x00", b"\x03\x00", b"\x04\x00", b"\x05\x00"])))
        lifted = b"\x00\x00" + draw(COUNTS.map(uleb)) + options + reference("type")
        lowered = b"\x01\x00" + reference("func") + options
        return draw(st.sampled_from([lifted, lowered, b"\x03" + reference("type")]))

    def imported() -> bytes:
        return draw(EXTERN_NAMES) + draw(st.sampled_from([b"\x05", b"\x01", b"\x03\x00"])) + reference("type")

    def exported() -> bytes:
        return draw(EXTERN_NAMES) + draw(SORTS) + draw(COUNTS.map(uleb)) + b"\x00"

    items: dict[str, tuple[int, Callable[[], bytes]]] = {
        "core-instance": (2, core_instance),
        "instance": (5, instance),
        "alias": (6, alias),
        "type": (7, type_),
        "func": (8, canonical),
        "import": (10, imported),
        "export": (11, exported),
    }
    out = bytearray(COMPONENT_HEADER)
    for _ in range(draw(st.integers(1, 10))):
        space = draw(st.sampled_from(["module", *items, *(["component"] if depth else [])]))
        if space == "module":
            out += section(1, draw(modules()))
        elif space == "component":
            out += section(4, draw(components(depth=depth - 1)))
        else:
            number, item = items[space]
            out += section(number, vector([item() for _ in range(draw(st.integers(1, 2)))]))
        if space in counts:
            counts[space] += 1
    return bytes(out)


@st.composite
def mutations(draw: st.DrawFn, source: bytes, header: int = len(COMPONENT_HEADER)) -> bytes:
    """Return a binary with a few of its parts replaced, removed, repeated or moved."""
    data = bytearray(source)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(header, len(data)))
        until = min(len(data), at + draw(st.integers(0, 8)))
        piece = bytes(data[at:until])
        elsewhere = draw(st.integers(header, len(data)))
        data[at:until] = draw(
            st.one_of(
                st.binary(max_size=8),
                SIZES.map(uleb),
                st.just(piece * 2),
                st.just(bytes(data[elsewhere : elsewhere + 16])),
            )
        )
    return bytes(data)
