"""Resources for tests of the Board."""

from screens.board.project import BoardResource


def resource(name: str, lane: str, *, public: bool = True) -> BoardResource:
    """Return a resource with default limits."""
    return BoardResource(
        name=name,
        lane=lane,
        tone="dim",
        kind="image" if lane == "static" else "component",
        public=public,
        run_limit_secs=30,
        memory_limit_mb=128,
        egress=(),
        env=(),
        secrets=(),
    )
