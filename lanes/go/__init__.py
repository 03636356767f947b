"""The go lane: mainline Go to a wasi:http component."""

from engine.manifest.model import LaneSpec

SPEC = LaneSpec(name="go", build_variables=("TZ",), tone="teal")
