"""Ledger: the one durable truth about what has been read, in SQLite.

Flow:  vault → scan → [ledger] → indexes → snapshot → hook
In:    batches of files that a scan has parsed.   Out: records, passages, vectors, and a log of what changed.
Never: a write that is half done, or acknowledged and lost; a read that waits for a write.
Next:  worker/recall_worker/scan.py, then ledger_apply.py for how a record keeps its identity

The class is put together of shelves, one module each, over one `Database`:
ledger_passages (what search reads), ledger_vectors (embeddings), ledger_scopes (windows, manifests).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from recall_worker.ledger_apply import apply_batch, relocate
from recall_worker.ledger_db import Database, in_batches
from recall_worker.ledger_passages import PassageShelf, PassageStream
from recall_worker.ledger_scopes import ScopeShelf
from recall_worker.ledger_types import (
    Applied,
    Changes,
    FileChange,
    FileState,
    Manifest,
    PassageFacts,
    ShownRecord,
)
from recall_worker.ledger_vectors import VectorShelf
from recall_worker.records import Problem, RecordDraft

__all__ = [
    "Applied",
    "Changes",
    "FileChange",
    "FileState",
    "Ledger",
    "Manifest",
    "PassageFacts",
    "PassageStream",
    "ShownRecord",
]

KEPT_DAYS: Final = 30
"""Days for which vectors of vanished texts, and the first day of vanished records, are kept."""

KEPT_CHANGES: Final = 200_000
"""Rows of the change log that are kept; a follower further behind than that starts anew, which is quicker."""


class Ledger(PassageShelf, VectorShelf, ScopeShelf):
    """What has been read. Any thread may call it: reads run side by side, writes one after the other."""

    def __init__(self, database: Database) -> None:
        """Wrap an open database; `Ledger.open` is the way in."""
        super().__init__()
        self._database = database

    @classmethod
    def open(cls, path: Path, *, verify: bool = True) -> Self:
        """Open the ledger, making it if it is missing, and bring its schema up to date.

        Args:
            path: The SQLite file.
            verify: Check the structure of the whole file first.

        Raises:
            LedgerError: It cannot be opened, is damaged, is another program's, or a newer Recall's.
        """
        return cls(Database(path, verify=verify))

    def copy_to(self, path: Path) -> None:
        """Copy the ledger as it is at this moment into a new file; whoever writes goes on meanwhile."""
        self._database.copy_to(path)

    def close(self) -> None:
        """Close every connection; whatever was acknowledged is on disk already."""
        self._database.close()

    def __enter__(self) -> Self:
        """Close on exit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def files(self) -> dict[str, FileState]:
        """Every file by its path."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT path, size, mtime_ns, sha256, settled FROM files ORDER BY path"
            ).fetchall()
        return {
            path: FileState(path=path, size=size, mtime_ns=mtime_ns, sha256=sha256, settled=bool(settled))
            for path, size, mtime_ns, sha256, settled in rows
        }

    def apply(
        self, changes: Sequence[FileChange], *, vanished: Collection[str] = (), today: dt.date
    ) -> Applied:
        """Store what a scan found in a batch of files, in one transaction: durable on return, or not at all.

        Args:
            changes: Each file at most once. A record whose `id:` moved from one file to another keeps its
                place in the order first seen only if both files stand in the batch.
            vanished: Paths that are no longer in the vault.
            today: The day first seen of whatever is new.

        Returns:
            Records added, changed and removed.

        Raises:
            LedgerError: The disk is full, or another process has held the ledger too long. Nothing was
                changed.
        """
        if not changes and not vanished:
            return Applied()
        with self._database.write() as db:
            return apply_batch(db, changes, vanished=vanished, today=today)

    def relocate(self, moves: Mapping[str, str]) -> None:
        """Let records follow files that were renamed, before what these files say now is applied.

        Args:
            moves: Old path to new path, all of one scan: files may have traded places.
        """
        if moves:
            with self._database.write() as db:
                relocate(db, moves)

    def holders(self, stated_ids: Iterable[str]) -> dict[str, str]:
        """Path of the file that holds each of these ids now; ids that no record has are left out."""
        found: dict[str, str] = {}
        with self._database.read() as db:
            for marks, batch in in_batches(sorted(stated_ids)):
                found |= dict(
                    db.execute(f"SELECT id, path FROM records WHERE id IN ({marks})", batch).fetchall()
                )
        return found

    def set_unlisted(self, problems: Sequence[Problem]) -> None:
        """Keep what the last walk could not list, in place of what an earlier one could not; fatal or not."""
        rows = [(place, item.path, item.message, int(item.fatal)) for place, item in enumerate(problems)]
        query = "SELECT place, path, message, fatal FROM unlisted ORDER BY place"
        with self._database.read() as db:
            if db.execute(query).fetchall() == rows:
                return
        with self._database.write() as db:
            db.execute("DELETE FROM unlisted")
            db.executemany("INSERT INTO unlisted (place, path, message, fatal) VALUES (?, ?, ?, ?)", rows)

    def add_drafts(self, drafts: Iterable[RecordDraft], *, today: dt.date) -> Applied:
        """Store records that come from no vault (a data set, a test), as if one file held them all."""
        state = FileState(path="drafts.md", size=0, mtime_ns=0, sha256="", settled=False)
        return self.apply([FileChange(state=state, drafts=tuple(drafts), problems=())], today=today)

    def get_meta(self, key: str) -> str | None:
        """A small fact kept under a name."""
        with self._database.read() as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        """Keep a small fact under a name."""
        with self._database.write() as db:
            db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))

    def prune(self, *, today: dt.date | None = None, keep_changes: int = KEPT_CHANGES) -> None:
        """Drop what nobody will ask for again.

        Args:
            today: Defaults to the clock's.
            keep_changes: Rows of the change log to keep.
        """
        today = today or dt.date.today()
        limit = (today - dt.timedelta(days=KEPT_DAYS)).isoformat()
        with self._database.write() as db:
            live = "EXISTS (SELECT 1 FROM passages WHERE passages.text_sha256 = vectors.text_sha256)"
            db.execute(f"UPDATE vectors SET gone_day = NULL WHERE gone_day IS NOT NULL AND {live}")
            db.execute(
                f"UPDATE vectors SET gone_day = ? WHERE gone_day IS NULL AND NOT {live}", (today.isoformat(),)
            )
            db.execute("DELETE FROM vectors WHERE gone_day < ?", (limit,))
            db.execute("DELETE FROM departed WHERE left_day < ?", (limit,))
            floor = db.execute(
                "SELECT seq FROM changes ORDER BY seq DESC LIMIT 1 OFFSET ?", (keep_changes,)
            ).fetchone()
            if floor:
                db.execute("DELETE FROM changes WHERE seq <= ?", floor)
                db.execute("UPDATE meta SET value = ? WHERE key = 'log_floor'", (str(floor[0]),))
