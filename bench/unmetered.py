"""`svc` without meters and limits: what they cost is the difference. Takes svc's own arguments.

No clock of a run is read, no epoch ends, no code looks for one, no memory is bounded or measured, no run
limit is looked after, and no usage is written.
"""

import os
import sys
from pathlib import Path
from typing import Any

from wasmtime import Engine

from engine.wasm.binary.reader import PAGE_BYTES
from engine.wasm.capi import wasmtime
from engine.wasm.compile import code_cache, compiler
from engine.wasm.compile.compilers import MAX_CODE_BYTES, Compiler
from engine.wasm.compile.component_file import read_component
from engine.wasm.compile.image_file import find_code
from engine.wasm.execution import config, epoch_ticker, execution, host_memories, runner
from engine.wasm.execution.run_state import RunState
from svc_tui.main import run
from svc_tui.serve import runtime

MEMORY = "SVC_BENCH_MEMORY"
"""Memory of an instance in bytes. Its release depends on this value, with metering and without."""

_compile_config = config.compile_config


def _without_epochs(compiler: Compiler) -> Any:
    config = _compile_config(compiler)
    config.epoch_interruption = False
    return config


async def _compiled(
    component: Path, digest: str, cache: Path, **_options: Any
) -> code_cache.CompiledComponent:
    target = cache / "compiled" / f"{digest}-unmetered.cwasm"
    if find_code(target, Path.exists) is None:
        engine = Engine(_without_epochs(Compiler.OPTIMIZING))
        target.parent.mkdir(parents=True, exist_ok=True)
        compiler.compile_to(engine, read_component(component, digest), target, MAX_CODE_BYTES, preinit=True)
    found = find_code(target, Path.exists)
    assert found is not None
    return code_cache.CompiledComponent(found[0], Compiler.OPTIMIZING, found[1])


def _register(self: runner.Runner, started: execution.Execution, run: RunState) -> None:
    self.runs[run.context] = run
    self._active.add(started)


class _NoRecorder:
    def __init__(self, *_arguments: Any) -> None: ...

    def close(self) -> None: ...


def _put(place: Any, name: str, what: Any) -> None:
    """Replace what has this name; there must be such a thing."""
    getattr(place, name)
    setattr(place, name, what)


def main() -> None:
    _put(config, "compile_config", _without_epochs)
    _put(host_memories, "compile_config", _without_epochs)
    _put(runner, "compile_component", _compiled)
    _put(runner.Runner, "register", _register)
    _put(epoch_ticker.EpochTicker, "_work", lambda self: None)
    _put(execution.Execution, "_poll", lambda self, invocation: invocation.poll())
    _put(wasmtime.Invocation, "result", int(os.environ[MEMORY]) // PAGE_BYTES)
    for name in ("_store_limiter", "_set_epoch_deadline", "_yield_and_update"):
        _put(wasmtime, name, lambda *_arguments: None)
    _put(runtime, "UsageRecorder", _NoRecorder)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
