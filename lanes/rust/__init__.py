"""The rust lane: cargo builds a crate to a wasi:http component."""

from engine.manifest.model import LaneSpec

SPEC = LaneSpec(name="rust", tone="orange")
