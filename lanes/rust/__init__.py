"""The rust lane: cargo makes a wasi:http component of a crate."""

from engine.manifest.lanes import LaneSpec

SPEC = LaneSpec(name="rust")
