"""Schema changes of `svc tables`: `create`, `alter`, `rename`, `drop`, `index`, `migrate` and `migration`."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from doors.tables.migrations import MIGRATIONS_FOLDER, find, ignored
from doors.tables.migrations.drift import write
from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest.load import find as find_project
from svc_tui.commands.options import AsJson, Yes
from svc_tui.commands.tables.show import Table, Tables, open_tables
from svc_tui.tables_syntax import (
    CHANGE_SYNTAX,
    COLUMN_SYNTAX,
    ColumnTypes,
    format_change,
    is_destructive,
    parse_changes,
    parse_columns,
)
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.units import plural


def create(
    context: typer.Context,
    table: Table,
    words: Annotated[
        list[str], typer.Argument(metavar="COLUMN[, COLUMN]…", help=f"Columns: {COLUMN_SYNTAX}.")
    ],
    note: Annotated[str, typer.Option(metavar="TEXT", help="Note on the table.")] = "",
) -> None:
    """Create a table. Example: svc tables create users 'id integer primary key, joined date'"""
    with open_tables(context) as tables:
        columns = parse_columns(" ".join(words), _types(tables))
        _change(tables, [{"op": "create-table", "table": table, "columns": columns, "note": note}])
    stderr.note(f"created table {table}")


def alter(
    context: typer.Context,
    table: Table,
    words: Annotated[
        list[str], typer.Argument(metavar="CHANGE[, CHANGE]…", help=f"Changes: {', '.join(CHANGE_SYNTAX)}.")
    ],
    yes: Yes = False,
) -> None:
    """Alter a table in one transaction. Example: svc tables alter users add age integer, drop mail"""
    with open_tables(context) as tables:
        current = tables.get("table", name=table)
        changes = parse_changes(current, " ".join(words), _types(tables))
        destructive = [format_change(change) for change in changes if is_destructive(change)]
        if destructive and not yes:
            prompt.confirm(f"{', '.join(destructive)}: delete these values of {current['name']}?")
        _change(tables, changes)
    stderr.note(f"altered table {table}")


def rename(
    context: typer.Context,
    table: Table,
    name: Annotated[str, typer.Argument(metavar="NAME", help="New name.")],
) -> None:
    """Rename a table. Views, triggers and foreign keys that use it change with it."""
    with open_tables(context) as tables:
        _change(tables, [{"op": "rename-table", "table": table, "name": name}])
    stderr.note(f"renamed {table} to {name}")


def drop(context: typer.Context, table: Table, yes: Yes = False) -> None:
    """Drop a table and its rows."""
    with open_tables(context) as tables:
        current = tables.get("table", name=table)
        if current["rows"] != 0 and not yes:
            count = current["rows"]
            rows = "all its rows" if count is None else "its row" if count == 1 else f"its {count} rows"
            prompt.confirm(f"drop {current['name']} and {rows}?")
        _change(tables, [{"op": "drop-table", "table": table}])
    stderr.note(f"dropped table {table}")


def index(
    context: typer.Context,
    table: Table,
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="[COLUMN]…", help="Columns, in order.")
    ] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="Refuse rows with the same values in the columns.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", help="Name of the index (default: from table and columns).")
    ] = "",
    drop: Annotated[str, typer.Option(metavar="NAME", help="Drop this index instead of creating one.")] = "",
) -> None:
    """Create or drop an index."""
    if bool(drop) == bool(columns):
        raise InvalidUsage(
            "index needs columns, or --drop and the name of an index", f"svc tables index {table} COLUMN…"
        )
    with open_tables(context) as tables:
        if drop:
            names = [index["name"] for index in tables.get("table", name=table)["indexes"]]
            if drop not in names:
                raise SvcError(
                    f"table {table} has no index {drop}",
                    f"Available: {', '.join(names)}." if names else "The table has no indexes.",
                )
            _change(tables, [{"op": "drop-index", "name": drop}])
            stderr.note(f"dropped index {drop}")
            return
        change = {"op": "create-index", "table": table, "columns": columns, "unique": unique, "name": name}
        _change(tables, [change])
        stderr.note(f"created an index of {table} on {', '.join(columns or ())}")


def migrate(
    context: typer.Context,
    plan: Annotated[
        bool, typer.Option("--plan", help="List the pending migrations without applying them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply pending migrations in one transaction. They run in the order of their names."""
    with open_tables(context) as tables:
        files = [{"name": file.name, "sql": file.sql} for file in find(tables.root)]
        for warning in ignored(tables.root):
            stderr.warn(warning.message, warning.hint)
        pending = tables.post("migrations", {"files": files, "plan": plan})["applied"]
        names = tables.get("migrations")["applied"]
    if as_json:
        stdout.data({"plan": plan, "new": pending, "applied": names})
        return
    for name in pending:
        stdout.line(name)
    if not files:
        stderr.note(f"the project has no migrations; the first is a file {MIGRATIONS_FOLDER}/0001-name.sql")
    elif not pending:
        stderr.note(f"no pending migrations; {len(names)} applied before")
    else:
        stderr.note(f"{plural(len(pending), 'migration')} {'pending' if plan else 'applied'}")


def migration(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the file after its number.")],
) -> None:
    """Write a migration from changes that have none. It is recorded as applied here."""
    if context.obj or not re.fullmatch(r"[\w-]+", name):
        message = "a migration has a name of letters, digits, - and _, and is not written with --service"
        raise InvalidUsage(message, "Run `svc tables migration add-color`.")
    root = find_project(Path.cwd())
    written = write(root, root / DATA_DIR, name)
    for file in written.files:
        stdout.line(file)
    if written.files:
        stderr.note(
            f"recorded as applied here: {', '.join(written.names) or 'the tables are as it makes them'}"
        )
    elif not written.left_out:
        stderr.note("nothing to write: the migrations make the tables as they are")
    if written.left_out:
        stderr.warn(
            f"left out, because rows may lose values: {', '.join(written.left_out)}",
            f"Write the SQL into a new {MIGRATIONS_FOLDER}/*.sql, then run this command again to record it.",
        )


def _types(tables: Tables) -> ColumnTypes:
    return ColumnTypes.from_document(tables.get("tables/types"))


def _change(tables: Tables, changes: list[dict[str, Any]]) -> None:
    tables.post("schema", {"changes": changes})
