import subprocess
import sys
from pathlib import Path

from engine.files.temporary import remove_abandoned, temporary_folder

HOLDER = """
import sys
from pathlib import Path
from engine.files.temporary import temporary_folder

with temporary_folder("svc-any-", Path(sys.argv[1])) as folder:
    (folder / "secret").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_folder_of_a_killed_process_is_removed_by_the_next_and_others_stay(tmp_path: Path) -> None:
    own = tmp_path / "svc-any-of-the-user"
    own.mkdir()
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    folders = []
    for process in processes:
        assert process.stdout is not None
        folders.append(Path(process.stdout.readline().strip()))
    killed, living = folders
    processes[0].kill()
    processes[0].communicate(timeout=60)
    remove_abandoned("svc-other-", tmp_path)
    assert (killed / "secret").exists()
    with temporary_folder("svc-any-", tmp_path) as folder:
        assert not killed.exists()
        assert (living / "secret").exists() and own.exists() and folder.stat().st_mode & 0o777 == 0o700
    processes[1].communicate("", timeout=60)
    assert sorted(tmp_path.iterdir()) == [own]


def test_link_to_a_folder_of_another_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".svc-owner").touch()
    (tmp_path / "svc-any-link").symlink_to(elsewhere)
    remove_abandoned("svc-any-", tmp_path)
    assert (elsewhere / ".svc-owner").exists()
