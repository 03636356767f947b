import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

import apsw
import pytest

from engine.usage.store import UsageCount, UsageError, UsageStore, usage_path

ONE = UsageCount(1, 0, compute_ns=2_000, wall_ns=3_000, peak_memory=65_536, bytes_in=10, bytes_out=20)
ADD_FOREVER = """
import sys
import time
from pathlib import Path
from engine.usage.store import UsageCount
from engine.usage.store import UsageStore
store = UsageStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.add({(7, "web"): UsageCount(requests=1, bytes_out=5), (8, "api"): UsageCount(requests=1)})
    if number == 0:
        print("begun", flush=True)
    time.sleep(0.001)  # a pause: SQLite grants locks in no order, and others could wait for seconds
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return usage_path(tmp_path / "project ü")


def adding(path: Path, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ADD_FOREVER, str(path), str(times)], stdout=subprocess.PIPE, text=True
    )


def test_counts_add_up_and_peak_is_maximum(path: Path) -> None:
    store = UsageStore(path)
    store.add({(7, "web"): ONE, (8, "web"): ONE})
    store.add(
        {
            (7, "web"): UsageCount(2, 1, compute_ns=5, wall_ns=6, peak_memory=1_000, bytes_in=1, bytes_out=1),
            (7, "api"): ONE,
        }
    )
    assert store.read(0) == {
        (7, "api"): ONE,
        (7, "web"): UsageCount(
            3, 1, compute_ns=2_005, wall_ns=3_006, peak_memory=65_536, bytes_in=11, bytes_out=21
        ),
        (8, "web"): ONE,
    }
    assert list(store.read(8)) == [(8, "web")]
    store.close()


def test_counts_persist_and_old_minutes_can_be_deleted(path: Path) -> None:
    first = UsageStore(path)
    first.add({(minute, "web"): ONE for minute in range(10)})
    first.close()
    second = UsageStore(path)
    second.delete_before(8)
    assert [minute for minute, _ in second.read(0)] == [8, 9]
    second.close()


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(path: Path) -> None:
    others = [adding(path, 200) for _ in range(3)]
    assert [other.wait(100) for other in others] == [0, 0, 0]
    for other in others:
        assert other.stdout is not None
        other.stdout.close()
    store = UsageStore(path)
    counts = store.read(0)
    assert counts[7, "web"] == UsageCount(requests=600, bytes_out=3000)
    assert counts[8, "api"].requests == 600
    store.close()


@pytest.mark.slow
def test_concurrent_creation_of_usage_file_succeeds_for_all(tmp_path: Path) -> None:
    for round_ in range(20):
        path, together = usage_path(tmp_path / str(round_)), threading.Barrier(6)

        def add(path: Path = path, together: threading.Barrier = together) -> None:
            together.wait()
            store = UsageStore(path)
            store.add({(7, "web"): ONE})
            store.close()

        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(add) for _ in range(6)]:
                done.result()
        store = UsageStore(path)
        assert store.read(0)[7, "web"].requests == 6
        store.close()


@pytest.mark.slow
def test_killed_writer_leaves_complete_transactions(path: Path) -> None:
    for _ in range(3):
        other = adding(path, 1 << 30)
        assert other.stdout is not None and other.stdout.readline() == "begun\n"
        opened = UsageStore(path)
        os.kill(other.pid, signal.SIGKILL)
        opened.add({(7, "web"): UsageCount(1), (8, "api"): UsageCount(1)})
        opened.close()
        other.wait()
        other.stdout.close()
    store = UsageStore(path)
    counts = store.read(0)
    assert counts[7, "web"].requests == counts[8, "api"].requests >= 6
    store.add({(7, "web"): ONE})
    store.close()


def test_reader_sees_other_process_without_blocking_it(path: Path) -> None:
    writer, reader = UsageStore(path), UsageStore(path)
    writer.add({(7, "web"): ONE})
    assert reader.read(0) == {(7, "web"): ONE}
    writer.add({(7, "web"): ONE})
    assert reader.read(0)[7, "web"].requests == 2
    writer.close()
    reader.close()


def test_data_folder_is_ignored_by_git(path: Path) -> None:
    UsageStore(path).close()
    root = path.parents[1]
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    process = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, check=True)
    assert process.stdout == b""


def test_foreign_file_raises_with_hint(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(UsageError, match=r"usage\.db") as exc_info:
        UsageStore(path)
    assert "moves the file aside" in exc_info.value.hint


def test_file_of_newer_svc_stays_unchanged(path: Path) -> None:
    UsageStore(path).close()
    database = apsw.Connection(str(path))
    database.execute("pragma user_version = 99")
    database.close()
    with pytest.raises(UsageError, match="newer svc"):
        UsageStore(path)


def test_uncreatable_folder_raises(tmp_path: Path) -> None:
    (tmp_path / ".svc").write_text("in the way")
    with pytest.raises(UsageError, match="cannot store usage"):
        UsageStore(usage_path(tmp_path))


def test_sums_of_other_nodes_are_added(path: Path) -> None:
    store = UsageStore(path)
    own, theirs = UsageCount(3, peak_memory=9), UsageCount(2, 1, peak_memory=12)
    assert store.add({(7, "api"): own}) == [(7, "api", *astuple(own))]
    assert store.add({(7, "api"): own}) == [(7, "api", 6, 0, 0, 0, 9, 0, 0)]
    rows = [(7, "api", *astuple(theirs)), (8, "web", *astuple(theirs))]
    store.add({}, [("n2", row) for row in rows])
    store.add({}, [("n3", rows[0])])
    store.add({}, [("n2", (7, "api", *astuple(UsageCount(1))))])  # Older, and arrives later.
    assert store.read(0) == {(7, "api"): UsageCount(10, 2, peak_memory=12), (8, "web"): theirs}
    assert [row[:3] for row in store.page((7, "api"), 10)] == [(8, "web", 2)]
    assert [row[:3] for row in store.page((0, ""), 1)] == [(7, "api", 10)]
    assert [row[:3] for row in store.page_of("", (0, ""), 10)] == [(7, "api", 6)]
    assert store.page_of("n2", (0, ""), 10) == rows
    assert store.page_of("n2", (7, "api"), 10) == rows[1:]
    assert (store.last_copied("n2"), store.last_copied("n4")) == (8, 0)
    store.delete_before(8)
    assert store.read(0) == {(8, "web"): theirs}
    store.close()


def test_file_of_an_older_svc_gets_the_table_of_other_nodes(path: Path) -> None:
    store = UsageStore(path)
    store.add({(7, "api"): UsageCount(3)})
    store.run("drop table peer_usage")
    store.close()
    store = UsageStore(path)
    store.add({}, [("n2", (7, "api", *astuple(UsageCount(2))))])
    assert store.read(0) == {(7, "api"): UsageCount(5)}
    store.close()
