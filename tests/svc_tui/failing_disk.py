"""Deploys and writes of rows while the disk fails at each of their operations in turn.

`… FOLDER FIRST DISTANCE`: one operation on a file of the service or of SQLite fails with EIO, the `FIRST` one
of a change, then one `DISTANCE` further. Fails if a change that failed is half done, if its error does not
name the disk, or if the service does not continue. Prints how many changes failed.
"""

import sys
from pathlib import Path
from typing import Any

from engine.errors import SvcError
from tests.support.failing_disk import Disk, FailingVfs
from tests.svc_tui.hosted import Hosted, deploy, static_shop


def main(folder: Path, first: int, distance: int) -> None:
    data, root = folder / "data", static_shop(folder / "shop")
    disk, page, failures = Disk(str(data)), root / "site" / "index.html", 0
    vfs = FailingVfs(disk)
    disk.install()

    def deployed() -> None:
        deploy(client, root)

    def write(statement: str = "insert into t default values") -> Any:
        return client.call("POST", "/v1/projects/shop/sql", {"sql": statement, "write": True})["rows"]

    def state() -> tuple[int, int]:
        """Return the version that is served, and the number of rows."""
        return int(hosted.get().text), write("select count(*) n from t")[0]["n"]

    with Hosted(data) as hosted, hosted.claim() as client:
        page.write_text("1")
        deploy(client, root)
        write("create table t (id integer primary key)")
        for change, versions, rows in ((deployed, 1, 0), (write, 0, 1)):
            for number in range(first, first + distance * 1000, distance):
                before, error = state(), ""
                page.write_text(str(before[0] + 1))
                disk.failed, disk.remaining = "", number
                try:
                    change()
                except SvcError as failure:
                    error = f"{failure.code}: {failure.message} {failure.hint}"
                disk.remaining = 0
                assert "Input/output error" in error or not error, (disk.failed, error)
                assert str(data) not in error and not error.startswith("internal"), error
                done = before[0] + versions, before[1] + rows
                assert state() in ((before, done) if error else (done,)), (disk.failed, before, state())
                failures += bool(error)
                if not disk.failed:
                    break
        last = state()
    with Hosted(data) as hosted:
        assert hosted.get().text == str(last[0])
    del vfs
    print(f"whole, after {failures} failures")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
