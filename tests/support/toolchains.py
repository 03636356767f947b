"""Environment of builds with Rust and Go in tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

GO_PROXY = os.environ.get("GOPROXY", "")
"""The user's module proxy; Go's default if empty."""


def rust_prefix(cache: Path) -> Path:
    """Return the folder of the toolchain that `tests/toolchains/rust/setup.sh` builds on some machines."""
    return cache / "rust-toolchain"


def use_rust(patch: pytest.MonkeyPatch, cache: Path) -> None:
    """Put that toolchain first on PATH, if it was built, and build without optimizations."""
    # Optimizing the guest library costs more than half of the time of a build.
    patch.setenv("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
    prefix = rust_prefix(cache)
    if (prefix / "complete").exists():
        patch.setenv("PATH", f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")


def use_go(patch: pytest.MonkeyPatch, cache: Path) -> None:
    """Place Go's modules beside the other toolchains, and disable downloads and the user's settings."""
    patch.setenv("GOPATH", str(cache / "go-path"))
    patch.setenv("GOENV", "off")
    patch.setenv("GOPROXY", "off")
    patch.setenv("GOTELEMETRY", "off")
    for name in ("GOFLAGS", "GOWORK", "GO111MODULE", "GOTOOLCHAIN"):
        patch.delenv(name, raising=False)


@contextmanager
def rust_and_go(cache: Path) -> Iterator[None]:
    """Set the environment for both toolchains."""
    with pytest.MonkeyPatch.context() as patch:
        use_rust(patch, cache)
        use_go(patch, cache)
        yield
