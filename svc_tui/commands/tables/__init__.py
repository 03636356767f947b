"""`svc tables`: the tables of a Project without the Console, while it is served and when it is not."""

from typing import Annotated

import typer

from svc_tui.commands.tables import files, migrate, query, schema, show
from svc_tui.commands.tables.target import Place

tables = typer.Typer(help="Look at the tables of the Project, change them, move rows in and out.")


@tables.callback()
def _tables(
    context: typer.Context,
    service: Annotated[
        bool,
        typer.Option("--service", help="The Project on the service you are logged in to, not the one here."),
    ] = False,
) -> None:
    context.obj = Place(service)


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
tables.command("migrate")(migrate.migrate)
