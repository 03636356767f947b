"""Guests with a known cost: text components that compute, wait and grow."""

from wasmtime import wat2wasm

PAGE = 65536


def burner(rounds: int, *, bursts: int = 1, wait_ns: int = 0, pages: tuple[int, int] = (1, 1)) -> bytes:
    """Return a component that accepts requests and never responds.

    It computes `bursts` times `rounds` rounds (of some instructions each), and waits `wait_ns` nanoseconds
    after each burst. It has two memories, which it grows to `pages`.
    """
    return bytes(
        wat2wasm(
            f"""(component
            (import "wasi:http/types@0.2.4" (instance $types
              (export "incoming-request" (type (sub resource)))
              (export "response-outparam" (type (sub resource)))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $outparam))
            (import "wasi:io/poll@0.2.4" (instance $poll
              (export "pollable" (type $pollable (sub resource)))
              (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
            (alias export $poll "pollable" (type $pollable))
            (import "wasi:clocks/monotonic-clock@0.2.4" (instance $clock
              (alias outer 1 $pollable (type $outer))
              (export "pollable" (type $pollable (eq $outer)))
              (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
            (core func $block (canon lower (func $poll "[method]pollable.block")))
            (core func $after (canon lower (func $clock "subscribe-duration")))
            (core func $drop (canon resource.drop $pollable))
            (core module $second (memory (export "memory") 1)
              (func (export "grow") (drop (memory.grow (i32.const {pages[1] - 1})))))
            (core instance $second (instantiate $second))
            (core module $first
              (import "host" "block" (func $block (param i32)))
              (import "host" "after" (func $after (param i64) (result i32)))
              (import "host" "drop" (func $drop (param i32)))
              (import "second" "grow" (func $grow))
              (memory (export "memory") 1)
              (global $sum (mut i64) (i64.const 1))
              (func $burn (local $left i64)
                (local.set $left (i64.const {rounds}))
                (loop $again
                  (global.set $sum (i64.add (i64.const 7) (i64.mul (global.get $sum) (i64.const 31))))
                  (local.set $left (i64.sub (local.get $left) (i64.const 1)))
                  (br_if $again (i64.ne (local.get $left) (i64.const 0)))))
              (func $wait (local $timer i32)
                (local.set $timer (call $after (i64.const {wait_ns})))
                (call $block (local.get $timer))
                (call $drop (local.get $timer)))
              (func (export "handle") (param i32 i32) (local $bursts i32)
                (drop (memory.grow (i32.const {pages[0] - 1})))
                (call $grow)
                (local.set $bursts (i32.const {bursts}))
                (loop $again
                  (call $burn)
                  (if (i64.ne (i64.const {wait_ns}) (i64.const 0)) (then (call $wait)))
                  (local.set $bursts (i32.sub (local.get $bursts) (i32.const 1)))
                  (br_if $again (local.get $bursts)))))
            (core instance $host
              (export "block" (func $block)) (export "after" (func $after)) (export "drop" (func $drop)))
            (core instance $core (instantiate $first
              (with "host" (instance $host)) (with "second" (instance $second))))
            (alias core export $core "memory" (core memory $memory))
            (alias core export $second "memory" (core memory $other))
            (func $handle (param "request" (own $request)) (param "response-out" (own $outparam))
              (canon lift (core func $core "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.4" (instance $handler)))"""
        )
    )
