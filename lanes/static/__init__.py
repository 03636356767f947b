"""The static lane: a folder of files."""

from engine.manifest.lanes import LaneSpec

SPEC = LaneSpec(name="static", kind="image", needs_output=True)
