"""The static lane: a folder of files."""

from engine.manifest.model import LaneSpec

SPEC = LaneSpec(name="static", kind="image", needs_output=True)
