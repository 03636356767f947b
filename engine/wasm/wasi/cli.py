"""`wasi:cli@0.2` (source: wasi:cli 0.2.12, `package.wit`): environment, exit, standard streams."""

from typing import NoReturn

from engine.wasm.execution.buffers import InputBuffer
from engine.wasm.execution.run_state import GuestExit, RunState
from engine.wasm.wasi.io import InputStream, OutputStream
from engine.wasm.wasi.registry import host, resources_without_instances

resources_without_instances("terminal-input", "terminal-output")


@host("wasi:cli/environment", "get-environment")
def get_environment(run: RunState) -> list[tuple[str, str]]:
    """Return the variables from the manifest, the secrets and the platform's own variables."""
    return run.environment


@host("wasi:cli/environment", "get-arguments")
def get_arguments(run: RunState) -> list[str]:
    """Return an empty argument list."""
    return []


@host("wasi:cli/environment", "initial-cwd")
def initial_cwd(run: RunState) -> None:
    """Return no working directory."""


@host("wasi:cli/exit", "exit")
def exit_(run: RunState, status: tuple[str, None]) -> NoReturn:
    """Raise GuestExit with status 0, or without a status."""
    raise GuestExit(0 if status[0] == "ok" else None)


@host("wasi:cli/exit", "exit-with-code")
def exit_with_code(run: RunState, code: int) -> NoReturn:
    """Raise GuestExit with the given status."""
    raise GuestExit(code)


@host("wasi:cli/stdin", "get-stdin")
def get_stdin(run: RunState) -> InputStream:
    """Return an empty stream."""
    return InputStream(InputBuffer(ended=True))


@host("wasi:cli/stdout", "get-stdout")
def get_stdout(run: RunState) -> OutputStream:
    """Return a stream whose lines become timeline records."""
    return OutputStream(run.lines_of("stdout"))


@host("wasi:cli/stderr", "get-stderr")
def get_stderr(run: RunState) -> OutputStream:
    """Return a stream whose lines become timeline records."""
    return OutputStream(run.lines_of("stderr"))


@host("wasi:cli/terminal-stdin", "get-terminal-stdin")
@host("wasi:cli/terminal-stdout", "get-terminal-stdout")
@host("wasi:cli/terminal-stderr", "get-terminal-stderr")
def no_terminal(run: RunState) -> None:
    """Return no terminal."""
