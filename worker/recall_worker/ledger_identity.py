"""Ledger identity: which id a record has, and what is remembered of records that are gone.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    ids wanted, inside a write transaction.   Out: ids that no two live records share.
Never: an id taken from a record that has it.
Next:  worker/recall_worker/ledger_apply.py
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3

from recall_worker.ledger_types import Kind, sha256_hex
from recall_worker.records import RecordDraft


def free_id(db: sqlite3.Connection, wanted: str) -> str:
    """The wanted id, or the first of `wanted~2`, `wanted~3`, … that no live record has."""
    record_id, number = wanted, 1
    while is_taken(db, record_id):
        number += 1
        record_id = f"{wanted}~{number}"
    return record_id


def is_taken(db: sqlite3.Connection, record_id: str) -> bool:
    """True if a live record has this id."""
    return db.execute("SELECT 1 FROM records WHERE id = ?", (record_id,)).fetchone() is not None


def rename(db: sqlite3.Connection, first_seen: int, old_id: str, new_id: str) -> None:
    """Give a record another id, also where a recent window names it."""
    db.execute("UPDATE records SET id = ? WHERE first_seen = ?", (new_id, first_seen))
    for scope, text in db.execute("SELECT scope, ids FROM windows").fetchall():
        ids = json.loads(text)
        if old_id in ids:
            renamed = [new_id if record_id == old_id else record_id for record_id in ids]
            row = (json.dumps(renamed, ensure_ascii=False), scope)
            db.execute("UPDATE windows SET ids = ? WHERE scope = ?", row)


def give_back_ids(db: sqlite3.Connection) -> None:
    """Let a note have the `id:` it states once the record that had it is gone."""
    rows = db.execute(
        "SELECT first_seen, id, stated_id FROM records AS waiting WHERE stated_id IS NOT NULL AND key = '' "
        "AND id <> stated_id AND NOT EXISTS (SELECT 1 FROM records WHERE id = waiting.stated_id) "
        "ORDER BY first_seen"
    ).fetchall()
    for first_seen, record_id, stated_id in rows:
        if not is_taken(db, stated_id):  # of several that wait, the first one got it
            rename(db, first_seen, record_id, stated_id)
            touch(db, first_seen)


def touch(db: sqlite3.Connection, first_seen: int) -> None:
    """Tell followers to look at a record's passages again."""
    db.execute(
        "INSERT INTO changes (passage, kind) SELECT id, ? FROM passages WHERE record = ? ORDER BY id",
        (Kind.TOUCHED, first_seen),
    )


def bury(
    db: sqlite3.Connection, *, first_seen: int, record_id: str, text: str, first_day: str, today: dt.date
) -> None:
    """Remember a record that is about to go, in case it only seems to.

    A note may be out of sight for one scan: a sync client replaces it, another branch is checked out, a
    folder is moved while the vault is being walked. Its first day must not change because of that.
    """
    db.execute(
        "INSERT OR REPLACE INTO departed (first_seen, id, text_sha256, first_day, left_day) "
        "VALUES (?, ?, ?, ?, ?)",
        (first_seen, record_id, sha256_hex(text), first_day, today.isoformat()),
    )


def dig_up(db: sqlite3.Connection, draft: RecordDraft) -> tuple[int, str, str] | None:
    """Take out the departed record that a draft brings back: the one of its stated id, else of its very text.

    Returns:
        Its place in the order first seen, its id and its first day (ISO); None if there was none.
    """
    columns = "SELECT first_seen, id, first_day FROM departed"
    row: tuple[int, str, str] | None = None
    if draft.stated_id:
        row = db.execute(f"{columns} WHERE id = ? ORDER BY first_seen LIMIT 1", (draft.key,)).fetchone()
    if row is None:
        row = db.execute(
            f"{columns} WHERE text_sha256 = ? ORDER BY id <> ?, first_seen LIMIT 1",
            (sha256_hex(draft.text), draft.key),
        ).fetchone()
    if row is not None:
        db.execute("DELETE FROM departed WHERE first_seen = ?", (row[0],))
    return row
