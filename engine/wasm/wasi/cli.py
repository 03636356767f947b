"""`wasi:cli@0.2` (source: wasi:cli 0.2.12, `package.wit`): environment, exit, standard streams."""

from typing import NoReturn

from engine.wasm.execution.buffers import InputBuffer
from engine.wasm.execution.run_state import GuestExit, Run
from engine.wasm.wasi.io import InputStream, OutputStream
from engine.wasm.wasi.registry import host, resource


@resource("terminal-input")
class TerminalInput:
    """Never given to a guest: a run has no terminal."""


@resource("terminal-output")
class TerminalOutput:
    """Never given to a guest: a run has no terminal."""


@host("wasi:cli/environment", "get-environment")
def get_environment(run: Run) -> list[tuple[str, str]]:
    """Return the variables of the manifest, the secrets, and the platform's own."""
    return run.environment


@host("wasi:cli/environment", "get-arguments")
def get_arguments(run: Run) -> list[str]:
    """A run has no arguments."""
    return []


@host("wasi:cli/environment", "initial-cwd")
def initial_cwd(run: Run) -> None:
    """A run has no folder."""


@host("wasi:cli/exit", "exit")
def exit_(run: Run, status: tuple[str, None]) -> NoReturn:
    """End the guest."""
    raise GuestExit(0 if status[0] == "ok" else 1)


@host("wasi:cli/exit", "exit-with-code")
def exit_with_code(run: Run, code: int) -> NoReturn:
    """End the guest with a status of its own."""
    raise GuestExit(code)


@host("wasi:cli/stdin", "get-stdin")
def get_stdin(run: Run) -> InputStream:
    """Standard input is empty."""
    return InputStream(InputBuffer(ended=True))


@host("wasi:cli/stdout", "get-stdout")
def get_stdout(run: Run) -> OutputStream:
    """Standard output becomes lines of the timeline."""
    return OutputStream(run.lines_of("stdout"))


@host("wasi:cli/stderr", "get-stderr")
def get_stderr(run: Run) -> OutputStream:
    """Standard error becomes lines of the timeline."""
    return OutputStream(run.lines_of("stderr"))


@host("wasi:cli/terminal-stdin", "get-terminal-stdin")
@host("wasi:cli/terminal-stdout", "get-terminal-stdout")
@host("wasi:cli/terminal-stderr", "get-terminal-stderr")
def no_terminal(run: Run) -> None:
    """A run has no terminal."""
