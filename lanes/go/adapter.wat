;; The adapter between a Go program for GOOS=wasip1 and WASI 0.2: three core modules of the component.
;; Source: the canonical ABI, and the witx of wasi_snapshot_preview1.

;; Memory for results of the host. Go's heap cannot provide it: the host requests memory during a call, when
;; a garbage collection would call the host. It is a ring buffer of the guest library: Go copies each result
;; before the ring returns to the same place. Separate pages are impossible: Go uses all memory after
;; its data for its heap, whichever call requested it.
(core module $allocator
  (import "main" "svc_arena" (func $arena (result i32)))
  (import "main" "memory" (memory 1))
  (global $size i32 (i32.const 0x80000)) ;; as in the library's memory_wasip1.go
  (global $first (mut i32) (i32.const 0))
  (global $next (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 0))
  (global $place (mut i32) (i32.const 0))
  (global $room (mut i32) (i32.const 0))

  ;; At the first use, because Go accepts calls only after its runtime has a stack.
  (func $begin
    (if (global.get $first) (then (return)))
    (global.set $first (call $arena))
    (global.set $next (global.get $first))
    (global.set $end (i32.add (global.get $first) (global.get $size))))

  ;; The address of the caller's buffer, which receives the next list of bytes that fits, without a copy.
  (func (export "into") (param $to i32) (param $size i32)
    (global.set $place (local.get $to))
    (global.set $room (local.get $size)))

  (func (export "realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (if (i32.and (i32.eq (local.get $align) (i32.const 1)) (i32.ne (global.get $room) (i32.const 0)))
      (then
        (if (i32.le_u (local.get $size) (global.get $room))
          (then
            (global.set $room (i32.const 0))
            (return (global.get $place))))))
    (call $begin)
    (local.set $at
      (i32.and
        (i32.sub (i32.add (global.get $next) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
    (if (i32.gt_u (local.get $size) (global.get $size)) (then unreachable))
    (if (i32.gt_u (i32.add (local.get $at) (local.get $size)) (global.get $end))
      (then (local.set $at (global.get $first))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (memory.copy (local.get $at) (local.get $old)
      (select (local.get $had) (local.get $size) (i32.lt_u (local.get $had) (local.get $size))))
    (local.get $at))
)

;; The supported functions of wasi_snapshot_preview1; `component.py` stubs the others. File
;; descriptors from 0x10000 on are pollables: the guest library passes them to Go's network poller, so that a
;; goroutine that waits for the host lets the others run.
(core module $preview1
  (import "main" "memory" (memory 1))
  (import "allocator" "realloc" (func $realloc (param i32 i32 i32 i32) (result i32)))
  (import "allocator" "into" (func $into (param i32 i32)))
  (import "wasi" "get-environment" (func $get-environment (param i32)))
  (import "wasi" "exit" (func $exit (param i32)))
  (import "wasi" "exit-with-code" (func $exit-with-code (param i32)))
  (import "wasi" "get-stdout" (func $get-stdout (result i32)))
  (import "wasi" "get-stderr" (func $get-stderr (result i32)))
  (import "wasi" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))
  (import "wasi" "wall-clock now" (func $wall-now (param i32)))
  (import "wasi" "now" (func $monotonic-now (result i64)))
  (import "wasi" "subscribe-duration" (func $subscribe-duration (param i64) (result i32)))
  (import "wasi" "subscribe-instant" (func $subscribe-instant (param i64) (result i32)))
  (import "wasi" "get-random-bytes" (func $get-random-bytes (param i64 i32)))
  (import "wasi" "[method]pollable.ready" (func $ready (param i32) (result i32)))
  (import "wasi" "[method]pollable.block" (func $block (param i32)))
  (import "wasi" "poll" (func $poll (param i32 i32 i32)))
  (import "wasi" "[resource-drop]pollable" (func $drop-pollable (param i32)))
  (global $stdout (mut i32) (i32.const -1))
  (global $stderr (mut i32) (i32.const -1))
  (global $variables (mut i32) (i32.const 0))
  (global $variable-count (mut i32) (i32.const 0))

  (func $scratch (param $size i32) (result i32)
    (call $realloc (i32.const 0) (i32.const 0) (i32.const 8) (local.get $size)))

  ;; One argument: the name of the program.
  (func (export "args_sizes_get") (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 1))
    (i32.store (local.get $size) (i32.const 4))
    (i32.const 0))
  (func (export "args_get") (param $argv i32) (param $text i32) (result i32)
    (i32.store (local.get $argv) (local.get $text))
    (i32.store (local.get $text) (i32.const 0x707061)) ;; "app"
    (i32.const 0))

  (func (export "environ_sizes_get") (param $count i32) (param $size i32) (result i32)
    (local $result i32) (local $at i32) (local $end i32) (local $total i32)
    (local.set $result (call $scratch (i32.const 8)))
    (call $get-environment (local.get $result))
    (global.set $variables (i32.load (local.get $result)))
    (global.set $variable-count (i32.load offset=4 (local.get $result)))
    (local.set $at (global.get $variables))
    (local.set $end (i32.add (local.get $at) (i32.shl (global.get $variable-count) (i32.const 4))))
    (loop $each
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then
          (local.set $total
            (i32.add (local.get $total)
              (i32.add (i32.const 2)
                (i32.add (i32.load offset=4 (local.get $at)) (i32.load offset=12 (local.get $at))))))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br $each))))
    (i32.store (local.get $count) (global.get $variable-count))
    (i32.store (local.get $size) (local.get $total))
    (i32.const 0))

  ;; Go calls this right after the sizes, so the list is still at its address.
  (func (export "environ_get") (param $environ i32) (param $text i32) (result i32)
    (local $at i32) (local $end i32)
    (local.set $at (global.get $variables))
    (local.set $end (i32.add (local.get $at) (i32.shl (global.get $variable-count) (i32.const 4))))
    (loop $each
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then
          (i32.store (local.get $environ) (local.get $text))
          (local.set $text (call $append (local.get $text) (local.get $at) (i32.const 61))) ;; =
          (local.set $text
            (call $append (local.get $text) (i32.add (local.get $at) (i32.const 8)) (i32.const 0)))
          (local.set $environ (i32.add (local.get $environ) (i32.const 4)))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br $each))))
    (i32.const 0))
  (func $append (param $to i32) (param $string i32) (param $ending i32) (result i32)
    (local $size i32)
    (local.set $size (i32.load offset=4 (local.get $string)))
    (memory.copy (local.get $to) (i32.load (local.get $string)) (local.get $size))
    (local.set $to (i32.add (local.get $to) (local.get $size)))
    (i32.store8 (local.get $to) (local.get $ending))
    (i32.add (local.get $to) (i32.const 1)))

  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $time i32) (result i32)
    (local $now i32)
    (if (local.get $clock)
      (then (i64.store (local.get $time) (call $monotonic-now)))
      (else
        (local.set $now (call $scratch (i32.const 16)))
        (call $wall-now (local.get $now))
        (i64.store (local.get $time)
          (i64.add
            (i64.mul (i64.load (local.get $now)) (i64.const 1_000_000_000))
            (i64.load32_u offset=8 (local.get $now))))))
    (i32.const 0))

  (func (export "random_get") (param $to i32) (param $size i32) (result i32)
    (local $result i32) (local $part i32)
    (local.set $result (call $scratch (i32.const 8)))
    (loop $more
      (local.set $part
        (select (local.get $size) (i32.const 65536) (i32.lt_u (local.get $size) (i32.const 65536))))
      (if (local.get $part)
        (then
          (call $into (local.get $to) (local.get $part))
          (call $get-random-bytes (i64.extend_i32_u (local.get $part)) (local.get $result))
          (local.set $to (i32.add (local.get $to) (local.get $part)))
          (local.set $size (i32.sub (local.get $size) (local.get $part)))
          (br $more))))
    (i32.const 0))

  (func (export "sched_yield") (result i32) (i32.const 0))

  (func (export "proc_exit") (param $status i32)
    (if (i32.gt_u (local.get $status) (i32.const 1))
      (then (call $exit-with-code (i32.and (local.get $status) (i32.const 255)))))
    (call $exit (local.get $status))
    unreachable)

  ;; Standard input is empty; the host logs stdout and stderr.
  (func (export "fd_read") (param $fd i32) (param $vectors i32) (param $count i32) (param $read i32)
    (result i32)
    (i32.store (local.get $read) (i32.const 0))
    (select (i32.const 8) (i32.const 0) (local.get $fd)))

  (func $stream (param $fd i32) (result i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then
        (if (i32.eq (global.get $stdout) (i32.const -1)) (then (global.set $stdout (call $get-stdout))))
        (return (global.get $stdout))))
    (if (i32.eq (global.get $stderr) (i32.const -1)) (then (global.set $stderr (call $get-stderr))))
    (global.get $stderr))

  (func (export "fd_write") (param $fd i32) (param $vectors i32) (param $count i32) (param $written i32)
    (result i32)
    (local $stream i32) (local $end i32) (local $total i32) (local $from i32) (local $left i32)
    (local $part i32) (local $result i32)
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (local.set $stream (call $stream (local.get $fd)))
    (local.set $result (call $scratch (i32.const 16)))
    (local.set $end (i32.add (local.get $vectors) (i32.shl (local.get $count) (i32.const 3))))
    (block $done
      (loop $each
        (br_if $done (i32.ge_u (local.get $vectors) (local.get $end)))
        (local.set $from (i32.load (local.get $vectors)))
        (local.set $left (i32.load offset=4 (local.get $vectors)))
        (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
        (loop $more
          (br_if $each (i32.eqz (local.get $left)))
          (local.set $part
            (select (local.get $left) (i32.const 4096) (i32.lt_u (local.get $left) (i32.const 4096))))
          (call $write (local.get $stream) (local.get $from) (local.get $part) (local.get $result))
          (br_if $done (i32.load8_u (local.get $result)))
          (local.set $from (i32.add (local.get $from) (local.get $part)))
          (local.set $left (i32.sub (local.get $left) (local.get $part)))
          (local.set $total (i32.add (local.get $total) (local.get $part)))
          (br $more))))
    (i32.store (local.get $written) (local.get $total))
    (i32.const 0))

  (func (export "fd_close") (param $fd i32) (result i32) (i32.const 0))
  (func (export "fd_prestat_get") (param $fd i32) (param $to i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param $fd i32) (param $flags i32) (result i32) (i32.const 0))
  (func (export "fd_fdstat_get") (param $fd i32) (param $to i32) (result i32)
    (memory.fill (local.get $to) (i32.const 0) (i32.const 24))
    (if (i32.ge_u (local.get $fd) (i32.const 0x10000))
      (then (i32.store16 offset=2 (local.get $to) (i32.const 4)))) ;; not blocking
    (i64.store offset=8 (local.get $to) (i64.const -1))
    (i64.store offset=16 (local.get $to) (i64.const -1))
    (i32.const 0))
  (func (export "fd_filestat_get") (param $fd i32) (param $to i32) (result i32)
    (memory.fill (local.get $to) (i32.const 0) (i32.const 64))
    (i32.const 0))

  ;; Subscriptions have 48 bytes: userdata, kind at 8, then at 16 a descriptor, or at 24 a time and at 40 a
  ;; flag for an absolute time. Events have 32: userdata, errno at 8, kind at 10.
  (func $event (param $to i32) (param $subscription i32)
    (memory.fill (local.get $to) (i32.const 0) (i32.const 32))
    (i64.store (local.get $to) (i64.load (local.get $subscription)))
    (i32.store8 offset=10 (local.get $to) (i32.load8_u offset=8 (local.get $subscription))))

  (func $pollable (param $subscription i32) (result i32)
    (if (i32.load8_u offset=8 (local.get $subscription))
      (then
        (return (i32.sub (i32.load offset=16 (local.get $subscription)) (i32.const 0x10000)))))
    (if (i32.and (i32.load16_u offset=40 (local.get $subscription)) (i32.const 1))
      (then (return (call $subscribe-instant (i64.load offset=24 (local.get $subscription))))))
    (call $subscribe-duration (i64.load offset=24 (local.get $subscription))))

  ;; True for a poll without waiting: the first subscription is a duration of 0.
  (func $only-a-look (param $in i32) (result i32)
    (i32.and
      (i32.eqz (i32.load8_u offset=8 (local.get $in)))
      (i32.and
        (i64.eqz (i64.load offset=24 (local.get $in)))
        (i32.eqz (i32.load16_u offset=40 (local.get $in))))))

  (func $look (param $in i32) (param $out i32) (param $count i32) (result i32)
    (local $events i32) (local $end i32)
    (local.set $end (i32.add (local.get $in) (i32.mul (local.get $count) (i32.const 48))))
    (loop $each
      (if (i32.lt_u (local.get $in) (local.get $end))
        (then
          (if (i32.eqz (i32.load8_u offset=8 (local.get $in)))
            (then
              (call $event (local.get $out) (local.get $in))
              (local.set $out (i32.add (local.get $out) (i32.const 32)))
              (local.set $events (i32.add (local.get $events) (i32.const 1))))
            (else
              (if (call $ready (call $pollable (local.get $in)))
                (then
                  (call $event (local.get $out) (local.get $in))
                  (local.set $out (i32.add (local.get $out) (i32.const 32)))
                  (local.set $events (i32.add (local.get $events) (i32.const 1)))))))
          (local.set $in (i32.add (local.get $in) (i32.const 48)))
          (br $each))))
    (local.get $events))

  (func $wait (param $in i32) (param $out i32) (param $count i32) (result i32)
    (local $pollables i32) (local $result i32) (local $i i32) (local $events i32)
    (local.set $pollables (call $scratch (i32.shl (local.get $count) (i32.const 2))))
    (local.set $result (call $scratch (i32.const 8)))
    (loop $each
      (i32.store
        (i32.add (local.get $pollables) (i32.shl (local.get $i) (i32.const 2)))
        (call $pollable (i32.add (local.get $in) (i32.mul (local.get $i) (i32.const 48)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $i) (local.get $count))))
    (call $poll (local.get $pollables) (local.get $count) (local.get $result))
    (local.set $events (i32.load offset=4 (local.get $result)))
    (local.set $i (i32.const 0))
    (loop $each
      (if (i32.lt_u (local.get $i) (local.get $events))
        (then
          (call $event
            (i32.add (local.get $out) (i32.shl (local.get $i) (i32.const 5)))
            (i32.add (local.get $in)
              (i32.mul (i32.const 48)
                (i32.load
                  (i32.add (i32.load (local.get $result)) (i32.shl (local.get $i) (i32.const 2)))))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $each))))
    (local.set $i (i32.const 0))
    (loop $each
      (if (i32.eqz
            (i32.load8_u offset=8 (i32.add (local.get $in) (i32.mul (local.get $i) (i32.const 48)))))
        (then
          (call $drop-pollable
            (i32.load (i32.add (local.get $pollables) (i32.shl (local.get $i) (i32.const 2)))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $i) (local.get $count))))
    (local.get $events))

  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32)
    (result i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 28)))) ;; EINVAL
    (i32.store (local.get $events)
      (if (result i32) (call $only-a-look (local.get $in))
        (then (call $look (local.get $in) (local.get $out) (local.get $count)))
        (else (call $wait (local.get $in) (local.get $out) (local.get $count)))))
    (i32.const 0))
)

;; Starts Go's runtime after everything that it calls is linked.
(core module $initialize
  (import "main" "_initialize" (func $initialize))
  (start $initialize)
)
