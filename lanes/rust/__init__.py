"""The rust lane: cargo builds a crate to a wasi:http component."""

from engine.manifest.lanes import LaneSpec

SPEC = LaneSpec(name="rust", tone="orange")
