"""One run, from a fresh instance to its report.

A loop polls the guest's fiber, moves bytes between guest and client, and stops the run. Guest code is polled
on the loop's thread until it has computed for `OFFLOAD_AFTER_NS` when an epoch ends. From then until it waits
again, it is polled in a worker thread. A guest that usually computes longer begins there.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from engine import eager
from engine.wasm.binary.reader import PAGE_BYTES
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.capi.values import encode_text
from engine.wasm.capi.wasmtime import Invocation, Store, WasmtimeApiError
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.config import MIB, TABLE_ELEMENTS, WARM_RESIDENT_MIB
from engine.wasm.execution.failure import (
    STOP_DETAILS,
    UNANSWERED_LINE,
    StderrTail,
    outcome_of_end,
    outcome_of_endless_wait,
)
from engine.wasm.execution.memory_budget import RunMemory, touched_bytes
from engine.wasm.execution.reclaimer import SMALL_BYTES
from engine.wasm.execution.run_state import GuestRequest, Outcome, RunReport, RunState, encode_environment
from engine.wasm.host.process import begin
from engine.wasm.host.requests import settle_watches

if TYPE_CHECKING:
    from engine.wasm.execution.runner import Guest

HEAD_GRACE_SECONDS = 0.05
"""How long a stopped run may continue to send its head, because half a head is not a response."""
DISCONNECT_GRACE_SECONDS = 0.5
"""How long a guest may continue after its client has disconnected; its next write fails."""
OFFLOAD_AFTER_NS = 5_000_000
"""A guest that has computed this long without waiting moves to a worker thread when an epoch ends."""
LONG_STRETCH_NS = 10_000_000
"""A guest whose stretches usually take this long starts them in a worker thread, which costs 1 ms of CPU."""
MAX_UNMEASURED_NS = 200_000
"""A run in a warm slot touches few pages first; its memory is measured only when it computes this long."""
_MEAN_SHIFT = 2
MAX_WALL_ONLY_NS = 500_000
"""Longest interval with the wall clock only; a blocked thread is over-counted by at most this much."""
MAX_AGE_NS = 100_000
"""Age at which a reading of the CPU clock is too old for the start of an interval.

A thread with a newer one is taken to have computed since, so a blocked thread is under-counted by at most
this much.
"""


class CpuClock:
    """Measures successive intervals on one thread, at the cost of a wall clock for short ones.

    The thread's CPU clock (`CLOCK_THREAD_CPUTIME_ID`) is a system call: reading it before and after costs a
    short run 2 %. The wall clock costs a tenth of that, and gives the same result while the thread waits
    neither for a processor nor for the interpreter's lock. So short intervals use the wall clock only. Longer
    ones use the CPU clock, because a thread that waits mostly waits for longer than that.
    """

    def __init__(self) -> None:
        self._read_ns = self._thread_ns = self._age_ns = 0

    def start(self) -> int:
        """Start an interval; return the time (`time.monotonic_ns`) for `elapsed`."""
        now = monotonic_ns()
        self._age_ns = now - self._read_ns
        if self._age_ns > MAX_AGE_NS:
            self._thread_ns, self._age_ns = thread_time_ns(), 0
            self._read_ns = now = monotonic_ns()
        return now

    def elapsed(self, began: int) -> int:
        """Return the CPU time of the interval started last."""
        passed = monotonic_ns() - began
        if passed <= MAX_WALL_ONLY_NS:
            return passed
        thread_ns = thread_time_ns()
        computed = max(0, min(passed, thread_ns - self._thread_ns - self._age_ns))
        self._read_ns, self._thread_ns = began + passed, thread_ns
        return computed


class UsualStretch:
    """The mean CPU time of a guest's recent stretches: what it computes between two waits."""

    __slots__ = ("_mean_ns", "long")

    def __init__(self) -> None:
        self._mean_ns = 0
        self.long = False
        """Whether a stretch should begin in a worker thread."""

    def record(self, nanoseconds: int) -> None:
        """Add a stretch."""
        self._mean_ns += (nanoseconds - self._mean_ns) >> _MEAN_SHIFT
        self.long = self._mean_ns >= LONG_STRETCH_NS


class _Stopped(Exception):
    """The run was stopped from outside; `Execution.reason` says why."""


class Execution:
    """The driver of one run."""

    def __init__(
        self,
        guest: "Guest",
        request: GuestRequest,
        program: LinkedComponent,
        memory: RunMemory,
        *,
        release: Callable[[], None],
    ) -> None:
        """`release` returns the slot of a large instance."""
        self._guest = guest
        self.project = guest.project
        self._program = program
        self._memory = memory
        self._release = release
        self._has_begun = False
        """Whether guest code has run."""
        self._compute_ns = self._stretch_began_ns = 0
        self._overrun_mib = 0, 0  # what the run had taken, and takes usually
        self._request = request
        self._exchange = request.exchange
        environment = guest.environment_text + encode_environment(request.env)
        has_body = not self._exchange.body.exhausted
        self._run = RunState(
            request,
            environment,
            guest.fetch,
            guest.script,
            has_body=has_body,
            call_door=guest.call_door,
            wake=self._wake,
        )
        self._run.offloaded = guest.usual_stretch.long
        self._run.memory_limit = guest.resource.memory_limit_mb << 20
        self.deadline_ns = self._run.deadline_ns = self._run.started_ns + guest.run_limit_ns
        self.reason: Outcome | None = None
        self._grace_timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._reading = False
        self._started = False
        self._complete = False
        self._sending_head = False
        self._bytes_in = 0
        self._bytes_out = 0
        self._stderr: StderrTail | None = None

    # -- from outside ------------------------------------------------------------------------------------

    def stop(self, reason: Outcome) -> None:
        """End the run soon, in any state. Call it on the loop's thread."""
        if self.reason is None:
            self.reason = reason
            self._wake()
            if self._sending_head:
                asyncio.get_running_loop().call_later(HEAD_GRACE_SECONDS, self._abort_send)
            else:
                self._abort_send()

    def _abort_send(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the run -----------------------------------------------------------------------------------------

    async def run(self) -> RunReport:
        guest, run = self._guest, self._run
        store = Store(self._program.engine, memory_limit=guest.memory_limit, table_limit=TABLE_ELEMENTS)
        run.context = store.context
        guest.runner.register(self, run)
        self._memory.on_overrun = self._stop_for_memory
        peak: int | None = None
        text: str | None = None
        try:
            if not run.body.ended:
                self._start_reading()  # What arrived with the head is available to the first read.
            if guest.runner.turns.crowded:
                await self._wait_for_turn()
            if self.reason is not None:
                raise _Stopped
            invocation = self._program.invoke(store.context, lambda: encode_text(run.scratch, begin(run)))
            text = await self._finish(invocation)
            if text is None:
                peak = invocation.result * PAGE_BYTES
        except WasmtimeApiError as error:
            text = str(error)
        except _Stopped:
            pass
        finally:
            guest.runner.unregister(self, run)
            if self._grace_timer is not None:
                self._grace_timer.cancel()
            self._exchange.disconnected.remove_callback(self._on_disconnect)
            self._exchange.body.subscribe(None)
            run.close()
            self._return_memory(store, peak)
        outcome, detail = self._outcome(text)
        return RunReport(
            outcome=outcome,
            detail=detail,
            status=run.head.status if run.head is not None and self._started else None,
            wall_ns=monotonic_ns() - run.started_ns,
            compute_ns=self._compute_ns + run.door_cpu_ns,
            peak_memory=peak if peak is not None else self._memory.touched or None,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            complete=self._complete,
        )

    def _return_memory(self, store: Store, peak: int | None) -> None:
        """Close the store, on another thread if that takes long, and then return its slot and memory."""
        runner, memory, began = self._guest.runner, self._memory, monotonic_ns()
        memory.on_overrun = None
        memory.profile.record(memory.touched, typical=peak is not None and memory.cold)
        memory.retained = 0 if memory.cold else min(memory.touched, WARM_RESIDENT_MIB * MIB)
        memory.closing = memory.touched > SMALL_BYTES
        if memory.closing:
            loop = asyncio.get_running_loop()
            runner.reclaimer.close_large(store, partial(loop.call_soon_threadsafe, self._release))
        else:
            runner.reclaimer.close(store, memory.touched if self._program.hosted else peak)
        runner.turns.record(monotonic_ns() - began)

    def _stop_for_memory(self) -> None:
        self._overrun_mib = self._memory.touched >> 20, self._memory.profile.usual >> 20
        self.stop("memory-limit")

    async def _finish(self, invocation: Invocation) -> str | None:
        """Advance an invocation to its end; return its error's text."""
        text: str | None = None
        self._guest.runner.reclaimer.flush()
        try:
            await self._advance(invocation)
        except _Stopped:
            if self._guest.runner.turns.crowded:  # Many may be stopped at once.
                await self._guest.runner.turns.wait(self._guest.project)
            raise
        finally:
            text = invocation.close()
            for printed in self._run.printed.values():
                printed.finish()
            self._flush_events()
        return text

    async def _advance(self, invocation: Invocation) -> None:
        run, runner, usual = self._run, self._guest.runner, self._guest.usual_stretch
        while True:
            while not self._has_begun and runner.budget.overrun and self.reason is None:
                self._start_reading()
                self._waiter = asyncio.get_running_loop().create_future()
                runner.budget.when_free(self._wake)
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            if self.reason is not None:
                raise _Stopped
            done = await self._poll_in_thread(invocation) if run.offloaded else self._poll(invocation)
            self._flush_events()
            if not done:
                runner.budget.check_growth()
            if run.head is not None and not self._complete:
                await self._send_response(run.head)
            computed_ns = self._compute_ns - self._stretch_began_ns
            if done or run.wait is not None:
                usual.record(computed_ns)
                self._stretch_began_ns, run.offloaded = self._compute_ns, usual.long
            if done:
                return
            if run.wait is not None:
                if self._started:
                    runner.budget.add_stream(self._memory)
                await self._until_ready(run.wait)
                if runner.turns.crowded:
                    await self._wait_for_turn()
            else:
                run.offloaded = run.offloaded or computed_ns >= OFFLOAD_AFTER_NS

    def _poll(self, invocation: Invocation) -> bool:
        """Poll once on this thread; return whether the invocation has completed."""
        runner, memory = self._guest.runner, self._memory
        runner.epochs.touch()
        touched = touched_bytes() if memory.cold else runner.touched
        self._has_begun = True
        began = runner.clock.start()
        done = invocation.poll()
        elapsed = runner.clock.elapsed(began)
        self._compute_ns += elapsed
        runner.turns.record(elapsed)
        if memory.cold or elapsed > MAX_UNMEASURED_NS:
            runner.touched = touched_bytes()
            runner.budget.grow(memory, runner.touched - touched)
        return done

    async def _poll_in_thread(self, invocation: Invocation) -> bool:
        """Poll once in a worker thread; return whether the invocation has completed.

        Does nothing if the run was stopped meanwhile, or would begin while the budget is overrun.
        """
        self._start_reading()
        runner = self._guest.runner

        def poll() -> tuple[bool, int, int]:
            if self.reason is not None or (not self._has_begun and runner.budget.overrun):
                return False, 0, 0
            began, touched = thread_time_ns(), touched_bytes()
            done = invocation.poll()
            return done, thread_time_ns() - began, touched_bytes() - touched

        done, computed_ns, touched = await runner.run_in_thread(self.project, poll)
        self._has_begun = self._has_begun or computed_ns > 0
        self._compute_ns += computed_ns
        runner.budget.grow(self._memory, touched)
        return done

    async def _wait_for_turn(self) -> None:
        await self._guest.runner.turns.wait(self._guest.project)
        if not self._reading and self._exchange.disconnected.is_set():
            self.stop("client-gone")

    async def _until_ready(self, wait: Suspend) -> None:
        loop = asyncio.get_running_loop()
        self._start_reading()
        while not self._run.is_ready():
            if self.reason is not None:
                raise _Stopped
            self._waiter = loop.create_future()
            timer = None
            if wait.deadline is not None:
                timer = loop.call_later(max(0, wait.deadline - self._run.now()) / 1e9, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()

    # -- bytes -------------------------------------------------------------------------------------------

    def _start_reading(self) -> None:
        """Start to read the body and to watch for a disconnect; a quick guest ends before it needs either."""
        if self._reading:
            return
        self._reading = True
        if not self._run.body.ended:
            self._run.body.on_drained = lambda: self._run.on_loop(self._resume_reading)
            self._resume_reading()
        self._exchange.disconnected.add_callback(self._on_disconnect)

    def _resume_reading(self) -> None:
        if self._run.body.on_drained is not None:
            self._exchange.body.subscribe(self._on_body)

    def _on_body(self, data: bytes | None) -> bool:
        """Handle a part of the request body. Returns whether the next may be delivered immediately."""
        body = self._run.body
        if data:
            self._bytes_in += len(data)
            if self._bytes_in <= self._request.max_body:
                body.feed(data)
                self._wake()
                return not body.full
            self.stop("body-too-large")
        elif not body.ended:
            body.end(None if data is not None else ("connection-terminated", None))
            self._wake()
        body.on_drained = None
        return False

    def _on_disconnect(self) -> None:
        """End the request body, and the response unless it is complete."""
        if not self._run.body.ended:
            self._run.body.end(("connection-terminated", None))
        if self._complete or self._grace_timer is not None:
            return
        head = self._run.head
        if head is not None and self._started and not self._sending:
            if dict(head.headers).get(b"content-length") == str(self._bytes_out).encode():
                self._complete = True  # The client has all of it, whenever the guest ends it.
                return
            self._complete = head.status in (204, 304) or self._request.method == "HEAD"
        self._grace_timer = asyncio.get_running_loop().call_later(
            DISCONNECT_GRACE_SECONDS, self.stop, "client-gone"
        )
        self._run.disconnected = True
        settle_watches(self._run, HTTPStatus.NO_CONTENT)
        if self._run.head is not None:
            self._close_body(self._run.head.body)
        self._wake()

    def _close_body(self, body: OutputBuffer) -> None:
        """Fail the guest's next write. A guest that watches for the disconnect need not notice it by that."""
        if self._run.watches.keys() <= {"/"}:
            body.broken = "closed"
        else:
            body.discard()

    def _flush_events(self) -> None:
        """Run the actions and pass on the output that guest code queued for the loop's thread."""
        run = self._run
        while run.actions:
            run.actions.popleft()()
        while run.lines:
            stream, text = run.lines.popleft()
            line = self._guest.rewrite(text)
            if line is None:
                continue
            if line == UNANSWERED_LINE and stream == "stderr":
                self.stop("guest-failed")
                continue
            self._stderr = self._stderr or StderrTail()
            self._stderr.add_output(line)
            if stream == "stderr":
                self._stderr.add(line)
            self._request.on_line(stream, line)  # type: ignore[arg-type]
        while run.notices:
            self._request.on_notice(*run.notices.popleft())

    async def _send_response(self, head: Any) -> None:
        """Send the available part of the response, unless the run was stopped."""
        if self.reason is not None:
            raise _Stopped
        body = head.body
        data = body.drain()
        if self._grace_timer is not None:
            self._close_body(body)
            return
        first = not self._started
        if first:
            headers = head.headers
            unknown = head.status in (204, 304) or (self._request.method == "HEAD" and not data)
            if body.finished and not unknown and b"content-length" not in dict(headers):
                headers.append((b"content-length", str(len(data)).encode()))
            self._started = self._sending_head = True
        while first or data or (body.finished and not self._complete):
            self._bytes_out += len(data)
            end = body.finished and body.empty
            part = self._send_first(head, data, end=end) if first else self._exchange.send_body(data, end=end)
            await self._send(part)
            if self._grace_timer is not None:
                return
            self._complete, first = end, False
            data = body.drain()

    async def _send_first(self, head: Any, data: bytes, *, end: bool) -> None:
        await self._exchange.send_head(head.status, head.headers)
        self._sending_head = False
        if self.reason is not None:
            raise _Stopped
        if data or end:
            await self._exchange.send_body(data, end=end)

    async def _send(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send a part of the response, until the run is stopped."""
        if self.reason is not None:
            sending.close()
            raise _Stopped
        self._sending = eager.start(sending)
        if self._sending is None:
            return
        try:
            await self._sending
        except asyncio.CancelledError:
            if self.reason is not None:
                raise _Stopped from None
            raise
        finally:
            self._sending = None

    # -- the outcome -------------------------------------------------------------------------------------

    def _outcome(self, text: str | None) -> tuple[Outcome, str]:
        if self._grace_timer is not None:
            if self._complete:
                return "ok", ""
            self.reason = "client-gone"
        if self.reason == "guest-failed":
            return outcome_of_endless_wait(self._run, self._stderr or StderrTail(), self._memory.touched)
        if self.reason is not None:
            limits = self._guest.resource.run_limit_secs, self._request.max_body, *self._overrun_mib
            return self.reason, STOP_DETAILS.get(self.reason, "").format(*limits)
        run = self._run
        if self._complete and text is None and run.failure is None and run.refused is None:
            return "ok", ""
        stderr, memory = self._stderr or StderrTail(), self._memory.touched
        outcome, detail = outcome_of_end(run, text, stderr, complete=self._complete, memory=memory)
        # Most guests do not expect that a Door is unavailable.
        return ("unavailable" if outcome == "guest-failed" and run.door_unavailable else outcome), detail
