"""The build cache of Go, which the installation of the toolchains fills without pytest."""

from pathlib import Path


def go_build_cache(cache: Path) -> Path:
    """Return the build cache of Go for all tests: its standard library takes 100 CPU seconds to compile."""
    return cache / "go-build"
