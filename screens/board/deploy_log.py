"""Log of a deploy as styled lines. Does not import Textual."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from screens.board.cards import Line
from screens.board.deploy_protocol import STEPS, DeployPlan, DeployProgress, LiveDeployment, Step
from screens.board.details import error_lines
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Tone
from svc_tui.client import SvcError
from svc_tui.deploy.format import Difference
from svc_tui.terminal.units import plural, size

Phase = Literal["planning", "planned", "running", "live", "failed"]
_STEP_CELLS = 10
_MARKS: dict[str, Tone] = {"+": "good", "-": "bad", "~": "accent", "!": "warn"}


@dataclass(frozen=True, slots=True)
class DeployLog:
    """The state of a deploy: progress of its steps, its plan, and its outcome."""

    phase: Phase = "planning"
    events: tuple[DeployProgress, ...] = ()
    _: KW_ONLY
    plan: DeployPlan | None = None
    allowed: bool = False
    message: str = ""
    unsaved_edits: int = 0
    live: LiveDeployment | None = None
    error: SvcError | None = field(default=None, compare=False)

    def add(self, progress: DeployProgress) -> "DeployLog":
        """Return the log with one more progress event; it replaces a transient one."""
        before = self.events
        if before and before[-1].transient:
            before = before[:-1]
        return replace(self, events=(*before, progress))

    @property
    def ready(self) -> bool:
        """True if the planned deploy can be started."""
        plan = self.plan
        return self.phase == "planned" and plan is not None and (self.allowed or not plan.needs_approval)

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
            first = self._event_text(step, events[:1])
            lines.append((*head, *first))
            lines += [
                ((" " * (_STEP_CELLS + 2), ""), *self._event_text(step, [event])) for event in events[1:]
            ]
        return lines

    def _event_text(self, step: Step, events: Sequence[DeployProgress]) -> Line:
        if not events:
            return (("…", "dim"),) if step == "build" and self.phase == "planning" else ()
        return ((sanitize(events[0].text), "dim" if events[0].transient else ""),)

    def _planned(self) -> list[Line]:
        plan = self.plan
        if plan is None or self.phase not in ("planned", "running", "failed"):
            return []
        title = (
            f"deploy to {plan.service}, replacing {plan.live}"
            if plan.live
            else f"first deploy to {plan.service}"
        )
        upload = f"{plural(plan.files, 'file')}, {size(plan.size)} to upload"
        lines: list[Line] = [(), ((title, "bold"),), *difference_lines(plan.differences)]
        if plan.up_to_date:
            lines.append((("no changes: this version is already live", "good"),))
        elif not plan.differences:
            lines.append((("no changes except the deployment itself", "dim"),))
        lines.append(((upload if plan.files else "nothing to upload", "dim"),))
        lines += [((f"migration {name}", "dim"),) for name in plan.migrations]
        lines += [((sanitize(text), "warn"),) for text in plan.warnings]
        if self.message:
            lines.append((("message  ", "dim"), (sanitize(self.message), "")))
        if self.unsaved_edits:
            edits = (
                "1 edit of svc.toml is"
                if self.unsaved_edits == 1
                else f"{self.unsaved_edits} edits of svc.toml are"
            )
            lines.append(((f"{edits} unsaved and not part of this deploy", "warn"),))
        if plan.needs_approval and not self.allowed:
            text = "lines with ! are new capabilities, or mounts that it would undo; press A to allow them"
            lines.append(((text, "warn"),))
        return lines

    def _ended(self) -> list[Line]:
        lines: list[Line] = [()]
        if self.error is not None:
            return lines + error_lines(self.error.message, self.error.hint)
        if self.live is None:
            return []
        width = max((len(address.resource) for address in self.live.addresses), default=0)
        lines.append((("● ", "good"), (f"{self.live.deployment} is live", "bold")))
        return lines + [
            (
                (f"  {address.resource:<{width}}", "accent"),
                (f"  {address.lane:<6}  ", "dim"),
                (address.location, ""),
            )
            for address in self.live.addresses
        ]


def difference_lines(differences: Iterable[Difference]) -> list[Line]:
    """Return one line per difference."""
    differences = tuple(differences)
    width = max((len(difference.resource) for difference in differences), default=0)
    return [
        (
            (f"{difference.mark} ", _MARKS[difference.mark]),
            (f"{difference.resource:<{width}}  ", "bold"),
            (sanitize(difference.text), ""),
        )
        for difference in differences
    ]
