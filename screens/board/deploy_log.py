"""How a deploy goes on, as lines. Imports no Textual."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from screens.board.cards import Line
from screens.board.deploy_protocol import STEPS, Live, Plan, Progress, Step
from screens.board.details import problem
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Tone
from svc_tui.client import SvcError
from svc_tui.deploy.format import Difference, files
from svc_tui.terminal.units import size

Phase = Literal["planning", "planned", "running", "live", "failed"]
_NAME = 8
_MARKS: dict[str, Tone] = {"+": "good", "-": "bad", "~": "accent", "!": "warn"}


@dataclass(frozen=True, slots=True)
class Course:
    """A deploy as it is: what was told of its steps, its plan, and how it ended."""

    phase: Phase = "planning"
    told: tuple[Progress, ...] = ()
    plan: Plan | None = None
    allowed: bool = False
    message: str = ""
    unwritten: int = 0
    live: Live | None = None
    error: SvcError | None = field(default=None, compare=False)

    def hear(self, progress: Progress) -> "Course":
        """Return the course with what was told last."""
        before = self.told
        if before and before[-1].passing:
            before = before[:-1]
        return replace(self, told=(*before, progress))

    @property
    def ready(self) -> bool:
        """Whether it may go live now."""
        plan = self.plan
        return self.phase == "planned" and plan is not None and (self.allowed or not plan.grave)

    def lines(self) -> list[Line]:
        """Return it all: the steps, what changes, and what to do next."""
        return [*self._steps(), *self._planned(), *self._ended()]

    def _steps(self) -> list[Line]:
        at = max((STEPS.index(each.step) for each in self.told), default=0)
        lines: list[Line] = []
        for number, step in enumerate(STEPS):
            told = [each for each in self.told if each.step == step]
            tone: Tone = "" if number < at or self.phase == "live" else "dim"
            if number == at and self.phase in ("planning", "running"):
                tone = "accent"
            head: Line = ((f"{number + 1} ", "dim"), (f"{step:<{_NAME}}", tone))
            first = self._said(step, told[:1])
            lines.append((*head, *first))
            lines += [((" " * (_NAME + 2), ""), *self._said(step, [each])) for each in told[1:]]
        return lines

    def _said(self, step: Step, told: Sequence[Progress]) -> Line:
        if not told:
            return (("…", "dim"),) if step == "build" and self.phase == "planning" else ()
        return ((sanitize(told[0].text), "dim" if told[0].passing else ""),)

    def _planned(self) -> list[Line]:
        plan = self.plan
        if plan is None or self.phase not in ("planned", "running", "failed"):
            return []
        title = (
            f"to {plan.service}, where {plan.live} is live" if plan.live else f"the first to {plan.service}"
        )
        upload = f"{files(plan.files)}, {size(plan.size)} to upload"
        lines: list[Line] = [(), ((title, "bold"),), *differences(plan.differences)]
        if plan.needless:
            lines.append((("nothing has changed: what is here is live", "good"),))
        elif not plan.differences:
            lines.append((("nothing changes but the deployment itself", "dim"),))
        lines.append(((upload if plan.files else "nothing to upload", "dim"),))
        lines += [((f"migration {name}", "dim"),) for name in plan.migrations]
        if self.message:
            lines.append((("message  ", "dim"), (sanitize(self.message), "")))
        if self.unwritten:
            edits = (
                "1 edit of svc.toml is" if self.unwritten == 1 else f"{self.unwritten} edits of svc.toml are"
            )
            lines.append(((f"{edits} not written, and not in this deploy", "warn"),))
        if plan.grave and not self.allowed:
            lines.append((("! lines are new capabilities: A allows them", "warn"),))
        return lines

    def _ended(self) -> list[Line]:
        lines: list[Line] = [()]
        if self.error is not None:
            return lines + problem(self.error.message, self.error.hint)
        if self.live is None:
            return []
        width = max((len(each.resource) for each in self.live.addresses), default=0)
        lines.append((("● ", "good"), (f"{self.live.deployment} is live", "bold")))
        return lines + [
            ((f"  {each.resource:<{width}}", "accent"), (f"  {each.lane:<6}  ", "dim"), (each.place, ""))
            for each in self.live.addresses
        ]


def differences(found: Iterable[Difference]) -> list[Line]:
    """Return a line for each difference."""
    found = tuple(found)
    width = max((len(each.resource) for each in found), default=0)
    return [
        (
            (f"{each.mark} ", _MARKS[each.mark]),
            (f"{each.resource:<{width}}  ", "bold"),
            (sanitize(each.text), ""),
        )
        for each in found
    ]
