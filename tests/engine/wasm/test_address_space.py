import subprocess
import sys

PROGRAM = """
import gc, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 30,) * 2)
from engine.errors import SvcError
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import PoolSettings, create_engine
from engine.wasm.execution.pool import fit_pool
try:
    settings = fit_pool(PoolSettings(instances=2048))
except SvcError as error:
    sys.exit(error.message)
if "closed" in sys.argv:
    gc.disable()
    closed = [create_engine(Compiler.OPTIMIZING, settings.instances, 1024, warm=False)]
    closed.append(closed)
    del closed
    settings = fit_pool(PoolSettings(instances=2048))
engines = [create_engine(compiler, settings.instances, 1024, warm=False) for compiler in Compiler]
print(settings.instances)
"""


def instances(gigabytes: int, *options: str) -> tuple[str, str]:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(gigabytes), *options], capture_output=True, text=True, check=False
    )
    return process.stdout.strip(), process.stderr.strip()


def test_large_address_space_fits_all_instances() -> None:
    assert instances(100_000) == ("2048", "")


def test_limited_address_space_reduces_instances() -> None:
    assert instances(6_000) == ("128", "")


def test_too_small_address_space_raises_svc_error() -> None:
    assert instances(100) == ("", "the address space of this process is too small to run guests")


def test_address_space_of_closed_runner_is_used_again() -> None:
    assert instances(90_000, "closed") == ("2048", "")
