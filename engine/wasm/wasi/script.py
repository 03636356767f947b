"""`svc:dev/script@0.1`: how the dev loader of a scripting lane gets what was just saved."""

from engine.wasm.execution.run_state import Run, Trap
from engine.wasm.wasi.registry import host


@host("svc:dev/script", "source")
def source(run: Run) -> str:
    """Return the script of the artifact that this run serves."""
    if run.script is None:
        raise Trap("this artifact has no script")
    return run.script
