"""`svc notify`."""

import typer

from engine.errors import SvcError
from svc_tui.client.credentials import current_client
from svc_tui.commands.options import AsJson
from svc_tui.terminal import stdout

notify = typer.Typer(help="Test the delivery of alerts.", rich_markup_mode=None, no_args_is_help=True)


@notify.callback()
def _notify() -> None:
    """Test the delivery of alerts."""


@notify.command()
def test(as_json: AsJson = False) -> None:
    """Send a test alert to each receiver of the service."""
    with current_client() as client:
        attempts = client.call("POST", "/v1/alerts/test", {})["attempts"]
    if as_json:
        stdout.data(attempts)
    else:
        for attempt in attempts:
            stdout.line(f"{attempt['target']}  {attempt['error'] or 'accepted'}")
    if failed := [attempt["target"] for attempt in attempts if attempt["error"]]:
        raise SvcError(
            f"{', '.join(failed)} did not accept the test", "Check the URL that svc serve got by --notify."
        )
