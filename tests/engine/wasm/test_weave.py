"""Weaving of the WASI library into components: shapes that fit, and shapes that are refused."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from wasmtime import Engine, WasmtimeError, wat2wasm
from wasmtime.component import Component

from engine.wasm.binary.reader import PAGE_BYTES, CoreModule, read_outline
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import compile_config
from engine.wasm.weave.builder import HOST_INTERFACE, RUN
from engine.wasm.weave.weaver import library, weave
from engine.wasm_binary import UnsupportedBinary
from tests.conformance.guest import TYPES, Guest
from tests.conformance.host import Host
from tests.conformance.wit import WASI
from tests.engine.wasm.echo_guest import echo_component
from tests.lanes import components

MEMORY = "(memory $memory)"
OPTIONS = f"{MEMORY} (realloc $realloc)"
ENVIRONMENT = f'(canon lower (func $wasi:cli/environment "get-environment") {OPTIONS})'
START = '(func (export "handle")'


@dataclass(slots=True)
class Reshaped(Guest):
    """A guest whose text has `changes`: old and new parts."""

    changes: list[tuple[str, str]] = field(default_factory=list)

    def replace(self, old: str, new: str) -> None:
        self.changes.append((old, new))

    def text(self, *, shim: bool = False) -> str:
        text = Guest.text(self, shim=shim)
        for old, new in self.changes:
            assert old in text
            text = text.replace(old, new, 1)
        return text

    def binary(self) -> bytes:
        return bytes(wat2wasm(self.text()))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("weave"))
    yield host
    host.close()


def greeting() -> Reshaped:
    """A guest that gets its environment, and says hello."""
    guest = Reshaped()
    guest.call("get-environment", report=False)
    guest.answer(b"hello")
    return guest


def modules(component: bytes) -> Counter[bytes]:
    """Return the core modules of a component that are instantiated."""
    outline = read_outline(component)
    found = {each for each in outline.spaces["core-module"] if isinstance(each, CoreModule)}
    return Counter(component[each.start : each.end] for each in found)


@pytest.mark.parametrize("shim", [False, True], ids=["direct", "shim"])
def test_core_modules_of_the_guest_are_unchanged(shim: bool) -> None:
    component = bytes(wat2wasm(greeting().text(shim=shim)))
    woven = weave(component)
    assert modules(component) <= modules(woven)
    assert library().binary in modules(woven)
    outline = read_outline(woven)
    assert (outline.imports, list(outline.exports)) == ([HOST_INTERFACE], [RUN])


def test_interface_of_the_host_itself_stays_an_import() -> None:
    guest = greeting()
    guest.call("source", report=False)
    woven = weave(guest.binary())
    assert read_outline(woven).imports == [HOST_INTERFACE, "svc:dev/script@0.1.0"]


def test_weaving_is_deterministic() -> None:
    component = echo_component()
    assert weave(component) == weave(component)


@pytest.mark.parametrize("shim", [False, True], ids=["direct", "shim"])
def test_guest_that_calls_directly_or_through_a_table_answers(host: Host, shim: bool) -> None:
    host.shim = shim
    try:
        answer = host.run(greeting())
    finally:
        host.shim = False
    assert (answer.detail, answer.body, answer.ended) == ("", b"hello", True)


def test_each_function_allocates_with_its_own_realloc(host: Host) -> None:
    """The environment comes into an area of its own, everything else to the other `realloc`."""
    guest = Reshaped()
    for name, arguments, comparison in (
        ("get-environment", (), "i32.ne"),
        ("get-random-bytes", (8,), "i32.ge_u"),
    ):
        place = guest.call(name, *arguments, report=False).place.at
        wrong = f"({comparison} (i32.load (i32.const {place})) (i32.const 0xc000))"
        guest.code(f"(if {wrong} (then unreachable))")
    guest.answer(b"hello")
    guest.replace(ENVIRONMENT, ENVIRONMENT.replace("$realloc", "$other"))
    guest.replace(
        "(core module $storage",
        """(core module $storage
  (global $place (mut i32) (i32.const 0xc000))
  (func (export "other") (param i32 i32 i32 i32) (result i32)
    (global.get $place)
    (global.set $place (i32.add (global.get $place) (local.get 3))))""",
    )
    aliased = '(alias core export $storage "realloc" (core func $realloc))'
    guest.replace(aliased, f'{aliased}\n(alias core export $storage "other" (core func $other))')
    answer = host.run(guest, env={"A": "b"})
    assert (answer.detail, answer.body) == ("", b"hello")


def test_aliases_of_one_realloc_need_no_thunks(host: Host) -> None:
    guest = greeting()
    guest.replace(ENVIRONMENT, ENVIRONMENT.replace("$realloc", "$again"))
    aliased = '(alias core export $storage "realloc" (core func $realloc))'
    guest.replace(aliased, f'{aliased}\n(alias core export $storage "realloc" (core func $again))')
    assert len(modules(weave(guest.binary()))) == len(modules(weave(greeting().binary())))
    assert host.run(guest).body == b"hello"


def test_later_module_may_call_wasi_when_it_starts(host: Host) -> None:
    """wit-component adds such a module for `_initialize`."""
    guest = greeting()
    environment = guest.static.reserve(8, 4)
    wrong = f"(i32.ne (i32.load offset=4 (i32.const {environment})) (i32.const 4))"
    guest.code(f"(if {wrong} (then unreachable))")
    call = f"(call $wasi:cli/environment#get-environment (i32.const {environment}))"
    guest.replace(START, f'(func (export "_initialize") {call})\n  {START}')
    start = """(core module $start (import "" "f" (func $f)) (start $f))
(core instance (instantiate $start (with "" (instance (export "f" (func $guest "_initialize"))))))
(func $handle
"""
    guest.replace("(func $handle\n", start)
    answer = host.run(guest, env={"A": "b"})
    assert (answer.detail, answer.body) == ("", b"hello")


def test_module_may_call_wasi_before_the_memory_exists(host: Host) -> None:
    guest = greeting()
    guest.call("monotonic-clock/now", report=False)
    now = '(core func $wasi:clocks/monotonic-clock#now (canon lower (func $wasi:clocks/monotonic-clock "now")'
    first = """(core module $first (import "host" "now" (func $now (result i64)))
  (start $start) (func $start (if (i64.eqz (call $now)) (then unreachable))))
(core func $early (canon lower (func $wasi:clocks/monotonic-clock "now")))
(core instance (instantiate $first (with "host" (instance (export "now" (func $early))))))"""
    guest.replace("(core module $storage", f"{first}\n(core module $storage")
    assert now in guest.text()
    answer = host.run(guest)
    assert (answer.detail, answer.body) == ("", b"hello")


BARE = f"""(component
  (import "{TYPES}@{WASI}" (instance $types
    (export "incoming-request" (type (sub resource))) (export "response-outparam" (type (sub resource)))))
  (alias export $types "incoming-request" (type $request))
  (alias export $types "response-outparam" (type $out))
  (core module $m (func (export "handle") (param i32 i32)))
  (core instance $i (instantiate $m))
  (func $handle (param "request" (own $request)) (param "response-out" (own $out))
    (canon lift (core func $i "handle")))
  (instance $handler (export "handle" (func $handle)))
  (export "wasi:http/incoming-handler@{WASI}" (instance $handler)))"""
"""A component without a memory and without imported functions."""


def refused(component: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedBinary, match=reason):
        weave(component)


def test_guest_without_memory_runs(host: Host) -> None:
    class Bare(Reshaped):
        def text(self, *, shim: bool = False) -> str:
            return BARE

    answer = host.run(Bare())
    assert answer.report.outcome == "guest-failed"
    assert answer.report.peak_memory is not None and answer.report.peak_memory <= 64 * PAGE_BYTES


MEMORIES = {
    "exported twice": """(core module $a (memory (export "m") (export "n") 7))
        (core instance $a (instantiate $a))
        (alias core export $a "m" (core memory $first)) (alias core export $a "n" (core memory $second))""",
    "exported, without an alias": '(core module $a (memory (export "m") 7)) (core instance (instantiate $a))',
    "not exported": "(core module $a (memory 7)) (core instance (instantiate $a))",
    "not exported, with a section after exports": """(core module $a (memory 1) (start 0)
        (func (drop (memory.grow (i32.const 6))))) (core instance (instantiate $a))""",
    "exports with the name of the added one": """(core module $a (memory 7) (func (export "memory"))
        (global (export "memory-") i32 (i32.const 0))) (core instance (instantiate $a))""",
    "of several instances": """(core module $a (memory 1)) (core module $b (memory (export "m") 5))
        (core instance (instantiate $a)) (core instance (instantiate $a)) (core instance (instantiate $b))""",
    "imported by others": """(core module $a (memory (export "m") 7)) (core instance $a (instantiate $a))
        (core module $b (import "a" "m" (memory 1)) (export "again" (memory 0)))
        (core instance $b (instantiate $b (with "a" (instance $a))))
        (core instance $c (instantiate $b (with "a" (instance $a))))
        (alias core export $b "again" (core memory $again))""",
    "with 64-bit addresses": "(core module $a (memory i64 7)) (core instance (instantiate $a))",
    "grown where nothing calls WASI": """(core module $a (memory 1)
        (func (export "f") (drop (memory.grow (i32.const 6))))) (core instance $a (instantiate $a))
        (core module $b (import "a" "f" (func $f)) (start $f))
        (core instance (instantiate $b (with "a" (instance $a))))""",
}


@pytest.mark.parametrize("added", MEMORIES.values(), ids=MEMORIES.keys())
def test_every_memory_of_the_guest_counts_once(host: Host, added: str) -> None:
    plain = host.run(greeting()).report.peak_memory
    guest = greeting()
    guest.replace("(core module $guest", f"{added}(core module $guest")
    answer = host.run(guest)
    assert answer.body == b"hello"
    assert plain is not None and answer.report.peak_memory == plain + 7 * PAGE_BYTES


@pytest.mark.parametrize("end", ["(unreachable)", "(call $wasi:cli/exit#exit-with-code (i32.const 0))"])
def test_guest_that_ends_early_is_charged_what_it_touched(host: Host, end: str) -> None:
    """A warm slot may have 16 MiB of an earlier run, which are not touched first."""
    pages = 400
    guest = Reshaped()
    guest.call("exit-with-code", 0, report=False)
    guest.answer(b"hello")
    guest.replace(
        "(call $wasi:cli/exit#exit-with-code (i32.const 0))",
        f"""(drop (memory.grow (i32.const {pages})))
        (memory.fill (i32.const 65536) (i32.const 1) (i32.const {(pages - 1) * PAGE_BYTES})) {end}""",
    )
    peak = host.run(guest).report.peak_memory
    assert peak is not None and peak > 8 << 20


@pytest.mark.parametrize("memory", ["(memory 1 2 shared)", "(memory 1 2 (pagesize 1))"])
def test_memory_that_cannot_be_counted_is_refused(memory: str) -> None:
    guest = greeting()
    added = f"(core module $a {memory}) (core instance (instantiate $a))"
    guest.replace("(core module $guest", f"{added}(core module $guest")
    refused(guest.binary(), "memory type")


@pytest.mark.parametrize(
    "code",
    [
        "(rec (type $s (struct (field i32)))) (func (drop (struct.new $s (i32.const 1))))",
        "(tag $t (param i64)) (func (throw $t (i64.const 1)))",
        "(func (drop (ref.i31 (i32.const 1))))",
    ],
    ids=["objects", "exceptions", "small integers"],
)
def test_heap_beside_the_memories_is_refused(code: str) -> None:
    with pytest.raises(WasmtimeError, match=r"gc|exceptions"):
        Component(
            Engine(compile_config(Compiler.OPTIMIZING)), bytes(wat2wasm(f"(component (core module {code}))"))
        )


def test_guest_that_names_no_memory_cannot_address_the_librarys(host: Host) -> None:
    """It is invalid, and the compiler process refuses it."""
    guest = Reshaped()
    guest.answer(b"hello")
    for option in (f" {OPTIONS}", f" {MEMORY}"):
        guest.changes += [(f"{option})", ")")] * Guest.text(guest).count(f"{option})")
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed" and answer.status is None
    assert "out of bounds" in answer.detail


def test_function_that_the_library_lacks_fails_the_call_with_its_name(host: Host) -> None:
    """It may be imported: the guest fails only when it calls the function."""
    name = "[method]tcp-socket.start-connect"
    guest = Reshaped()
    body, stream = guest.body()
    guest.code("(if (i32.load8_u (i32.const 31)) (then (call $missing (i32.const 1) (i32.const 2))))")
    guest.finish(body, stream)
    imported = f"""(component $world
(import "wasi:sockets/tcp@{WASI}" (instance $tcp
  (export "tcp-socket" (type $socket (sub resource)))
  (export "{name}" (func (param "self" (borrow $socket)) (param "n" u32)))))
(core func $missing (canon lower (func $tcp "{name}")))"""
    guest.replace("(component $world", imported)
    guest.replace(
        "(core module $guest", '(core module $guest\n  (import "host" "x" (func $missing (param i32 i32)))'
    )
    guest.replace('(with "host" (instance ', '(with "host" (instance (export "x" (func $missing)) ')
    answer = host.run(guest)
    assert (answer.detail, answer.ended) == ("", True)
    guest.replace("(i32.load8_u (i32.const 31))", "(i32.const 1)")
    answer = host.run(guest)
    assert answer.report.outcome == "guest-failed"
    assert answer.detail.endswith(f": wasi:sockets/tcp#{name} is not available")


def test_functions_of_the_host_are_unavailable_to_guests(host: Host) -> None:
    """A component that imports `svc:run/host` itself is refused by name; its imports would not be bound."""
    guest = Reshaped()
    guest.code("(call $posing (i32.const 0))")
    imported = f"""(component $world
(import "{HOST_INTERFACE}" (instance $posing (export "exit" (func (param "status" u32)))))
(core func $posing (canon lower (func $posing "exit")))"""
    guest.replace("(component $world", imported)
    guest.replace(
        "(core module $guest", '(core module $guest\n  (import "host" "x" (func $posing (param i32)))'
    )
    guest.replace('(with "host" (instance ', '(with "host" (instance (export "x" (func $posing)) ')
    answer = host.run(guest)
    assert answer.detail.endswith(f": {HOST_INTERFACE}#exit is not available")


def test_export_with_the_name_of_the_entry_point_has_no_effect(host: Host) -> None:
    guest = greeting()
    guest.replace(START, f'(func (export "pose") (result i32) unreachable)\n  {START}')
    handler = "(func $handle\n"
    guest.replace(handler, f'(func $pose (result u32) (canon lift (core func $guest "pose")))\n{handler}')
    exported = "(instance $handler (export"
    guest.replace(exported, f'(export "{RUN}" (func $pose))\n{exported}')
    assert host.run(guest).body == b"hello"


def test_handler_with_post_return_runs(host: Host) -> None:
    lift = '(canon lift (core func $guest "handle"))'
    start = f'(func (export "after") unreachable)\n  {START}'
    guest = greeting()
    guest.replace(START, start)
    guest.replace(lift, lift[:-1] + ' (post-return (core func $guest "after")))')
    assert host.run(guest).body == b"hello"


# -- shapes that are refused -----------------------------------------------------------------------------


def changed(old: str, new: str) -> bytes:
    """Return the greeting with another part."""
    guest = greeting()
    guest.replace(old, new)
    return guest.binary()


def test_other_string_encodings_are_refused() -> None:
    for encoding in ("utf16", "latin1+utf16"):
        component = changed(ENVIRONMENT, ENVIRONMENT.replace(MEMORY, f"{MEMORY} string-encoding={encoding}"))
        refused(component, "its strings are not UTF-8")


def test_function_of_another_type_is_refused() -> None:
    old = "$wasi:cli/environment#get-environment (param i32)"
    guest = greeting()
    assert old in guest.text()
    component = changed(old, old.replace("i32", "i64"))
    refused(component, "the type of wasi:cli/environment#get-environment is not that of WASI 0.2")


def test_functions_with_different_memories_are_refused() -> None:
    guest = greeting()
    second = """(core module $second (memory (export "memory") 1)
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0))
(core instance $second (instantiate $second))
(alias core export $second "memory" (core memory $other))
"""
    guest.replace("(core module $storage", f"{second}(core module $storage")
    guest.replace(ENVIRONMENT, ENVIRONMENT.replace("$memory", "$other"))
    refused(guest.binary(), "its imported functions use several memories")


def test_component_without_a_handler_is_refused() -> None:
    for exports in ([], ["wasi:cli/run@0.2.3"]):
        refused(components.component(exports=exports), "its handler is not a core function")


def test_handler_of_another_type_is_refused_by_the_compiler(host: Host) -> None:
    guest = greeting()
    guest.replace(START, '(func (export "handle2") (param i32))\n  ' + START)
    guest.replace('(core func $guest "handle")', '(core func $guest "handle2")')
    woven = weave(guest.binary())
    with pytest.raises(WasmtimeError, match="handle"):
        host.programs(woven)


def test_function_that_passes_through_a_nested_component_is_refused() -> None:
    nested = """(component $between
  (import "get" (func $get (result (list (tuple string string)))))
  (export "get" (func $get)))
(instance $between (instantiate $between (with "get" (func $wasi:cli/environment "get-environment"))))
(core module $storage"""
    guest = greeting()
    guest.replace("(core module $storage", nested)
    guest.replace('(func $wasi:cli/environment "get-environment") (memory', '(func $between "get") (memory')
    refused(guest.binary(), "core-func [0-9]+ is of an unsupported kind")


def test_handler_of_a_nested_component_is_refused() -> None:
    inner = BARE.replace("(component", "(component $inner", 1)
    inner = inner.replace(f'(export "wasi:http/incoming-handler@{WASI}"', '(export "handler"')
    text = f"""(component {inner} (instance $made (instantiate $inner))
      (alias export $made "handler" (instance $handler))
      (export "wasi:http/incoming-handler@{WASI}" (instance $handler)))"""
    refused(bytes(wat2wasm(text)), "it consists of several components: its handler is not a core function")


@pytest.mark.parametrize("data", [b"", b"\0asm\1\0\0\0", b"not wasm at all", echo_component()[:-3]])
def test_binary_that_is_no_component_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedBinary):
        weave(data)


def test_woven_component_is_not_woven_again() -> None:
    refused(weave(echo_component()), "its handler is not a core function")
