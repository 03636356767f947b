"""`svc:dev/script@0.1`: the current script source, for the development loader of a scripting lane."""

from engine.wasm.execution.run_state import RunState, Trap
from engine.wasm.wasi.registry import host


@host("svc:dev/script", "source")
def source(run: RunState) -> str:
    """Return the script of the artifact that this run serves. Raises Trap if it has none."""
    if run.script is None:
        raise Trap("this artifact has no script")
    return run.script
