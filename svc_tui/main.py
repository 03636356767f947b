"""The `svc` command line: the command table, and the conversion of errors to messages and exit codes."""

import importlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from engine.errors import InvalidUsage, SvcError
from svc_tui import version as installed_version
from svc_tui.garbage_collection import relax_garbage_collection
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import COLOR_MODES, ColorMode, ExitCode


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `function` of `svc_tui.commands.<module>`, which may be a Typer with subcommands."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "new": Command("project", "new", "Create a project from a template."),
    "demo": Command("dev", "demo", "Show a sample application with made-up traffic."),
    "add": Command("project", "add", "Add a resource to the project in this folder."),
    "console": Command("console", "console", "Open the Console: Board, Tables, Logs, Jobs and Files."),
    "dev": Command("dev", "dev", "Serve the project in this folder and rebuild on save."),
    "test": Command("dev", "test", "Run your tests against the project with new data."),
    "build": Command("build", "build", "Build every resource as a deploy does."),
    "logs": Command("logs", "logs", "Show requests, log records and output."),
    "top": Command("usage", "top", "Show the busiest resources and routes, live."),
    "capsule": Command("capsule", "capsule", "Make a file of one request, and replay it elsewhere."),
    "tables": Command("tables", "tables", "Show, change, query, import and export tables."),
    "files": Command("tables", "files", "List, read, store and remove files."),
    "mount": Command("project", "mount", "Mount one resource under a path of another."),
    "policy": Command("logs", "policy", "Suggest permissions of resources from the logs."),
    "usage": Command("usage", "usage", "Show requests, time, memory and bytes of each resource."),
    "deploy": Command("deploy", "deploy", "Build every resource and deploy all of them at once."),
    "deployments": Command("deployments", "deployments", "List deployments."),
    "rollback": Command("deployments", "rollback", "Roll back to an earlier deployment."),
    "gc": Command("accounts", "gc", "Remove data that no deployment needs."),
    "secret": Command("deployments", "secret", "Manage secrets."),
    "domain": Command("deployments", "domain", "Show and check the domains of the project."),
    "schedule": Command("jobs", "schedule", "Show, run, pause and resume the schedules of the project."),
    "jobs": Command("jobs", "jobs", "Show, retry and remove the jobs of the project."),
    "projects": Command("accounts", "projects", "List and remove projects of a service."),
    "open": Command("deployments", "open_resource", "Open a deployed resource in the browser."),
    "serve": Command("serve", "serve", "Run the service: serve deployed projects and accept deploys."),
    "backup": Command("backup", "backup", "Inspect the backup of a service in an object store."),
    "restore": Command("backup", "restore_command", "Restore a service from its backup."),
    "bucket": Command("backup", "bucket", "Copy, back up, restore and verify a service's storage."),
    "fleet": Command("fleet", "fleet", "Run a service on several machines."),
    "login": Command("accounts", "login", "Log in to a service, or claim a new one."),
    "logout": Command("accounts", "logout", "Log out of the service."),
    "whoami": Command("accounts", "whoami", "Show your user name and roles on the service."),
    "token": Command("accounts", "token", "Manage API tokens for programs such as CI."),
    "user": Command("accounts", "user", "Manage users and their roles."),
    "notify": Command("accounts", "notify", "Test the delivery of alerts."),
    "quota": Command("accounts", "quota", "Show and set limits of projects on a service."),
    "doctor": Command("doctor", "doctor", "Check build prerequisites; --fix installs what it can."),
    "mcp": Command("dev", "mcp", "Serve tools for coding agents on stdin and stdout."),
    "schema": Command("about", "schema", "Print the JSON Schema of svc.toml."),
    "version": Command("about", "version", "Print the version of svc."),
}


class _LazyGroup(TyperGroup):
    """A group that imports a command only when the command or its help is requested."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None  # `_usage_error` names the closest command.
        from svc_tui.commands.options import Commands  # not for `svc --help`

        module = importlib.import_module(f"svc_tui.commands.{command.module}")
        function = getattr(module, command.function)
        group = Commands(add_completion=False, rich_markup_mode=None)
        if isinstance(function, typer.Typer):
            group.add_typer(function, name=cmd_name)
            return typer.main.get_group(group).get_command(ctx, cmd_name)
        group.command(cmd_name)(function)
        return typer.main.get_command(group)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


app = typer.Typer(
    cls=_LazyGroup,
    add_completion=True,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        stdout.line(f"svc {installed_version()}")
        raise typer.Exit


@app.callback()
def svc(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("-C", metavar="DIR", help="Run in this folder.")] = Path(),
    color: Annotated[
        str, typer.Option(metavar="WHEN", help="When to use color: auto, always or never.")
    ] = "auto",
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Host small web applications from a terminal."""
    if color not in COLOR_MODES:
        raise InvalidUsage(f'unknown color mode "{color}"', "Use auto, always or never.")
    stdout.set_color(cast(ColorMode, color))
    stderr.set_color(cast(ColorMode, color))
    if folder != Path():
        try:
            os.chdir(folder)
        except OSError as error:
            hint = "Pass -C a folder that you can enter."
            raise InvalidUsage(f"cannot enter {folder}: {error.strerror}", hint) from error
    if context.invoked_subcommand is None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            importlib.import_module("svc_tui.commands.console").console()
        else:
            stdout.line(context.get_help())


def run(arguments: list[str]) -> int:
    """Run `svc` with these arguments and return its exit code."""
    try:
        if sys.platform == "win32":  # some modules of commands exist on POSIX systems only
            raise SvcError("svc needs Linux or macOS", "On Windows, use WSL2.")
        result = typer.main.get_command(app).main(arguments, prog_name="svc", standalone_mode=False)
    except SvcError as error:
        stderr.render(error)
        return stderr.exit_code(error)
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        stderr.render(_usage_error(error, arguments))
        return ExitCode.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit as error:
        # The argument parser raises it for a pipe that closes while it prints help.
        if isinstance(error.__context__, BrokenPipeError):
            stdout.closed_pipe()
        raise
    except Exception as error:
        if isinstance(error, OSError) and not {"-h", "--help"}.isdisjoint(arguments):
            stderr.render(stdout.unwritable(error))  # The argument parser writes help itself.
            return ExitCode.FAILED
        # Python has bytes of arguments and paths that are not UTF-8 as these characters (PEP 383).
        if isinstance(error, UnicodeEncodeError) and "\udc80" <= error.object[error.start] <= "\udcff":
            name = next((each for each in arguments if "\\udc" in ascii(each)), error.object)
            stderr.render(
                SvcError(f"{name!a} is not UTF-8", "Rename the file or folder, or pass another name.")
            )
            return ExitCode.FAILED
        if os.environ.get("SVC_DEBUG"):
            raise
        name = f"{type(error).__name__}: {error}".rstrip(": ")
        hint = "This is a bug in svc: run the command with SVC_DEBUG=1 and report the traceback."
        stderr.render(SvcError(f"internal error: {name}", hint))
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.OK


_MESSAGES = (
    (r"No such option: (\S+).*", r"unknown option \1"),
    (r"No such command '(.*?)'\..*", r'unknown command "\1"'),
    (r"Missing command\.", "no command was given"),
    (r"Missing (?:argument|option) '(.*?)'.*", r"\1 is missing"),
    (r"Got unexpected extra argument\(s\) \((.*)\)", r"unexpected argument: \1"),
    (r"Option '(.*?)' requires an argument\.", r"\1 needs a value"),
    (r"Option '(.*?)' does not take a value\.", r"\1 takes no value"),
    (r"Invalid value for '(.*?)'.*?: Value error, '(.*?)' is not one of (.*)\.", r"\1 cannot be \2"),
    (r"Invalid value for '(.*?)'.*?: Input should (be .*?)(, unable.*)?", r"\1 must \2"),
    (r"Invalid value for '(.*?)'.*?: (.*)", r"\1: \2"),
)
"""Messages of the argument parser and of pydantic, and the messages of svc."""


def _usage_error(error: typer.TyperException, arguments: list[str]) -> SvcError:
    """Return the error for wrong arguments. Its hint is the closest name, or the command's usage line."""
    context: Any = getattr(error, "ctx", None)
    message, hint = error.format_message(), ""
    for pattern, text in _MESSAGES:
        if match := re.fullmatch(pattern, message):
            message, hint = match.expand(text), _closest(context, match)
            break
    if not hint:
        usage = f"{context.get_usage()}\n        " if context is not None else ""
        named = next((f"svc {word}" for word in arguments if word in COMMANDS), "svc")
        hint = f"{usage}Run `{named if context is None else context.command_path} --help` for details."
    return InvalidUsage(message, hint)


def _closest(context: Any, match: re.Match[str]) -> str:
    """Return the hint that names the closest command, option or value; "" if there is none."""
    if match[0].startswith("No such command"):
        close = get_close_matches(match[1], context.command.list_commands(context), n=1)
        path = context.command_path
        return f"Did you mean `{path} {close[0]}`?" if close else f"Run `{path} --help` to list the commands."
    if match[0].startswith("No such option"):
        above = context.parent
        if above is not None and any(match[1] in each.opts for each in above.command.params):
            path = above.command_path
            return f"Pass it before the command: `{path} {match[1]} {context.info_name} …`."
        options = {option: each.metavar or "" for each in context.command.params for option in each.opts}
        close = get_close_matches(match[1], options, n=1, cutoff=0.7)
        # The value of `--listen HOST:PORT` has what `--port` asks for.
        value = f":{match[1].strip('-').upper()}"
        close += [option for option, metavar in options.items() if metavar.endswith(value)]
        return f"Did you mean {close[0]}?" if close else ""
    if "is not one of" in match[0]:
        choices = re.findall("'(.*?)'", match[3])
        close = get_close_matches(match[2], choices, n=1)
        return f"Did you mean {close[0]}?" if close else f"Use {', '.join(choices[:-1])} or {choices[-1]}."
    return ""


def main() -> None:
    """Run `svc` for the command line."""
    relax_garbage_collection()
    # Characters that the terminal's encoding lacks are escaped; an encoding error would end the program.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    ended_by: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        """End as Ctrl+C does, so that a command ends the processes that it started."""
        ended_by.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    code = run(sys.argv[1:])
    sys.exit(128 + ended_by[0] if ended_by and code == ExitCode.INTERRUPTED else code)
