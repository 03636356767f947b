"""Entry point of a worker process: the engine's worker with the installed Doors."""

import sys

from svc_tui.garbage_collection import collect_for_server, relax_garbage_collection


def main() -> None:
    """Run a worker with the descriptors on the command line."""
    relax_garbage_collection()  # before the imports
    from engine.workers.worker import main as run_worker
    from svc_tui.composition import doors

    collect_for_server()
    run_worker(sys.argv[1:], doors())


if __name__ == "__main__":
    main()
