"""Entry point of a worker process: the engine's worker with the installed Doors."""

import gc
import sys


def main() -> None:
    """Run a worker with the descriptors on the command line."""
    gc.set_threshold(200_000)  # imports create little garbage; the server sets its own threshold
    from engine.workers.worker import main as run_worker
    from svc_tui.composition import doors

    run_worker(sys.argv[1:], doors())
    gc.freeze()  # no collection at exit


if __name__ == "__main__":
    main()
