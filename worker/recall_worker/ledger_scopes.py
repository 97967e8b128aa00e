"""Ledger scopes: what the snapshots of each scope need to stay as they are.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    recent windows, what was published, directories of projects.   Out: the same, after a restart.
Never: a prompt.
Next:  worker/recall_worker/refresh.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from recall_worker.ledger_db import Database
from recall_worker.ledger_types import Manifest, ShownLike, ShownRecord
from recall_worker.records import RecordId

MANIFESTS_KEPT: Final = 16
"""Snapshots remembered for each scope: as many as a hook may lag behind."""


class ScopeShelf:
    """The part of the ledger that keeps state by scope and by project."""

    _database: Database

    def window(self, scope: str) -> tuple[RecordId, ...]:
        """Ids of slot 3's window in their order; empty before the first one was set."""
        with self._database.read() as db:
            row = db.execute("SELECT ids FROM windows WHERE scope = ?", (scope,)).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    def set_window(self, scope: str, ids: Sequence[RecordId]) -> None:
        """Keep a scope's window; an empty one is forgotten."""
        with self._database.write() as db:
            db.execute("DELETE FROM windows WHERE scope = ?", (scope,))
            if ids:
                db.execute(
                    "INSERT INTO windows (scope, ids) VALUES (?, ?)",
                    (scope, json.dumps(ids, ensure_ascii=False)),
                )

    def manifest(self, scope: str, sha256: bytes) -> Manifest | None:
        """What a scope's snapshot said; None if it is not one of the last ones."""
        return self.manifests(sha256).get(scope)

    def manifests(self, sha256: bytes) -> dict[str, Manifest]:
        """What a snapshot said, by each scope that published it: empty scopes share their bytes.

        Args:
            sha256: Of the snapshot's payload, 32 bytes.
        """
        with self._database.read() as db:
            rows = db.execute(
                "SELECT scope, text, shown FROM manifests WHERE sha256 = ? ORDER BY scope", (sha256,)
            ).fetchall()
        return {scope: Manifest(text=text, shown=_read_shown(shown)) for scope, text, shown in rows}

    def remember_manifest(self, scope: str, sha256: bytes, *, text: str, shown: Iterable[ShownLike]) -> None:
        """Remember a snapshot as the scope's latest and forget all but its last `MANIFESTS_KEPT`.

        Args:
            sha256: Of the payload, 32 bytes.
            text: The snapshot, unescaped.
            shown: Its records, in order.
        """
        rows = json.dumps([(item.record_id, item.slot, item.text) for item in shown], ensure_ascii=False)
        with self._database.read() as db:
            latest = db.execute(
                "SELECT sha256, text, shown FROM manifests WHERE scope = ? ORDER BY stamp DESC LIMIT 1",
                (scope,),
            ).fetchone()
        if latest == (sha256, text, rows):
            return
        with self._database.write() as db:
            db.execute("DELETE FROM manifests WHERE scope = ? AND sha256 = ?", (scope, sha256))
            db.execute(
                "INSERT INTO manifests (scope, sha256, text, shown) VALUES (?, ?, ?, ?)",
                (scope, sha256, text, rows),
            )
            db.execute(
                "DELETE FROM manifests WHERE scope = ? AND stamp NOT IN "
                "(SELECT stamp FROM manifests WHERE scope = ? ORDER BY stamp DESC LIMIT ?)",
                (scope, scope, MANIFESTS_KEPT),
            )

    def project_directory(self, name: str) -> Path | None:
        """Directory that a project's name was bound to."""
        with self._database.read() as db:
            row = db.execute("SELECT directory FROM projects WHERE name = ?", (name,)).fetchone()
        return Path(os.fsdecode(row[0])) if row else None

    def bind_project(self, name: str, directory: Path) -> None:
        """Bind a project's name to a directory, in place of an earlier one."""
        with self._database.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO projects (name, directory) VALUES (?, ?)",
                (name, os.fsencode(directory)),
            )


def _read_shown(text: str) -> tuple[ShownRecord, ...]:
    return tuple(
        ShownRecord(record_id=record_id, slot=slot, text=shown) for record_id, slot, shown in json.loads(text)
    )
