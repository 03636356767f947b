"""`svc tables`: the tables of a project from the command line, with or without a running server."""

from typing import Annotated

import typer

from svc_tui.commands.tables import files, query, schema, show

tables = typer.Typer(help="Show, query, change, import and export the project's tables.")


@tables.callback()
def _tables(
    context: typer.Context,
    service: Annotated[
        bool, typer.Option("--service", help="Use the project on the service you are logged in to.")
    ] = False,
) -> None:
    context.obj = service


tables.command("list")(show.list_tables)
tables.command("show")(show.show)
tables.command("create")(schema.create)
tables.command("alter")(schema.alter)
tables.command("rename")(schema.rename)
tables.command("drop")(schema.drop)
tables.command("index")(schema.index)
tables.command("query")(query.query)
tables.command("import")(files.load)
tables.command("export")(files.save)
tables.command("migrate")(schema.migrate)
tables.command("migration")(schema.migration)
