"""Changes of svc.toml that allow what a record says was denied: shown as a diff, written, undone."""

from collections.abc import Mapping
from typing import Any

from screens.board.details import diff_lines
from screens.console_screen import ConsoleScreen
from screens.dialog import ConfirmDialog
from screens.project_client import ProjectClient
from svc_tui.client import SvcError

APPLIES = "svc dev applies it at once; the next deploy applies it to the service."


class GrantDialog(ConfirmDialog):
    """Asks whether to make a change, which its lines show."""

    DEFAULT_CSS = "GrantDialog > VerticalScroll { border-left: outer $primary; }"


class Grants:
    """The changes that a screen wrote, in order. Call the methods from a worker of the screen."""

    def __init__(self, screen: ConsoleScreen, client: ProjectClient) -> None:
        self._screen, self._client = screen, client
        self._written: list[list[Mapping[str, Any]]] = []

    async def offer(self, document: Mapping[str, Any]) -> None:
        """Show the change that a record names, and make it if the user confirms. Raises `SvcError`."""
        grant = document.get("grant")
        if grant is None:
            raise SvcError(
                "nothing was denied in this record", "Select a record that names the line to add to svc.toml."
            )
        if not grant["edit"]:
            await self._offer_copy("A command allows this", "Run it in a terminal:", grant["line"])
        elif self._client.info.kind == "service":
            text = f"Add it to [resource.{grant['edit']['resource']}] in svc.toml, then run svc deploy:"
            await self._offer_copy("A line of svc.toml allows this", text, grant["line"])
        elif await self._write([grant["edit"]], "Change svc.toml?"):
            self._screen.notify("wrote svc.toml; u undoes it", markup=False, timeout=4)

    async def undo(self) -> None:
        """Show the change that undoes the last one, and make it if the user confirms. Raises `SvcError`."""
        if not self._written:
            raise SvcError("there is no change to undo", "A writes the change that a record names.")
        changes = self._written.pop()
        try:
            written = await self._write(changes, "Undo the change of svc.toml?")
        except SvcError:
            self._written.append(changes)
            raise
        if written:
            self._written.pop()  # What undoes the undoing.
            self._screen.notify("wrote svc.toml", timeout=2)
        else:
            self._written.append(changes)

    async def _write(self, changes: list[Mapping[str, Any]], title: str) -> bool:
        plan = await self._client.call("POST", "/manifest/plan", {"changes": changes})
        if not plan["diff"]:
            raise SvcError("svc.toml allows this already", "Send the request again.")
        dialog = GrantDialog(title, APPLIES, "write svc.toml", diff_lines(plan["diff"]))
        if not await self._screen.app.push_screen_wait(dialog):
            return False
        body = {"changes": changes, "digest": plan["digest"]}
        written = await self._client.call("POST", "/manifest/write", body)
        self._written.append(written["inverse"])
        return True

    async def _offer_copy(self, title: str, text: str, line: str) -> None:
        dialog = GrantDialog(title, text, "copy", [((line, "accent"),)])
        if await self._screen.app.push_screen_wait(dialog):
            self._screen.app.copy_to_clipboard(line)
            self._screen.notify("copied", timeout=2)
