"""Lines and modules of the product, which may only become fewer.

`python -m tests.support.size` prints them beside the maximum in `tests/size.txt`.
"""

from pathlib import Path

from tests.support.tracked import ROOT, tracked

PRODUCT = ("svc_tui", "engine", "lanes", "doors", "screens")
SIZES = ROOT / "tests" / "size.txt"


def modules() -> list[Path]:
    """Return the Python files of the product."""
    return [path for path in tracked(".py") if path.relative_to(ROOT).parts[0] in PRODUCT]


def size() -> dict[str, int]:
    """Return the counts of lines and of modules."""
    paths = modules()
    return {"lines": sum(path.read_text("utf-8").count("\n") for path in paths), "modules": len(paths)}


def maximum() -> dict[str, int]:
    """Return the committed maximum."""
    rows = (row.split() for row in SIZES.read_text("utf-8").splitlines())
    return {name: int(number) for name, number in rows}


if __name__ == "__main__":
    most = maximum()
    for name, number in size().items():
        print(f"{name} {number} (maximum: {most[name]})")
