"""Deploys as the Board shows them: protocol of its deployer, and steps. Does not import Textual."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Protocol

from screens.board.cards import Line, error_lines
from screens.widgets.rows import Tone, sanitize
from svc_tui.client import SvcError
from svc_tui.deploy.format import (
    DeployProgress,
    Difference,
    OnProgress,
    Step,
    differences,
    location,
    project_address,
)
from svc_tui.terminal.units import plural, size

STEPS: tuple[Step, ...] = ("build", "upload", "policy", "activate")


Document = Mapping[str, Any]
"""A response of the control API."""


class BoardDeployer(Protocol):
    """Deploys one project to its service. Methods block and raise `SvcError`."""

    has_files: bool
    """True if the project's files are available, so that it can be deployed."""

    def plan(self, on_progress: OnProgress) -> Document:
        """Build the project and return what a deploy would change: the plan of the service, and more.

        `service` is its key, `size` the number of bytes to upload, and `drift` has the mounts that the deploy
        would undo.
        """
        ...

    def run(self, on_progress: OnProgress, *, allow: bool, message: str) -> Document:
        """Deploy the last plan. Return the deployment, which is live now, and its addresses."""
        ...

    def cancel(self) -> bool:
        """Cancel the build or upload. Return whether it was possible: a commit cannot be canceled."""
        ...

    def call(self, method: str, path: str, body: Document | None = None) -> Document:
        """Return the response of the service to a request below the path of the project."""
        ...


Phase = Literal["planning", "planned", "running", "live", "failed"]
_STEP_CELLS = 10
_MARKS: dict[str, Tone] = {"+": "good", "-": "bad", "~": "accent", "!": "warn"}


@dataclass(frozen=True, slots=True)
class DeployLog:
    """The state of a deploy: progress of its steps, its plan, and its outcome."""

    phase: Phase = "planning"
    events: tuple[DeployProgress, ...] = ()
    _: KW_ONLY
    plan: Document | None = None
    allowed: bool = False
    message: str = ""
    unsaved_edits: int = 0
    live: Document | None = None
    error: SvcError | None = field(default=None, compare=False)

    def add(self, progress: DeployProgress) -> "DeployLog":
        """Return the log with one more progress event; it replaces a transient one."""
        before = self.events
        if before and before[-1].transient:
            before = before[:-1]
        return replace(self, events=(*before, progress))

    @property
    def differences(self) -> Sequence[Difference]:
        """The changes of the planned deploy, also of mounts that it undoes."""
        if self.plan is None:
            return ()
        undone = (Difference("!", mount.resource, mount.drift) for mount in self.plan["drift"])
        return (*differences(self.plan["changes"]), *undone)

    @property
    def needs_approval(self) -> bool:
        """True if the user must still approve lines of the plan."""
        return not self.allowed and any(difference.mark == "!" for difference in self.differences)

    @property
    def up_to_date(self) -> bool:
        """True if the planned deploy changes nothing."""
        plan = self.plan or {"live": None}
        return plan["live"] is not None and not (self.differences or plan["migrations"] or plan["missing"])

    def lines(self) -> list[Line]:
        """Return the complete log: steps, changes, and the next action."""
        return [*self._steps(), *self._planned(), *self._ended()]

    def _steps(self) -> list[Line]:
        at = max((STEPS.index(event.step) for event in self.events), default=0)
        lines: list[Line] = []
        for number, step in enumerate(STEPS):
            events = [event for event in self.events if event.step == step]
            tone: Tone = "" if number < at or self.phase == "live" else "dim"
            if number == at and self.phase in ("planning", "running"):
                tone = "accent"
            head: Line = ((f"{number + 1} ", "dim"), (f"{step:<{_STEP_CELLS}}", tone))
            none: Line = (("…", "dim"),) if step == "build" and self.phase == "planning" else ()
            texts: list[Line] = [((sanitize(each.text), "dim" if each.transient else ""),) for each in events]
            for text in texts or [none]:
                lines.append((*head, *text))
                head = ((" " * (_STEP_CELLS + 2), ""),)
        return lines

    def _planned(self) -> list[Line]:
        plan = self.plan
        if plan is None or self.phase not in ("planned", "running", "failed"):
            return []
        replaced = f", replacing {plan['live']}" if plan["live"] else ""
        title = f"{'deploy' if plan['live'] else 'first deploy'} to {plan['service']}{replaced}"
        upload = f"{plural(len(plan['missing']), 'file')}, {size(plan['size'])} to upload"
        lines: list[Line] = [(), ((title, "bold"),), *difference_lines(self.differences)]
        if self.up_to_date:
            lines.append((("no changes: this version is already live", "good"),))
        elif not self.differences:
            lines.append((("no changes except the deployment itself", "dim"),))
        lines.append(((upload if plan["missing"] else "nothing to upload", "dim"),))
        lines += [((f"migration {name}", "dim"),) for name in plan["migrations"]]
        lines += [((sanitize(f"{each['message']}. {each['hint']}"), "warn"),) for each in plan["warnings"]]
        if self.message:
            lines.append((("message  ", "dim"), (sanitize(self.message), "")))
        if self.unsaved_edits:
            are = "is" if self.unsaved_edits == 1 else "are"
            edits = f"{plural(self.unsaved_edits, 'edit')} of svc.toml {are} unsaved"
            lines.append(((f"{edits} and not part of this deploy", "warn"),))
        if self.needs_approval:
            text = "lines with ! are new capabilities, or mounts that it would undo; press A to allow them"
            lines.append(((text, "warn"),))
        return lines

    def _ended(self) -> list[Line]:
        lines: list[Line] = [()]
        if self.error is not None:
            return lines + error_lines(self.error.message, self.error.hint)
        if self.live is None:
            return []
        addresses = live_addresses(self.live)
        width = max(len(address["resource"]) for address in addresses)
        lines.append((("● ", "good"), (f"{self.live['deployment']['id']} is live", "bold")))
        return lines + [
            (
                (f"  {address['resource']:<{width}}", "accent"),
                (f"  {address['lane']:<6}  ", "dim"),
                (location(address), ""),
            )
            for address in addresses
        ]


def live_addresses(live: Document) -> list[Document]:
    return [project_address(live), *live["addresses"]]


def difference_lines(differences: Sequence[Difference]) -> list[Line]:
    """Return one line per difference."""
    width = max((len(difference.resource) for difference in differences), default=0)
    return [
        (
            (f"{difference.mark} ", _MARKS[difference.mark]),
            (f"{difference.resource:<{width}}  ", "bold"),
            (sanitize(difference.text), ""),
        )
        for difference in differences
    ]
