"""How a deploy tells of a build, on the command line and in the Console. Owns this line.

Apart from `deployview.py`, which the screens use: they know nothing of the engine.
"""

from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.manifest.model import Resource
from svc_tui.dev.request_log import duration


def built_line(resource: Resource, artifact: Artifact, seconds: float, width: int, *, unchanged: bool) -> str:
    """Return the line of a Resource that is built; `width` is that of the longest name."""
    digest = artifact.digest[:12] if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
    how = "unchanged" if unchanged else f"built in {duration(int(seconds * 1e9))}"
    return f"{resource.name:<{width}}  {resource.lane:<6}  sha256:{digest}…  {how}"
