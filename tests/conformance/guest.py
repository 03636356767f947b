"""Guests that are defined call by call in Python and run as components.

`Guest` records the calls. `text()` writes a core module that performs them in order, without branches, and
prints the memory of each result. `host.py` parses the printed lines.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.conformance.canonical import Place, Static, flat, flatten, layout
from tests.conformance.component_text import imports
from tests.conformance.wit import WASI, Function, Ref, Resource, functions, resolve

TYPES = "wasi:http/types"
PAGE = 65536
_PRINTED = 1900
"""Bytes of memory in a printed line."""
_RUNTIME = f"""
  (func $char (param $char i32)
    (i32.store8 (global.get $cursor) (local.get $char))
    (global.set $cursor (i32.add (global.get $cursor) (i32.const 1))))
  (func $digit (param $value i32)
    (call $char (i32.add (local.get $value)
      (select (i32.const 48) (i32.const 87) (i32.lt_u (local.get $value) (i32.const 10))))))
  (func $hex (param $from i32) (param $end i32)
    (loop $each
      (if (i32.lt_u (local.get $from) (local.get $end))
        (then
          (call $digit (i32.shr_u (i32.load8_u (local.get $from)) (i32.const 4)))
          (call $digit (i32.and (i32.load8_u (local.get $from)) (i32.const 15)))
          (local.set $from (i32.add (local.get $from) (i32.const 1)))
          (br $each)))))
  (func $line
    (call $char (i32.const 10))
    (call $write (global.get $stdout) (global.get $buffer)
      (i32.sub (global.get $cursor) (global.get $buffer)) (i32.const 0))
    (global.set $cursor (global.get $buffer)))
  (func $report (param $step i32) (param $area i32) (param $size i32)
    (local $from i32) (local $end i32)
    (i32.store (i32.const 16) (local.get $step))
    (call $char (i32.const 61)) ;; =
    (call $hex (i32.const 16) (i32.const 20))
    (call $hex (local.get $area) (i32.add (local.get $area) (local.get $size)))
    (call $line)
    (local.set $from (global.get $base))
    (loop $more
      (if (i32.lt_u (local.get $from) (global.get $heap))
        (then
          (local.set $end (i32.add (local.get $from) (i32.const {_PRINTED})))
          (if (i32.gt_u (local.get $end) (global.get $heap)) (then (local.set $end (global.get $heap))))
          (call $char (i32.const 43)) ;; +
          (call $hex (local.get $from) (local.get $end))
          (call $line)
          (local.set $from (local.get $end))
          (br $more))))
    (call $char (i32.const 46)) ;; .
    (call $line)
    (global.set $heap (global.get $base)))
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a guest; `place` is the location of its result."""

    number: int
    function: Function
    place: Place
    reported: bool = True

    def __getitem__(self, case: str) -> Place:
        return self.place[case]

    def handle(self) -> Place:
        return self.place.handle()


@dataclass(slots=True)
class Guest:
    """A guest under construction. `request` and `outparam` are the arguments of its handler."""

    static: Static = field(default_factory=lambda: Static(32))
    steps: dict[int, Step] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    used: dict[str, Function] = field(default_factory=dict)
    dropped: set[tuple[str, str]] = field(default_factory=set)
    request: Place = field(init=False)
    outparam: Place = field(init=False)

    def __post_init__(self) -> None:
        self.request = Place(self.static.reserve(4, 4), Ref(TYPES, "incoming-request"))
        self.outparam = Place(self.static.reserve(4, 4), Ref(TYPES, "response-outparam"))

    def call(self, name: str, *arguments: Any, report: bool = True) -> Step:
        """Call a function by its short name ("fields.get", "fields.constructor", "wall-clock/now").

        A handle is given as the step that returned it, within a result or option or not.
        """
        function = functions()[name]
        self.used[function.key] = function
        size, alignment = layout(function.result) if function.result else (0, 1)
        place = Place(self.static.reserve(size, alignment), function.result or Ref("", ""))
        step = Step(len(self.steps), function, place, report)
        self.steps[step.number] = step
        pairs = zip(function.parameters, arguments, strict=True)
        cores = [core for (_, kind), value in pairs for core in flatten(kind, value, self.static)]
        self.lines += self.static.code
        self.static.code.clear()
        results = flat(function.result) if function.result else []
        if len(results) > 1:
            cores.append(f"(i32.const {place.at})")
        call = f"(call {function.identifier} {' '.join(cores)})"
        if len(results) == 1:
            width = {1: "i32.store8", 2: "i32.store16", 4: "i32.store", 8: "i64.store"}[size]
            call = f"({width} (i32.const {place.at}) {call})"
        self.lines.append(call)
        if report:
            self.lines.append(
                f"(call $report (i32.const {step.number}) (i32.const {place.at}) (i32.const {size}))"
            )
        return step

    def drop(self, *owners: Step | Place) -> None:
        """Drop handles, in this order."""
        for owner in owners:
            place = owner.handle()
            kind = resolve(place.type)
            assert isinstance(kind, Resource)
            self.dropped.add((kind.interface, kind.name))
            self.lines.append(f"(call $drop:{kind.name} (i32.load (i32.const {place.at})))")

    def code(self, text: str) -> None:
        """Insert instructions in the text format; `$i` is a local of type i32."""
        self.lines.append(text)

    def body(self, status: int = 200, *fields: tuple[str, bytes]) -> tuple[Step, Step]:
        """Start a response; return the body, which is still open, and its stream."""
        headers = self.call("fields.from-list", list(fields), report=False)
        response = self.call("outgoing-response.constructor", headers, report=False)
        if status != 200:
            self.call("outgoing-response.set-status-code", response, status, report=False)
        body = self.call("outgoing-response.body", response, report=False)
        self.call("response-outparam.set", self.outparam, ("ok", response), report=False)
        return body, self.call("outgoing-body.write", body, report=False)

    def finish(self, body: Step, stream: Step | None = None) -> Step:
        """Drop the stream and finish the body."""
        if stream is not None:
            self.drop(stream)
        return self.call("outgoing-body.finish", body, None)

    def answer(self, content: bytes = b"", status: int = 200) -> None:
        """Send a complete response."""
        body, stream = self.body(status)
        if content:
            self.call("output-stream.blocking-write-and-flush", stream, content, report=False)
        self.finish(body, stream)

    def text(self, *, shim: bool = False) -> str:
        """Return the component; with a `shim` it calls the host through a table, as built components do."""
        stdout, write = functions()["get-stdout"], functions()["output-stream.blocking-write-and-flush"]
        used = self.used | {stdout.key: stdout, write.key: write}
        interfaces = [TYPES, *(interface for interface, _ in self.dropped)]
        buffer = self.static.reserve(2 * _PRINTED + 16)
        base = self.static.reserve(0)
        lowered = [
            f'(core func {f.identifier} (canon lower (func ${f.interface} "{f.name}")'
            " (memory $memory) (realloc $realloc)))"
            for f in used.values()
        ] + [
            f"(core func $drop:{name} (canon resource.drop ${interface}.{name}))"
            for interface, name in sorted(self.dropped)
        ]
        drops = [f"drop:{name}" for _, name in sorted(self.dropped)]
        imported = [
            f'(import "host" "{f.key}" (func {f.identifier} {core_signature(f)}))' for f in used.values()
        ] + [f'(import "host" "{drop}" (func ${drop} (param i32)))' for drop in drops]
        exports = " ".join(
            [
                f'(export "{f.key}" (func $shim "{f.key}"))'
                if shim
                else f'(export "{f.key}" (func {f.identifier}))'
                for f in used.values()
            ]
            + [f'(export "{drop}" (func ${drop}))' for drop in drops]
        )
        nl = "\n"
        return f"""(component $world
{imports(used.values(), interfaces)}
(core module $storage
  (memory (export "memory") {(base + (1 << 20)) // PAGE + 1})
  (global $heap (export "heap") (mut i32) (i32.const {base}))
  (func (export "realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (memory.copy (local.get $at) (local.get $old) (local.get $had))
    (local.get $at))
{nl.join(f'  (data (i32.const {at}) "{_escaped(content)}")' for at, content in self.static.data)})
(core instance $storage (instantiate $storage))
(alias core export $storage "memory" (core memory $memory))
(alias core export $storage "realloc" (core func $realloc))
{nl.join(lowered)}
(core module $guest
  (import "storage" "memory" (memory 1))
  (import "storage" "heap" (global $heap (mut i32)))
  {nl.join(imported)}
  (global $base i32 (i32.const {base}))
  (global $buffer i32 (i32.const {buffer}))
  (global $cursor (mut i32) (i32.const {buffer}))
  (global $stdout (mut i32) (i32.const 0))
  (func $write (param i32 i32 i32 i32)
    (call {write.identifier} (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
{_RUNTIME}
  (func (export "handle") (param $request i32) (param $outparam i32) (local $i i32)
    (global.set $stdout (call {stdout.identifier}))
    (i32.store (i32.const {self.request.at}) (local.get $request))
    (i32.store (i32.const {self.outparam.at}) (local.get $outparam))
{nl.join("    " + line for line in self.lines)}))
{_shim([(f.key, f.identifier, core_signature(f)) for f in used.values()]) if shim else ""}
(core instance $guest (instantiate $guest
  (with "storage" (instance $storage)) (with "host" (instance {exports}))))
(func $handle
  (param "request" (own ${TYPES}.incoming-request)) (param "response-out" (own ${TYPES}.response-outparam))
  (canon lift (core func $guest "handle")))
(instance $handler (export "handle" (func $handle)))
(export "wasi:http/incoming-handler@{WASI}" (instance $handler)))"""


def core_signature(function: Function) -> str:
    """Return the type of the core function, in the text format."""
    parameters = [core for _, kind in function.parameters for core in flat(kind)]
    results = flat(function.result) if function.result else []
    assert len(parameters) <= 16, function
    if len(results) > 1:
        parameters, results = [*parameters, "i32"], []
    return f"(param {' '.join(parameters)}) (result {' '.join(results)})"


def _shim(functions: list[tuple[str, str, str]]) -> str:
    """Return a module of functions that call through a table, and one that fills the table.

    `functions` are keys, identifiers of core functions, and signatures.
    """
    count = len(functions)
    calls, imported, results = [], [], []
    for slot, (key, identifier, signature) in enumerate(functions):
        parameters = signature.partition(")")[0].split()[1:]
        gets = " ".join(f"(local.get {n})" for n in range(len(parameters)))
        calls.append(
            f'(func (export "{key}") {signature} (call_indirect {signature} {gets} (i32.const {slot})))'
        )
        imported.append(f'(import "" "{slot}" (func $f{slot} {signature}))')
        results.append(f'(export "{slot}" (func {identifier}))')
    nl = "\n  "
    return f"""(core module $shim
  (table (export "table") {count} {count} funcref)
  {nl.join(calls)})
(core instance $shim (instantiate $shim))
(core module $fixup
  (import "" "table" (table {count} funcref))
  {nl.join(imported)}
  (elem (i32.const 0) func {" ".join(f"$f{slot}" for slot in range(count))}))
(core instance (instantiate $fixup (with "" (instance
  (export "table" (table $shim "table"))
  {nl.join(results)}))))"""


def _escaped(content: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in content)
