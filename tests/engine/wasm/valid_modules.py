"""Valid core modules from a seed: every section, typed expressions of all value types, structured control.

As wasm-smith does, the generator tracks types, index spaces and labels, so that the compilers see all of it.
"""

import random
import struct

from engine.wasm_binary import MODULE_HEADER, name, section, sleb, uleb, vector

I32, I64, F32, F64, V128, FUNCREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70
EMPTY = 0x40
END, ELSE, DROP = b"\x0b", b"\x05", b"\x1a"
_TYPES = (I32, I32, I64, F32, F64, V128)
_NUMBERS = {I32: (0, 1, -1, 1 << 31, 255), I64: (0, 1, -1, 1 << 63, 1 << 32)}
_MAX_DEPTH = 4

Operators = list[tuple[bytes, tuple[int, ...]]]


def _each(first: int, last: int, *operands: int) -> Operators:
    return [(bytes([code]), operands) for code in range(first, last + 1)]


def _extended(prefix: int, codes: dict[int, tuple[int, ...]]) -> Operators:
    return [(bytes([prefix]) + uleb(code), operands) for code, operands in codes.items()]


_OPERATORS: dict[int, Operators] = {
    I32: _each(0x45, 0x45, I32)
    + _each(0x46, 0x4F, I32, I32)
    + _each(0x50, 0x50, I64)
    + _each(0x51, 0x5A, I64, I64)
    + _each(0x5B, 0x60, F32, F32)
    + _each(0x61, 0x66, F64, F64)
    + _each(0x67, 0x69, I32)
    + _each(0x6A, 0x78, I32, I32)
    + _each(0xA7, 0xA7, I64)
    + _each(0xA8, 0xA9, F32)
    + _each(0xAA, 0xAB, F64)
    + _each(0xBC, 0xBC, F32)
    + _each(0xC0, 0xC1, I32)
    + _extended(0xFC, {0: (F32,), 1: (F32,), 2: (F64,), 3: (F64,)})
    + _extended(0xFD, {83: (V128,), 99: (V128,)})  # v128.any_true, i8x16.all_true
    + [(b"\x3f\x00", ()), (b"\x40\x00", (I32,)), (b"\xfc\x10\x00", ()), (b"\xd0\x70\xd1", ())],
    I64: _each(0x79, 0x7B, I64)
    + _each(0x7C, 0x8A, I64, I64)
    + _each(0xAC, 0xAD, I32)
    + _each(0xAE, 0xAF, F32)
    + _each(0xB0, 0xB1, F64)
    + _each(0xBD, 0xBD, F64)
    + _each(0xC2, 0xC4, I64)
    + _extended(0xFC, {4: (F32,), 5: (F32,), 6: (F64,), 7: (F64,)}),
    F32: _each(0x8B, 0x91, F32)
    + _each(0x92, 0x98, F32, F32)
    + _each(0xB2, 0xB3, I32)
    + _each(0xB4, 0xB5, I64)
    + _each(0xB6, 0xB6, F64)
    + _each(0xBE, 0xBE, I32),
    F64: _each(0x99, 0x9F, F64)
    + _each(0xA0, 0xA6, F64, F64)
    + _each(0xB7, 0xB8, I32)
    + _each(0xB9, 0xBA, I64)
    + _each(0xBB, 0xBB, F32)
    + _each(0xBF, 0xBF, I64),
    V128: _extended(
        0xFD,
        {15: (I32,), 16: (I32,), 17: (I32,), 18: (I64,), 19: (F32,), 20: (F64,)}  # splat
        | dict.fromkeys((77, 96, 128, 160, 192, 224), (V128,))  # not, abs, neg
        | dict.fromkeys((14, 78, 80, 81, 110, 142, 174, 206, 213, 228, 230, 240, 242), (V128, V128))
        | {82: (V128, V128, V128)},  # bitselect
    ),
}
_LOADS = {I32: (0x28, 0x2C, 0x2D, 0x2E, 0x2F), I64: (0x29, *range(0x30, 0x36)), F32: (0x2A,), F64: (0x2B,)}
_STORES = {I32: (0x36, 0x3A, 0x3B), I64: (0x37, 0x3C, 0x3D, 0x3E), F32: (0x38,), F64: (0x39,)}


def valid_module(seed: int) -> bytes:
    """Return a module without imports, which depends on the seed only."""
    return _Module(random.Random(seed)).binary()


class _Module:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        some = chance.randrange
        self.types = [
            (tuple(chance.choice(_TYPES) for _ in range(some(4))), tuple(chance.choices(_TYPES, k=some(2))))
            for _ in range(1 + some(5))
        ] + [((), ())]
        self.functions = [some(len(self.types)) for _ in range(1 + some(6))] + [len(self.types) - 1]
        self.globals = [(chance.choice(_TYPES), some(2)) for _ in range(some(4))]
        self.pages = 1 + some(3)

    def binary(self) -> bytes:
        """Encode the module."""
        chance = self.chance
        functions = range(len(self.functions))
        exports = [(f"f{index}", 0, index) for index in functions]
        exports += [("memory", 2, 0), ("table", 1, 0)] + [(f"g{i}", 3, i) for i in range(len(self.globals))]
        offset = b"\x41" + sleb(chance.randrange(60_000)) + END
        elements = vector([uleb(index) for index in functions])
        data = chance.randbytes(chance.randrange(300))
        globals_ = [bytes([kind, mutable]) + self.constant(kind) + END for kind, mutable in self.globals]
        sections = [
            (1, vector([b"\x60" + bytes_of(params) + bytes_of(results) for params, results in self.types])),
            (3, vector([uleb(index) for index in self.functions])),
            (4, vector([bytes([FUNCREF, 0]) + uleb(len(self.functions) + 2)])),
            (5, vector([b"\x01" + uleb(self.pages) + uleb(self.pages + chance.randrange(9))])),
            (6, vector(globals_)),
            (7, vector([name(text.encode()) + bytes([kind]) + uleb(index) for text, kind, index in exports])),
            (9, vector([b"\x00\x41\x01\x0b" + elements])),
            (12, uleb(2)),
            (10, vector([_Body(self, *self.types[index]).code() for index in self.functions])),
            (11, vector([b"\x00" + offset + name(data), b"\x01" + name(data)])),
        ]
        if chance.random() < 0.2:
            sections.insert(6, (8, uleb(len(self.functions) - 1)))  # start
        return MODULE_HEADER + b"".join(section(kind, content) for kind, content in sections)

    def constant(self, kind: int) -> bytes:
        """Return a constant of a type."""
        chance = self.chance
        if kind in _NUMBERS:
            bits = 32 if kind == I32 else 64
            number = chance.choice((*_NUMBERS[kind], chance.getrandbits(bits)))
            number -= (number >> (bits - 1)) << bits if number > 0 else 0
            return bytes([0x41 if kind == I32 else 0x42]) + sleb(number)
        if kind == V128:
            return b"\xfd\x0c" + chance.randbytes(16)
        number = chance.choice((0.0, -0.0, 1.5, float("inf"), float("nan"), chance.uniform(-1e9, 1e9)))
        return b"\x43" + struct.pack("<f", number) if kind == F32 else b"\x44" + struct.pack("<d", number)


def bytes_of(types: tuple[int, ...]) -> bytes:
    """Return a vector of value types."""
    return vector([bytes([kind]) for kind in types])


class _Body:
    """The body of a function. `labels` are the enclosing blocks, true for those that a branch may target."""

    def __init__(self, module: _Module, params: tuple[int, ...], results: tuple[int, ...]) -> None:
        self.module = module
        self.chance = module.chance
        self.results = results
        extra = self.chance.choices(_TYPES, k=self.chance.randrange(5))
        self.declared = vector([b"\x01" + bytes([kind]) for kind in extra])
        self.locals = [*params, *extra]
        self.labels = [not results]

    def code(self) -> bytes:
        """Return the entry of the code section."""
        body = self.declared + self.statements(0) + self.returned(0) + END
        return uleb(len(body)) + body

    def returned(self, depth: int) -> bytes:
        """Return the results of the function."""
        return b"".join(self.expression(kind, depth) for kind in self.results)

    def statements(self, depth: int) -> bytes:
        """Return code that leaves the stack as it was."""
        return b"".join(self.statement(depth) for _ in range(self.chance.randrange(8 - 2 * min(depth, 3))))

    def statement(self, depth: int) -> bytes:
        chance = self.chance
        kind = chance.choice(_TYPES)
        match chance.randrange(12 if depth < _MAX_DEPTH else 7):
            case 0:
                return self.expression(kind, depth) + DROP
            case 1 if self.locals:
                index = chance.randrange(len(self.locals))
                return self.expression(self.locals[index], depth) + b"\x21" + uleb(index)
            case 2 if mutable := [i for i, (_, can) in enumerate(self.module.globals) if can]:
                index = chance.choice(mutable)
                return self.expression(self.module.globals[index][0], depth) + b"\x24" + uleb(index)
            case 3:
                return self.address(depth) + self.store(kind, depth)
            case 4:
                arguments = b"".join(self.expression(I32, depth) for _ in range(3))
                return arguments + chance.choice([b"\xfc\x0a\x00\x00", b"\xfc\x0b\x00", b"\xfc\x08\x01\x00"])
            case 5 if targets := [i for i, can in enumerate(reversed(self.labels)) if can]:
                listed = vector([uleb(chance.choice(targets)) for _ in range(chance.randrange(4))])
                target = uleb(chance.choice(targets))
                branch = chance.choice([b"\x0d" + target, b"\x0e" + listed + target])
                return self.expression(I32, depth) + branch
            case 6 if chance.random() < 0.3:
                return self.returned(depth) + b"\x0f" if chance.random() < 0.8 else b"\x00"
            case 7 | 8:
                return chance.choice([b"\x02", b"\x03"]) + self.block(depth) + END
            case 9:
                condition = self.expression(I32, depth) + b"\x04"
                return condition + self.block(depth) + ELSE + self.block(depth)[1:] + END
            case 10 | 11:
                return self.call(depth)
        return b"\x01"  # nop

    def block(self, depth: int) -> bytes:
        """Return the type of a block without a result, and its statements."""
        self.labels.append(True)
        code = bytes([EMPTY]) + self.statements(depth + 1)
        self.labels.pop()
        return code

    def call(self, depth: int) -> bytes:
        """Return a call of a function or of a table's element, without its results."""
        chance, types = self.chance, self.module.types
        index = chance.randrange(len(self.module.functions))
        type_index = self.module.functions[index]
        params, results = types[type_index]
        code = b"".join(self.expression(kind, depth + 1) for kind in params)
        if chance.random() < 0.5:
            code += b"\x10" + uleb(index)
        else:
            code += self.expression(I32, depth + 1) + b"\x11" + uleb(type_index) + b"\x00"
        return code + DROP * len(results)

    def address(self, depth: int) -> bytes:
        """Return an address that is often in the memory."""
        if self.chance.random() < 0.5:
            return b"\x41" + sleb(self.chance.randrange(60_000))
        return self.expression(I32, depth)

    def store(self, kind: int, depth: int) -> bytes:
        offset = b"\x00" + uleb(self.chance.choice((0, 1, 8, 65_535, (1 << 32) - 1)))
        value = self.expression(kind, depth)
        code = b"\xfd\x0b" if kind == V128 else bytes([self.chance.choice(_STORES[kind])])
        return value + code + offset

    def expression(self, kind: int, depth: int) -> bytes:
        """Return code that pushes a value."""
        chance = self.chance
        if depth >= _MAX_DEPTH or chance.random() < 0.25:
            held = [index for index, each in enumerate(self.locals) if each == kind]
            stored = [index for index, (each, _) in enumerate(self.module.globals) if each == kind]
            if held and chance.random() < 0.6:
                return b"\x20" + uleb(chance.choice(held))
            return b"\x23" + uleb(chance.choice(stored)) if stored else self.module.constant(kind)
        push = lambda other: self.expression(other, depth + 1)  # noqa: E731
        match chance.randrange(10):
            case 0:
                offset = b"\x00" + uleb(chance.choice((0, 4, 65_536)))
                load = b"\xfd\x00" if kind == V128 else bytes([chance.choice(_LOADS[kind])])
                return self.address(depth + 1) + load + offset
            case 1:
                return push(kind) + push(kind) + push(I32) + b"\x1b"  # select
            case 2:
                condition = push(I32)
                self.labels.append(False)
                code = condition + b"\x04" + bytes([kind]) + push(kind) + ELSE + push(kind) + END
                self.labels.pop()
                return code
            case 3:
                self.labels.append(False)
                code = b"\x02" + bytes([kind]) + push(kind) + push(I32) + b"\x0d\x00" + END  # block, br_if
                self.labels.pop()
                return code
            case 4 if held := [index for index, each in enumerate(self.locals) if each == kind]:
                return push(kind) + b"\x22" + uleb(chance.choice(held))  # local.tee
        code, operands = chance.choice(_OPERATORS[kind])
        return b"".join(push(each) for each in operands) + code
