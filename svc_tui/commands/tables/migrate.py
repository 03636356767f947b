"""`svc tables migrate`: apply the project's migrations, the files `tables/*.sql`."""

from typing import Annotated

import typer

from doors.tables.migrations import FOLDER, find
from svc_tui.commands.options import AsJson
from svc_tui.commands.tables.target import open_tables
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import plural


def migrate(
    context: typer.Context,
    plan: Annotated[
        bool, typer.Option("--plan", help="List the pending migrations without applying them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply pending migrations in the order of their names, in one transaction."""
    with open_tables(context) as tables:
        files = [{"name": file.name, "sql": file.sql} for file in find(tables.root)]
        pending = tables.post("migrations", {"files": files, "plan": plan})["applied"]
        applied = tables.get("migrations")["applied"]
    if as_json:
        stdout.data({"plan": plan, "new": pending, "applied": applied})
        return
    for name in pending:
        stdout.line(name)
    if not files:
        stderr.note(f"the project has no migrations; the first one is a file {FOLDER}/0001-name.sql")
    elif not pending:
        stderr.note(f"no pending migrations; {len(applied)} applied before")
    else:
        stderr.note(f"{plural(len(pending), 'migration')} {'pending' if plan else 'applied'}")
