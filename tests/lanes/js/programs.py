"""The programs in this folder, built together."""

from collections.abc import Iterable
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode
from tests.lanes.js.sources import Sources, ask
from tests.support.guest_client import Answer

PROGRAMS = ("odd", "guest_library", "tables", "web", "brotli", "crypto", "memory", "blob")
"""Files of programs in this folder, which `Programs` builds together."""
INDEX = """\
const programs = {{ {names} }};
export default {{
  fetch: (request, env, context) => programs[env.PROGRAM].fetch(request, env, context),
}};
"""


class Programs(Sources):
    """Builds of `PROGRAMS`. The variable `PROGRAM` names the program that answers.

    The deploy build has all programs, so that their component is compiled once for all tests. A dev build has
    one, because each request evaluates it.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        super().__init__(root, cache)
        self._artifacts: dict[str, ComponentArtifact] = {}

    def artifact(self, program: str, mode: BuildMode) -> ComponentArtifact:
        names = PROGRAMS if mode == "deploy" else (program,)
        key = " ".join(names)
        if key not in self._artifacts:
            sources = self if mode == "deploy" else Sources(self.root / program, self.cache)
            for name in names:
                sources.write(f"{name}.js", Path(__file__).with_name(f"{name}.js").read_text())
            imports = (f"import {name} from './{name}.js'; " for name in names)
            sources.write("index.js", "".join(imports) + INDEX.format(names=", ".join(names)))
            self._artifacts[key] = sources.build(mode)
        return self._artifacts[key]

    def answers(self, program: str, mode: BuildMode, targets: Iterable[str]) -> dict[str, Answer]:
        """Return the response of a program to each target."""
        targets = list(targets)
        replies = ask(self, self.artifact(program, mode), *targets, environment={"PROGRAM": program})
        return dict(zip(targets, replies, strict=True))
