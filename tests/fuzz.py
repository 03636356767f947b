"""Rounds of the property tests, with more and other examples in each, until the time is over or one fails.

`python -m tests.fuzz HOURS [SEED] [TEST...]` runs tests named as for `pytest`, by default all. Round `n` uses
the seed `SEED + n`. Failing examples are stored in `.hypothesis/examples` and tried first in later runs.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FACTORS = (2, 10, 50)
"""Examples of the first rounds, as multiples of those of `make test`; later rounds repeat the last one."""
STOP_SECONDS = 60
SELECTED = "(hypothesis or fuzz) and not alone"
NO_TESTS, INTERRUPTED = 5, 2


def run(number: int, seed: int, seconds: float, tests: list[str]) -> int | None:
    """Run a round; return the exit status of pytest, or `None` if the time was over before its end."""
    factor = FACTORS[min(number, len(FACTORS) - 1)]
    print(f"round {number + 1}: {factor} times the examples, seed {seed + number}", flush=True)
    options = ["-q", "-n", "auto", "--maxprocesses", "8", "--timeout", "3600", "-m", SELECTED]
    options += ["--fuzz", str(factor), f"--hypothesis-seed={seed + number}", *tests]
    with subprocess.Popen([sys.executable, "-m", "pytest", *options], cwd=ROOT) as process:
        try:
            return process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            return None


def main(hours: float, seed: int, tests: list[str]) -> int:
    end = time.monotonic() + hours * 3600
    rounds = 0
    while time.monotonic() < end:
        status = run(rounds, seed, end - time.monotonic(), tests)
        if status is None:
            break
        if status:
            print(f"fuzz rounds={rounds} failed; repeat it: make fuzz SEED={seed + rounds}")
            return status
        rounds += 1
    print(f"fuzz hours={hours:g} seed={seed} rounds={rounds} failures=0")
    return 0


if __name__ == "__main__":
    SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    sys.exit(main(float(sys.argv[1]), SEED, sys.argv[3:]))
