"""Options that several commands share."""

from typing import Annotated

import typer

from engine.control.access import Role

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
MaxBody = Annotated[
    int, typer.Option(metavar="MIB", min=1, max=1024, help="Maximum request body size in MiB.")
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
]
RoleName = Annotated[Role, typer.Option("--role", metavar="ROLE", help="Role: viewer, deployer or owner.")]
Workers = Annotated[
    int, typer.Option("--workers", "-w", metavar="N", min=1, max=64, help="Number of worker processes.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]
