"""`svc tables migrate`: the Project's files `tables/*.sql`, applied by hand."""

from typing import Annotated

import typer

from doors.tables.migrations import FOLDER, find
from svc_tui.commands.tables.target import place
from svc_tui.terminal import stderr, stdout


def migrate(
    context: typer.Context,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be applied, and apply nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Apply the migrations that are new, in the order of their names, all of them or none."""
    with place(context).tables() as tables:
        files = [{"name": each.name, "sql": each.sql} for each in find(tables.root)]
        found = tables.post("migrations", {"files": files, "plan": plan})
        done = tables.get("migrations")["applied"]
    if as_json:
        stdout.data({"plan": plan, "now": found["applied"], "applied": done})
        return
    for name in found["applied"]:
        stdout.line(name)
    if not files:
        stderr.note(f"there are no migrations: a file {FOLDER}/0001-what.sql is one")
    elif not found["applied"]:
        stderr.note(f"nothing is new: {len(done)} applied before")
    else:
        count = len(found["applied"])
        what = "would be applied" if plan else "applied"
        stderr.note(f"{count} migration{'' if count == 1 else 's'} {what}")
