"""Resources for tests of the Board."""

from screens.board.project import Resource


def resource(name: str, lane: str, *, public: bool = True) -> Resource:
    """Return a resource with default limits."""
    return Resource(
        name=name,
        lane=lane,
        kind="image" if lane == "static" else "component",
        public=public,
        run_limit_secs=30,
        memory_limit_mb=128,
        egress=(),
        env=(),
        secrets=(),
    )
