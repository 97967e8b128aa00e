"""Ledger database: connections, transactions, and what SQLite's errors mean.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    the ledger's path.   Out: read and write transactions; LedgerError for whatever goes wrong in one.
Never: a reader that waits for a writer.
Next:  worker/recall_worker/ledger.py
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from recall_worker.errors import LedgerDamaged, LedgerError
from recall_worker.ledger_schema import APPLICATION_ID, MARK_TABLES, MIGRATIONS, Migration, migrate

BUSY_TIMEOUT_S: Final = 10.0
"""How long a statement waits for another process's lock."""

FUTURE_VERSIONS: Final = 1_000
"""Schema versions that a newer Recall may plausibly have; beyond is damage."""

_NOT_THE_FILES_FAULT: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
    }
)
"""Errors that tell of disk, memory or rights; any other of the first queries means damage."""

WAL_LIMIT_BYTES: Final = 64 << 20
"""A write-ahead log that grew past this is cut back after its checkpoint."""


class Database:
    """One SQLite file: one connection that writes, under a lock, and one for each reader of the moment.

    Write-ahead logging lets readers see the last commit while a write is going on. `synchronous` is FULL:
    followers keep log positions in files of their own, so a commit must not be lost to a power cut after a
    follower synced what it read; a scan commits a few times at most, so the flushes cost nothing that shows.
    """

    def __init__(self, path: Path, *, verify: bool, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Open or make the file.

        Args:
            path: The ledger; its folder is made if it is missing.
            verify: Read the whole file and check its structure first.
            migrations: The schema's steps.

        Raises:
            LedgerDamaged: It is damaged.
            LedgerError: It cannot be opened, is another program's, or a newer Recall's.
        """
        self.path = path
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._make_private()
        with self._explained(), self._meeting():
            self._writer = self._connect()
        try:
            with self._explained():
                with self._meeting():
                    self._check(verify=verify, known_version=len(migrations))
                self._prepare(migrations)
        except BaseException:
            self._writer.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: all its queries see the same commit."""
        connection = self._take_reader()
        healthy = False
        try:
            with self._explained():
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
                healthy = True
        finally:
            self._give_back(connection, healthy=healthy)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: durable when the block ends, undone when it raises."""
        with self._lock, self._explained():
            self._refuse_if_closed()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def copy_to(self, path: Path) -> None:
        """Copy one commit into a new file, while others read and write."""
        with self.read() as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)

    def close(self) -> None:
        """Wait for the write in hand and close; a reader still at work closes its connection when done."""
        with self._lock:
            self._closed = True
            self._close_idle()
            self._writer.close()

    def _take_reader(self) -> sqlite3.Connection:
        self._refuse_if_closed()
        try:
            return self._idle.pop()  # list.pop and append are atomic: readers never meet the writer's lock
        except IndexError:
            with self._explained():
                connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
                return connection

    def _give_back(self, connection: sqlite3.Connection, *, healthy: bool) -> None:
        if healthy:
            self._idle.append(connection)
        else:
            connection.close()
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # another thread may be emptying the list as well
            while True:
                self._idle.pop().close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise LedgerError(f"{self.path}: the ledger was closed already. Nothing was changed.")

    def _make_private(self) -> None:
        """Make file and folder if missing, for their owner alone; SQLite's side files take the file's mode.

        An existing file is not opened here: closing a second descriptor would drop the locks that other
        connections of this process hold on it.

        Source: https://www.sqlite.org/howtocorrupt.html, section 2.2
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self.path.touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                if self.path.stat().st_mode & 0o077:
                    self.path.chmod(0o600)
        except OSError as error:
            raise LedgerError(
                f"{self.path}: the ledger cannot be opened ({error.strerror}). Nothing was changed. "
                "Give yourself access to it, or choose another state folder."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,  # transactions are begun and ended here, in plain sight
            check_same_thread=False,  # a connection changes threads, but serves one at a time
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what a person withholds later is overwritten
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, *, verify: bool, known_version: int) -> None:
        """Refuse what is not a sound ledger of a version known here."""
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        tables = {name for (name,) in self._writer.execute("SELECT name FROM sqlite_master")}
        if tables and application != APPLICATION_ID and not tables >= MARK_TABLES:
            raise LedgerError(
                f"{self.path}: this SQLite file is not a ledger. Nothing was changed. "
                "Move it away, or choose another state folder."
            )
        if known_version < version <= FUTURE_VERSIONS:
            raise LedgerError(
                f"{self.path}: written by a newer Recall (ledger version {version}, this one knows "
                f"{known_version}). Nothing was changed. Update Recall, or choose another state folder."
            )
        if tables and (application != APPLICATION_ID or not 0 < version <= known_version):
            raise self._damaged(f"its header says version {version} of application {application}")
        if verify and tables:
            (verdict,) = self._writer.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise self._damaged(verdict)
            # No query that only reads tells of a header that forbids writing.
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute(f"PRAGMA user_version = {version}")
            self._writer.execute("ROLLBACK")

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        """The first queries: one that fails though disk, memory and rights are in order tells of damage."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            is_protected = _code(error) == sqlite3.SQLITE_READONLY and not os.access(self.path, os.W_OK)
            if is_protected or _code(error) in _NOT_THE_FILES_FAULT:
                raise
            raise self._damaged(str(error)) from error

    def _prepare(self, migrations: Sequence[Migration]) -> None:
        """Set the file's lasting modes and bring it up to date."""
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version < len(migrations):
            with self.write() as connection:
                migrate(connection, migrations=migrations)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ours; a misuse of the sqlite3 module stays what it is: a bug."""
        try:
            yield
        except sqlite3.ProgrammingError:
            if self._closed:
                self._refuse_if_closed()
            raise
        except sqlite3.DatabaseError as error:
            raise self._explain(error) from error

    def _explain(self, error: sqlite3.DatabaseError) -> LedgerError:
        code = _code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode to UTF-8" in str(error):
            return self._damaged(str(error))
        if code not in _NOT_THE_FILES_FAULT and (found := self._find_damage()):
            return self._damaged(found)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            what, fix = "is held by another process", "Try again when that has ended."
        elif code == sqlite3.SQLITE_FULL:
            what, fix = "cannot grow, the disk is full", "Make room; the next scan goes on from here."
        else:
            what, fix = f"cannot be used ({error})", "Check the state folder's disk and permissions."
        return LedgerError(f"{self.path}: the ledger {what}. The last change was undone. {fix}")

    def _find_damage(self) -> str | None:
        """Whether a query that should never fail did so for the file's sake; reads all of it, indexes too."""
        try:
            with closing(self._connect()) as connection:
                (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
                if verdict == "ok" and connection.execute("PRAGMA foreign_key_check").fetchone():
                    verdict = "a row refers to one that is not there"
        except sqlite3.DatabaseError as error:
            return str(error) if _code(error) == sqlite3.SQLITE_CORRUPT else None
        return None if verdict == "ok" else str(verdict)

    def _damaged(self, detail: str) -> LedgerDamaged:
        return LedgerDamaged(self.path, detail.strip().splitlines()[-1] if detail.strip() else "no detail")


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code; 0 where the module itself complains."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def in_batches(items: Sequence[object], size: int = 500) -> Iterator[tuple[str, Sequence[object]]]:
    """Cut a list of values for `IN (...)` below SQLite's limit of 999 variables.

    Returns:
        Pairs of placeholders ("?,?,?") and the values for them.
    """
    for start in range(0, len(items), size):
        batch = items[start : start + size]
        yield ",".join("?" * len(batch)), batch
