"""`svc tables create`, `alter`, `rename`, `drop` and `index`: changes of the schema, whole or not at all."""

from typing import Annotated, Any

import typer

from engine.errors import SvcError
from svc_tui.commands.tables import parsing
from svc_tui.commands.tables.show import Table
from svc_tui.commands.tables.target import Tables, agree, place
from svc_tui.terminal import stderr

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before values are lost.")]


def create(
    context: typer.Context,
    table: Table,
    columns: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME:TYPE[,RULE]…",
            help="Columns; rules are key, not null, unique, default=VALUE, note=TEXT.",
        ),
    ],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What the table is for.")] = "",
) -> None:
    """Make a table: svc tables create users id:integer,key name:text,unique at:timestamp,default=now()"""
    made = [parsing.column(text) for text in columns]
    _change(context, [{"op": "create-table", "table": table, "columns": made, "note": note}])
    stderr.note(f"made the table {table}")


def alter(
    context: typer.Context,
    table: Table,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE [, CHANGE]…",
            help="add COLUMN, rename COLUMN NAME, retype COLUMN TYPE, drop COLUMN, null, not-null, unique or "
            "not-unique COLUMN, default COLUMN VALUE, no-default COLUMN, key COLUMN…, no-key, "
            "note [COLUMN] TEXT.",
        ),
    ],
    yes: Yes = False,
) -> None:
    """Change a table, all or nothing: svc tables alter users add age:integer , rename name full_name"""
    with place(context).tables() as tables:
        changes = parsing.changes(table, words, lambda name: _type(tables, table, name))
        lost = [change["column"] for change in changes if change["op"] == "drop-column"]
        if lost:
            agree(f"drop {', '.join(lost)} of {table} and the values in it?", yes=yes)
        tables.post("schema", {"changes": changes})
    stderr.note(f"changed the table {table}")


def _type(tables: Tables, table: str, column: str) -> str:
    found = tables.get("table", name=table)
    for each in found["columns"]:
        if each["name"].lower() == column.lower():
            return str(each["type"])
    names = ", ".join(each["name"] for each in found["columns"])
    raise SvcError(f"table {table} has no column {column}", f"It has {names}.")


def rename(
    context: typer.Context,
    table: Table,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
) -> None:
    """Give a table another name; what refers to it follows."""
    _change(context, [{"op": "rename-table", "table": table, "name": name}])
    stderr.note(f"renamed {table} to {name}")


def drop(context: typer.Context, table: Table, yes: Yes = False) -> None:
    """Remove a table and its rows."""
    with place(context).tables() as tables:
        found = tables.get("table", name=table)
        if found["rows"] != 0:
            count = found["rows"]
            rows = "all its rows" if count is None else "its row" if count == 1 else f"its {count} rows"
            agree(f"drop {found['name']} and {rows}?", yes=yes)
        tables.post("schema", {"changes": [{"op": "drop-table", "table": table}]})
    stderr.note(f"dropped the table {table}")


def index(
    context: typer.Context,
    table: Table,
    columns: Annotated[list[str] | None, typer.Argument(metavar="[COLUMN]…", help="In this order.")] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="No two rows have the same values in them.")
    ] = False,
    name: Annotated[str, typer.Option("--name", help="The index's name, if not after the columns.")] = "",
    drop: Annotated[str, typer.Option("--drop", metavar="NAME", help="Remove this index instead.")] = "",
) -> None:
    """Make an index, which spares reads the rows that they do not ask for; or remove one."""
    if bool(drop) == bool(columns):
        raise SvcError(
            "say the columns of the index, or --drop and its name",
            f"svc tables index {table} COLUMN…",
            code="usage",
        )
    if drop:
        with place(context).tables() as tables:
            found = [each["name"] for each in tables.get("table", name=table)["indexes"]]
            if drop not in found:
                raise SvcError(
                    f"table {table} has no index {drop}",
                    f"It has {', '.join(found)}." if found else "It has none of its own.",
                )
            tables.post("schema", {"changes": [{"op": "drop-index", "name": drop}]})
        stderr.note(f"dropped the index {drop}")
        return
    made = {"op": "create-index", "table": table, "columns": columns, "unique": unique, "name": name}
    _change(context, [made])
    stderr.note(f"made an index of {table} on {', '.join(columns or ())}")


def _change(context: typer.Context, changes: list[dict[str, Any]]) -> None:
    with place(context).tables() as tables:
        tables.post("schema", {"changes": changes})
