"""Many applications in one process: hello of many js resources requested in turn, against one of them alone.

Each is its own component. The peer is the same process with as many requests for one resource, in turns with
the other; half of the rounds begin with either.
"""

import tempfile
from pathlib import Path
from statistics import median

from bench.load import Load
from bench.processes import svc_dev, write_results

RESOURCES = 24
CONNECTIONS = 4
ROUNDS = 8
SECONDS = 2.0
WARM_UP = 3.0
HEAD = '[project]\nname = "many"\nfront = "r0"\n'
RESOURCE = '\n[resource.r{number}]\nlane = "js"\nworkdir = "r{number}"\npublic = true\n'
SOURCE = "export default {{ fetch() {{ return new Response('hello from {number}\\n'); }} }};\n"


def make(project: Path) -> None:
    """Write a project with `RESOURCES` resources."""
    numbers = range(RESOURCES)
    (project / "svc.toml").write_text(HEAD + "".join(RESOURCE.format(number=number) for number in numbers))
    for number in numbers:
        (project / f"r{number}").mkdir()
        (project / f"r{number}" / "index.js").write_text(SOURCE.format(number=number))


def measure(port: int) -> dict[str, list[float]]:
    """Return requests a second of each round, by peer."""
    hosts = [f"r{number}--many.localhost" for number in range(RESOURCES)]
    loads = {
        "one": Load(port, f"{hosts[0]}/", CONNECTIONS, 0),
        "many": Load(port, ",".join(f"{host}/" for host in hosts), CONNECTIONS, 0),
    }
    found: dict[str, list[float]] = {name: [] for name in loads}
    for each in loads.values():
        each.run(WARM_UP)
        each.settle()
    for number in range(ROUNDS):
        for name in sorted(loads, reverse=bool(number % 2)):
            result = loads[name].run(SECONDS)
            loads[name].settle()
            assert not result["failed"], f"{result['failed']} requests failed"
            found[name].append(result["requests"] / result["seconds"])
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        make(Path(folder))
        with svc_dev(Path(folder), "--release") as port:
            found = measure(port)
    ratio = median(many / one for many, one in zip(found["many"], found["one"], strict=True))
    rates = {f"{name}_rps": median(values) for name, values in found.items()}
    write_results("many", {"ratio": ratio, "resources": RESOURCES, **rates})
    print(f"many: {RESOURCES} applications in turn have {ratio:.2f} of the requests a second of one alone")


if __name__ == "__main__":
    main()
