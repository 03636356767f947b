"""The `svc` command: a table of commands that are imported when they are called, and the one edge where
every error becomes a message and an exit code.
"""

import importlib
import os
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from engine.errors import SvcError
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import ExitCode
from svc_tui.terminal.style import COLOR_MODES, ColorMode


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command lives: `function` of `svc_tui.commands.<module>`, which may be a Typer of several."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "new": Command("new", "new", "Make a Project that runs as it is."),
    "console": Command(
        "console", "console", "Open Board, Tables and Logs, full screen; so does `svc` alone."
    ),
    "dev": Command("dev", "dev", "Serve the Project in this folder and rebuild what you save."),
    "build": Command("build", "build", "Build every Resource as a deploy does."),
    "logs": Command("logs", "logs", "Show what happened: requests, log records, output."),
    "tables": Command("tables", "tables", "Look at tables, change them, move rows in and out."),
    "mount": Command("mount", "mount", "Have one Resource answer below a path of another."),
    "usage": Command("usage", "usage", "Show what each Resource took: time, memory, bytes."),
    "deploy": Command("deploy", "deploy", "Build everything and have it go live at once."),
    "deployments": Command("deployments", "deployments", "List what was deployed."),
    "rollback": Command("deployments", "rollback", "Have an older deployment go live again."),
    "gc": Command("gc", "gc", "Remove what no deployment needs any more."),
    "secret": Command("secret", "secret", "Values that guests get and no file has."),
    "open": Command("open", "open_resource", "Open what is live in the browser."),
    "serve": Command("serve", "serve", "Serve every Project that is deployed, and take deploys."),
    "login": Command("login", "login", "Log in to a service, or become its first owner."),
    "logout": Command("login", "logout", "End the session with the service."),
    "whoami": Command("login", "whoami", "Show who you are for the service, and what you may do."),
    "token": Command("token", "token", "Tokens for programs, such as CI."),
    "user": Command("user", "user", "Users of the service and their roles."),
    "doctor": Command("doctor", "doctor", "Check what builds need, and install it."),
}


class _Lazy(TyperGroup):
    """A group that imports a command when it is called or asked for help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = COMMANDS.get(cmd_name)
        if command is None:
            if ctx.resilient_parsing or cmd_name.startswith("-"):
                return None
            close = get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"Did you mean `svc {close[0]}`?" if close else "`svc --help` lists the commands."
            raise SvcError(f'there is no command "{cmd_name}"', hint, code="usage")
        module = importlib.import_module(f"svc_tui.commands.{command.module}")
        found = getattr(module, command.function)
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            one.add_typer(found, name=cmd_name)
            return typer.main.get_group(one).get_command(ctx, cmd_name)
        one.command(cmd_name)(found)
        return typer.main.get_command(one)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


app = typer.Typer(
    cls=_Lazy,
    add_completion=True,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        # Reading a distribution's metadata costs more than the rest of a start.
        from importlib.metadata import version

        stdout.line(f"svc {version('svc-tui')}")
        raise typer.Exit


@app.callback()
def svc(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("-C", metavar="DIR", help="Work in this folder.")] = Path(),
    color: Annotated[str, typer.Option(metavar="WHEN", help="auto, always or never.")] = "auto",
    _show: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Host small web applications from a terminal."""
    if color not in COLOR_MODES:
        raise SvcError(f'there is no colour mode "{color}"', "Use auto, always or never.", code="usage")
    stdout.set_color(cast(ColorMode, color))
    stderr.set_color(cast(ColorMode, color))
    if folder != Path():
        try:
            os.chdir(folder)
        except OSError as error:
            hint = "-C takes a folder that you may enter."
            raise SvcError(f"cannot work in {folder}: {error.strerror}", hint, code="usage") from error
    if context.invoked_subcommand is None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            importlib.import_module("svc_tui.commands.console").console()
        else:
            stdout.line(context.get_help())


def run(arguments: list[str]) -> int:
    """Run `svc` with arguments and return its exit code."""
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="svc", standalone_mode=False)
    except SvcError as error:
        stderr.render(error)
        return stderr.exit_code(error)
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        stderr.render(_usage(error))
        return ExitCode.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit as error:
        # What the parser makes of a closed pipe while it prints help.
        if isinstance(error.__context__, BrokenPipeError):
            stdout.closed_pipe()
        raise
    except Exception as error:
        if os.environ.get("SVC_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        stderr.render(SvcError(f"svc failed: {what}", "Set SVC_DEBUG=1 to see where."))
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.OK


def _usage(error: typer.TyperException) -> SvcError:
    """Say what is wrong with the arguments and how the command is called."""
    context = getattr(error, "ctx", None)
    usage = f"{context.get_usage()}\n        " if context is not None else ""
    path = context.command_path if context is not None else "svc"
    return SvcError(error.format_message(), f"{usage}`{path} --help` explains it.", code="usage")


def main() -> None:
    """Run `svc` for the command line."""
    # A name that the terminal's encoding lacks is shown escaped, instead of ending the program.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
