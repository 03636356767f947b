"""The go lane: mainline Go to a wasi:http component."""

from engine.manifest.lanes import LaneSpec

SPEC = LaneSpec(name="go", build_variables=("TZ",), tone="teal")
