"""Benchmarks: ratios against a peer measured in the same run, on the same machine, interleaved."""
