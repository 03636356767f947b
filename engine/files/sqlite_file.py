"""SQLite files of a project that several processes use: opening, transactions and errors."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import apsw

from engine.errors import SvcError
from engine.files.data_dir import ensure_data_dir
from engine.files.database_files import quarantine_database

BUSY_SECONDS = 5.0
"""How long a read or write waits for a writer in another process."""
_PAUSE_SECONDS = 0.01
_STEPS_PER_CHECK = 1000
_Result = TypeVar("_Result")


class SqliteFile(ABC):
    """One connection. Use it from one thread at a time; every method raises `error_type`.

    `title` is what the file has and `located` where, as in "the timeline" and "the timeline in {}"; `actions`
    are reading and writing, as errors name them. `version` is the highest readable `user_version`.
    """

    title: ClassVar[str]
    located: ClassVar[str]
    actions: ClassVar[tuple[str, str]]
    mode: ClassVar[int] = 0o600
    version: ClassVar[int]
    error_type: ClassVar[type[SvcError]]
    corrupt_type: ClassVar[type[SvcError]]
    newer_type: ClassVar[type[SvcError]]

    def __init__(self, path: Path, *, write: bool = True) -> None:
        """Open the file; with `write`, create it if it does not exist."""
        self._path = path
        self._action = self.actions[write]
        self._inode = 0
        try:
            if write:
                ensure_data_dir(path.parent)
                # SQLite gives its other files the same mode. Closing an existing file would release the locks
                # that other connections of this process have.
                with suppress(FileExistsError):
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self.mode))
            self._database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        except (OSError, apsw.Error) as error:
            raise self._error(error) from error
        try:
            self._database.set_busy_timeout(int(BUSY_SECONDS * 1000))
            version = self.run("pragma user_version")[0][0]
            if version > self.version:
                raise self.newer_type(
                    f"{path} was written by a newer svc",
                    "Update svc, or move the file away to start with an empty one.",
                    public_message=f"{path.name} was written by a newer svc",
                )
            self.empty = version < self.version
            self._prepare(write)
            self._inode = path.stat().st_ino
        except OSError as error:
            self._database.close()
            raise self._error(error) from error
        except BaseException:
            self._database.close()
            raise

    @abstractmethod
    def _prepare(self, write: bool) -> None:
        """Apply settings, and create the tables of a file that is `empty`."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows."""
        return self._retry_busy(lambda: self._database.execute(sql, values).fetchall())

    def change(self) -> AbstractContextManager[None]:
        """Return the context of a transaction that is a write transaction from the start."""
        return self._transaction("begin immediate")

    def view(self) -> AbstractContextManager[None]:
        """Return the context of a consistent snapshot of the file, that of an outer one if there is one."""
        return nullcontext() if self._database.in_transaction else self._transaction("begin")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.run(begin)
        try:
            yield
            self.run("commit")
        except BaseException as error:
            # SQLite itself rolls back a transaction after a full disk or a corrupt file.
            if self._database.in_transaction:
                self._database.execute("rollback")
            if isinstance(error, apsw.Error):
                raise self._error(error) from error
            raise

    def _retry_busy(self, work: Callable[[], _Result]) -> _Result:
        """Retry while the file is busy: SQLite's own timeout does not cover opening and closing."""
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return work()
            except apsw.BusyError as error:
                if time.monotonic() > end:
                    raise self._error(error) from error
                time.sleep(_PAUSE_SECONDS)
            except (apsw.Error, UnicodeDecodeError) as error:
                raise self._error(error) from error

    def limit_time(self, seconds: float) -> None:
        """Interrupt the statements that run after this many seconds from now."""
        end = time.monotonic() + seconds
        self._database.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)

    def _interrupted(self) -> SvcError:
        """Return the error of a statement above the time limit."""
        return self.error_type(f"{self.title} cannot be read in time")

    def replaced(self) -> bool:
        """Return whether the path no longer refers to the opened file."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection."""
        self._database.close(True)

    def _error(self, error: Exception) -> SvcError:
        if isinstance(error, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError):
            return self.corrupt_type(
                f"{self.located.format(self._path)} is corrupt: {error}",
                "Run `svc dev` or the service: it moves the file aside and creates a new one.",
                public_message=f"{self.title} is corrupt: {error}",
            )
        if isinstance(error, apsw.InterruptError):
            return self._interrupted()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return self.error_type(
            f"cannot {self._action} in {self._path}: {reason}",
            "Check the folder's permissions (reading needs write access too) and the free disk space.",
            public_message=f"cannot {self._action} in {self._path.name}: {reason}",
        )

    @classmethod
    def is_corrupt(cls, path: Path) -> bool:
        """Return whether a file is corrupt."""
        try:
            database = cls(path, write=False)
        except cls.error_type as error:
            return isinstance(error, cls.corrupt_type)
        with closing(database):
            try:
                return bool(database.run("pragma quick_check(1)") != [("ok",)])
            except cls.corrupt_type:
                return True


_File = TypeVar("_File", bound=SqliteFile)


class WrittenFile(Generic[_File]):
    """The file of one writer: opened on use, and replaced by a new one if it is corrupt."""

    def __init__(
        self, path: Path, kind: type[SqliteFile], open_: Callable[[], _File], warn: Callable[[SvcError], None]
    ) -> None:
        """`kind` has the errors. `warn` is called when the file becomes unusable or is moved aside."""
        self._path, self._kind, self._open, self._warn = path, kind, open_, warn
        self.current: _File | None = None
        self.failing = False
        """True from a failure until the writer sets it to False."""

    def open(self) -> _File:
        """Return the open file, or the one that replaced it. Raises its `error_type`."""
        if self.current is not None and self.current.replaced():
            self.close()
        if self.current is None:
            self.current = self._open()
        return self.current

    def close(self) -> None:
        """Close the file; it is opened again on use."""
        if self.current is not None:
            self.current.close()
        self.current = None

    def recover(self, error: SvcError) -> bool:
        """Handle an unusable file; return whether a new one replaces it at once."""
        self.close()
        if isinstance(error, self._kind.corrupt_type):
            try:
                moved = quarantine_database(self._path, self._path.stem, self._kind.is_corrupt)
            except SvcError as worse:
                error = worse
            else:
                if moved is not None:
                    hint = f"Find the old file at {moved}."
                    self._warn(self._kind.error_type(f"{error.message}; a new file was created", hint))
                    return True
        if not self.failing:
            self._warn(error)
        self.failing = True
        return False
