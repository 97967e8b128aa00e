"""Ledger apply: write one batch of what a scan found, keeping every identity that can be kept.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    files as parsed now, inside a write transaction.   Out: rows, and the change log that followers replay.
Never: a passage whose words change: it goes, and another one comes.
Next:  worker/recall_worker/ledger_passages.py
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields

from recall_worker.ledger_db import in_batches
from recall_worker.ledger_identity import bury, dig_up, free_id, give_back_ids, is_taken, rename, touch
from recall_worker.ledger_match import KnownRecord, PlacedDraft, pair_records
from recall_worker.ledger_types import Applied, FileChange, FileState, Kind, passage_input, sha256_hex
from recall_worker.records import PassageDraft

_KNOWN = tuple(item.name for item in fields(KnownRecord))
_FACTS = frozenset({"type", "high", "stated_date", "project", "tags", "title"})
"""Columns that followers keep copies of, or that change what a record is."""


def apply_batch(
    db: sqlite3.Connection, changes: Sequence[FileChange], *, vanished: Collection[str], today: dt.date
) -> Applied:
    """Bring some files' rows up to date.

    Args:
        changes: Each file once.
        vanished: Paths that are no longer in the vault.
        today: Day first seen of whatever is new.
    """
    changes = sorted(changes, key=lambda change: change.state.path)
    parsed = [change.state.path for change in changes if change.drafts is not None]
    for change in changes:
        _write_file(db, change)
    known = _known_records(db, [*parsed, *vanished])
    drafts = [
        PlacedDraft(path=change.state.path, place=place, draft=draft)
        for change in changes
        for place, draft in enumerate(change.drafts or ())
    ]
    partners = pair_records(known, drafts)
    kept = {partner.first_seen for partner in partners if partner}
    gone = [record for record in known if record.first_seen not in kept]
    for record in gone:
        _remove(db, record, today=today)
    db.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in vanished])
    changed = 0
    may_return = bool(db.execute("SELECT EXISTS (SELECT 1 FROM departed)").fetchone()[0])
    for placed, partner in zip(drafts, partners, strict=True):
        if partner:
            changed += _update(db, partner, placed)
        else:
            _insert(db, placed, today=today, may_return=may_return)
    if gone or changed:
        give_back_ids(db)
    return Applied(added=partners.count(None), changed=changed, removed=len(gone))


def relocate(db: sqlite3.Connection, moves: Mapping[str, str]) -> None:
    """Let records follow their files, all at once, so that files may trade places.

    The new places count as unread: what depends on the path (type, date, title) is parsed by the scan that
    goes on from here, or by the next one if this one is cut off.

    Args:
        moves: Old path to new path.
    """
    records = {
        old: [key for (key,) in db.execute("SELECT first_seen FROM records WHERE path = ?", (old,))]
        for old in moves
    }
    states = {
        old: db.execute("SELECT size, mtime_ns FROM files WHERE path = ?", (old,)).fetchone() for old in moves
    }
    for old, new in moves.items():
        size, mtime_ns = states[old]
        _write_state(db, FileState(path=new, size=size, mtime_ns=mtime_ns, sha256="", settled=False))
        for first_seen in records[old]:
            db.execute("UPDATE records SET path = ? WHERE first_seen = ?", (new, first_seen))
            touch(db, first_seen)
    for old in moves.keys() - set(moves.values()):
        db.execute("DELETE FROM files WHERE path = ?", (old,))


def _write_file(db: sqlite3.Connection, change: FileChange) -> None:
    """Store a file's state, and its problems unless they stay."""
    path = change.state.path
    _write_state(db, change.state)
    if change.problems is None:
        return
    db.execute("DELETE FROM problems WHERE path = ?", (path,))
    db.executemany(
        "INSERT INTO problems (path, place, line, message, fatal) VALUES (?, ?, ?, ?, ?)",
        [(path, place, item.line, item.message, item.fatal) for place, item in enumerate(change.problems)],
    )


def _write_state(db: sqlite3.Connection, state: FileState) -> None:
    db.execute(
        "INSERT INTO files (path, size, mtime_ns, sha256, settled) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, "
        "sha256 = excluded.sha256, settled = excluded.settled",
        (state.path, state.size, state.mtime_ns, state.sha256, state.settled),
    )


def _known_records(db: sqlite3.Connection, paths: Sequence[str]) -> list[KnownRecord]:
    found = []
    for marks, batch in in_batches(paths):
        rows = db.execute(f"SELECT {', '.join(_KNOWN)} FROM records WHERE path IN ({marks})", batch)
        found += [KnownRecord(**dict(zip(_KNOWN, row, strict=True))) for row in rows]
    return sorted(found, key=lambda record: (record.path, record.place, record.first_seen))


def _remove(db: sqlite3.Connection, record: KnownRecord, *, today: dt.date) -> None:
    """Delete a record with its passages."""
    passages = db.execute("SELECT id FROM passages WHERE record = ? ORDER BY id", (record.first_seen,))
    _log(db, Kind.REMOVED, [passage_id for (passage_id,) in passages.fetchall()])
    bury(
        db,
        first_seen=record.first_seen,
        record_id=record.id,
        text=record.text,
        first_day=record.first_day,
        today=today,
    )
    db.execute("DELETE FROM records WHERE first_seen = ?", (record.first_seen,))


def _insert(db: sqlite3.Connection, placed: PlacedDraft, *, today: dt.date, may_return: bool) -> None:
    """Add a record; one that departed lately takes its place in the order, and its first day, again."""
    draft = placed.draft
    wanted, first_seen, first_day = draft.key, None, today.isoformat()
    if may_return and (back := dig_up(db, draft)):
        first_seen, departed_id, first_day = back
        if not draft.stated_id and not is_taken(db, departed_id):
            wanted = departed_id
    columns = _columns(placed)
    cursor = db.execute(
        f"INSERT INTO records (first_seen, id, first_day, {', '.join(columns)}) "
        f"VALUES ({', '.join('?' * (len(columns) + 3))})",
        (first_seen, free_id(db, wanted), first_day, *columns.values()),
    )
    assert cursor.lastrowid is not None
    _add_passages(db, cursor.lastrowid, draft.passages)


def _update(db: sqlite3.Connection, old: KnownRecord, placed: PlacedDraft) -> bool:
    """Bring one record up to date.

    Returns:
        True if it says or is something else now; where it stands does not count.
    """
    columns = _columns(placed)
    different = {name for name, value in columns.items() if value != getattr(old, name)}
    renamed = placed.stated_id != old.stated_id and old.id != placed.draft.key
    if renamed:
        rename(db, old.first_seen, old.id, free_id(db, placed.draft.key))
    if different:
        db.execute(
            f"UPDATE records SET {', '.join(f'{name} = ?' for name in columns)} WHERE first_seen = ?",
            (*columns.values(), old.first_seen),
        )
    reworded = _sync_passages(db, old.first_seen, placed.draft.passages)
    facts_differ = renamed or bool(different & _FACTS)
    # A text may differ by white space between passages only: followers must look all the same.
    if facts_differ or "path" in different or ("text" in different and not reworded):
        touch(db, old.first_seen)
    return facts_differ or reworded or "text" in different


def _columns(placed: PlacedDraft) -> dict[str, object]:
    """A draft as the columns that it decides, in the table's order."""
    draft = placed.draft
    return {
        "stated_id": placed.stated_id,
        "key": placed.key,
        "path": placed.path,
        "place": placed.place,
        "type": str(draft.type),
        "high": int(draft.high),
        "stated_date": draft.date.isoformat() if draft.date else None,
        "project": draft.project,
        "tags": json.dumps(draft.tags, ensure_ascii=False),
        "title": draft.title,
        "line": draft.line,
        "text": draft.text,
    }


def _sync_passages(db: sqlite3.Connection, record: int, drafts: Sequence[PassageDraft]) -> bool:
    """Keep the passages whose words stay, in their new places, and replace the others.

    Returns:
        True if anything differed.
    """
    waiting: defaultdict[tuple[str, str], deque[tuple[int, int]]] = defaultdict(deque)
    rows = db.execute(
        "SELECT id, ordinal, title_path, text FROM passages WHERE record = ? ORDER BY ordinal, id", (record,)
    )
    for passage_id, ordinal, title_path, text in rows.fetchall():
        waiting[title_path, text].append((passage_id, ordinal))
    fresh, moved = [], []
    for draft in drafts:
        same = waiting.get((draft.title_path, draft.text))
        if not same:
            fresh.append(draft)
            continue
        passage_id, ordinal = same.popleft()
        if ordinal != draft.ordinal:
            moved.append((draft.ordinal, passage_id))
    gone = sorted(passage_id for same in waiting.values() for passage_id, _ in same)
    db.executemany("DELETE FROM passages WHERE id = ?", [(passage_id,) for passage_id in gone])
    db.executemany("UPDATE passages SET ordinal = ? WHERE id = ?", moved)
    _log(db, Kind.REMOVED, gone)
    _log(db, Kind.TOUCHED, [passage_id for _, passage_id in moved])
    _add_passages(db, record, fresh)
    return bool(gone or moved or fresh)


def _add_passages(db: sqlite3.Connection, record: int, drafts: Sequence[PassageDraft]) -> None:
    added = []
    for draft in drafts:
        cursor = db.execute(
            "INSERT INTO passages (record, ordinal, text_sha256, title_path, text) VALUES (?, ?, ?, ?, ?)",
            (
                record,
                draft.ordinal,
                sha256_hex(passage_input(draft.title_path, draft.text)),
                draft.title_path,
                draft.text,
            ),
        )
        assert cursor.lastrowid is not None
        added.append(cursor.lastrowid)
    _log(db, Kind.ADDED, added)


def _log(db: sqlite3.Connection, kind: Kind, passage_ids: Sequence[int]) -> None:
    db.executemany(
        "INSERT INTO changes (passage, kind) VALUES (?, ?)",
        [(passage_id, kind) for passage_id in passage_ids],
    )
