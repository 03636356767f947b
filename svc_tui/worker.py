"""Entry point of a worker process: the engine's worker with the installed Doors."""

import gc
import sys

from engine.workers.worker import main
from svc_tui.composition import doors

if __name__ == "__main__":
    main(sys.argv[1:], doors())
    gc.freeze()  # no collection at exit
