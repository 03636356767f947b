"""The js lane: JavaScript and TypeScript on the fetch contract."""

from engine.manifest.lanes import LaneSpec
from lanes.js.entry import default_entry

SPEC = LaneSpec(
    name="js",
    default_entry=default_entry,
    build_variables=("NODE_ENV",),
    build_for_memory=True,
    tone="yellow",
)
