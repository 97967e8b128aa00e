"""Ledger passages: what indexes and snapshots read, and the change log that they follow.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    ids, or a position of the change log.   Out: records and passages, each call from one commit.
Never: a write.
Next:  worker/recall_worker/corpus.py, worker/recall_worker/hybrid.py
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from recall_worker.ledger_db import Database, in_batches
from recall_worker.ledger_types import Changes, Kind, PassageFacts
from recall_worker.records import Passage, PassageId, Problem, Record, RecordId, RecordType

STREAM_PAGE: Final = 1_000
"""Passages read at a time by `all_passages`."""

_RECORD = "id, type, high, stated_date, first_day, first_seen, project, tags, title, text, path, line"
_PASSAGE = "passages.id, records.id, ordinal, title_path, passages.text, text_sha256"
_JOINED = "passages JOIN records ON records.first_seen = passages.record"
_SNAPSHOT_TYPES = (RecordType.PROFILE, RecordType.LESSON, RecordType.CONCLUSION)


class PassageStream(Iterator[Passage]):
    """Every live passage, ascending by id, a page at a time, so that no long read holds the log back.

    Attributes:
        seq: Position of the change log to go on from afterwards. Passages that came or went while the stream
            was read are named again from there, which does no harm.
    """

    def __init__(self, database: Database) -> None:
        """Note the position first, so that nothing that comes later is missed."""
        self._database = database
        with database.read() as db:
            self.seq = read_head_seq(db)
        self._pages = self._read_pages()

    def __next__(self) -> Passage:
        """The next passage."""
        return next(self._pages)

    def _read_pages(self) -> Iterator[Passage]:
        last = 0
        while True:
            with self._database.read() as db:
                page = db.execute(
                    f"SELECT {_PASSAGE} FROM {_JOINED} WHERE passages.id > ? ORDER BY passages.id LIMIT ?",
                    (last, STREAM_PAGE),
                ).fetchall()
            if not page:
                return
            last = page[-1][0]
            yield from map(_passage, page)


class PassageShelf:
    """The part of the ledger that search and snapshot read."""

    _database: Database

    def head_seq(self) -> int:
        """Position of the last change in the log; grows with every change, never starts again."""
        with self._database.read() as db:
            return read_head_seq(db)

    def changes_since(self, seq: int) -> Changes | None:
        """What a follower at `seq` has missed.

        Args:
            seq: The `seq` that the follower stored last.

        Returns:
            None if the log does not tell: pruned further than that, or the follower followed another ledger.
            It must then start anew from `all_passages()`.
        """
        with self._database.read() as db:
            head = read_head_seq(db)
            if not read_log_floor(db) <= seq <= head:
                return None
            rows = db.execute(
                "SELECT passage, max(kind) FROM changes WHERE seq > ? GROUP BY passage", (seq,)
            ).fetchall()
            live = self._read_passages(db, [passage_id for passage_id, _ in rows])
        came = {passage_id for passage_id, kind in rows if kind == Kind.ADDED}
        return Changes(
            added=[passage for passage_id, passage in live.items() if passage_id in came],
            removed=[passage_id for passage_id, _ in rows if passage_id not in live],
            touched=[passage_id for passage_id in live if passage_id not in came],
            seq=head,
        )

    def all_passages(self) -> PassageStream:
        """Every live passage, for a fresh index that then follows the log from the stream's `seq`."""
        return PassageStream(self._database)

    def passages(self, ids: Iterable[PassageId]) -> dict[PassageId, Passage]:
        """Live passages by id; those that are gone are left out."""
        with self._database.read() as db:
            return self._read_passages(db, list(ids))

    def passage_facts(self) -> PassageFacts:
        """Columns of all live passages, for the corpus; 100,000 in well under a second."""
        with self._database.read() as db:
            seq = read_head_seq(db)
            rows = db.execute(
                "SELECT passages.id, records.id, ordinal, type, project, coalesce(stated_date, first_day), "
                f"text_sha256 FROM {_JOINED} ORDER BY passages.id"
            ).fetchall()
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * 7
        ids, record_ids, ordinals, types, projects, dates, text_sha256s = columns
        ordinal_of = {text: dt.date.fromisoformat(text).toordinal() for text in set(dates)}
        return PassageFacts(
            ids=np.array(ids, np.int64),
            record_ids=list(record_ids),
            ordinals=np.array(ordinals, np.int32),
            types=list(types),
            projects=list(projects),
            dates=np.array([ordinal_of[text] for text in dates], np.int32),
            text_sha256s=list(text_sha256s),
            seq=seq,
        )

    def record(self, record_id: RecordId) -> Record | None:
        """One record, or None if it is gone."""
        return self.records([record_id]).get(record_id)

    def records(self, ids: Iterable[RecordId]) -> dict[RecordId, Record]:
        """Records by id; those that are gone are left out."""
        found: dict[RecordId, Record] = {}
        with self._database.read() as db:
            for marks, batch in in_batches(list(ids)):
                rows = db.execute(
                    f"SELECT {_RECORD} FROM records WHERE id IN ({marks}) ORDER BY first_seen", batch
                )
                found |= {record.id: record for record in map(_record, rows)}
        return found

    def snapshot_records(self) -> list[Record]:
        """Every record that slots 1 to 3 choose from, in the order first seen."""
        with self._database.read() as db:
            rows = db.execute(
                f"SELECT {_RECORD} FROM records WHERE type IN (?, ?, ?) ORDER BY first_seen",
                [str(kind) for kind in _SNAPSHOT_TYPES],
            ).fetchall()
        return [_record(row) for row in rows]

    def project_names(self) -> list[str]:
        """Projects that have records of their own, sorted."""
        with self._database.read() as db:
            rows = db.execute("SELECT DISTINCT project FROM records WHERE project IS NOT NULL").fetchall()
        return sorted(name for (name,) in rows)

    def file_count(self) -> int:
        """Files of the vault, unreadable ones included."""
        return self._count("files")

    def record_count(self) -> int:
        """Records."""
        return self._count("records")

    def passage_count(self) -> int:
        """Live passages."""
        return self._count("passages")

    def problems(self) -> list[Problem]:
        """What a person should mend in the vault, by path and line; equal stated ids among it."""
        with self._database.read() as db:
            stored = db.execute(
                "SELECT path, line, message, fatal FROM problems "
                "UNION ALL SELECT path, NULL, message, fatal FROM unlisted"
            ).fetchall()
            named = db.execute(
                "SELECT stated_id || key AS name, path, line, id, min(first_seen) FROM records "
                "WHERE stated_id IS NOT NULL GROUP BY name, path ORDER BY name, min(first_seen)"
            ).fetchall()
        problems = [Problem(path=row[0], line=row[1], message=row[2], fatal=bool(row[3])) for row in stored]
        problems += _twin_problems(named)
        return sorted(problems, key=lambda problem: (problem.path, problem.line or 0, problem.message))

    def _count(self, table: str) -> int:
        with self._database.read() as db:
            (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def _read_passages(self, db: sqlite3.Connection, ids: Sequence[int]) -> dict[PassageId, Passage]:
        found: dict[PassageId, Passage] = {}
        for marks, batch in in_batches(sorted(ids)):
            rows = db.execute(
                f"SELECT {_PASSAGE} FROM {_JOINED} WHERE passages.id IN ({marks}) ORDER BY passages.id", batch
            )
            found |= {passage.id: passage for passage in map(_passage, rows)}
        return found


def read_head_seq(db: sqlite3.Connection) -> int:
    """Last position that the change log gave out, also when the row itself was pruned."""
    (seq,) = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return int(seq)


def read_log_floor(db: sqlite3.Connection) -> int:
    """Earliest position from which the change log still tells everything."""
    (floor,) = db.execute("SELECT value FROM meta WHERE key = 'log_floor'").fetchone()
    return int(floor)


def _passage(row: tuple[Any, ...]) -> Passage:
    passage_id, record_id, ordinal, title_path, text, text_sha256 = row
    return Passage(
        id=passage_id,
        record_id=record_id,
        ordinal=ordinal,
        title_path=title_path,
        text=text,
        text_sha256=text_sha256,
    )


def _record(row: tuple[Any, ...]) -> Record:
    record_id, kind, high, stated, first_day, first_seen, project, tags, title, text, path, line = row
    return Record(
        id=record_id,
        type=RecordType(kind),
        high=bool(high),
        date=dt.date.fromisoformat(stated or first_day),
        dated=stated is not None,
        first_seen=first_seen,
        project=project,
        tags=tuple(json.loads(tags)),
        title=title,
        text=text,
        path=path,
        line=line,
    )


def _twin_problems(named: Sequence[tuple[str, str, int, RecordId, int]]) -> Iterator[Problem]:
    """Word the second and further files of one stated id, each once; rows go by id and order first seen."""
    worded: set[str] = set()
    for name, group in groupby(named, key=lambda row: row[0]):
        (_, first_path, first_line, _, _), *others = group
        for _, path, line, record_id, _ in others:
            if path not in worded:
                worded.add(path)
                yield Problem(
                    path=path,
                    line=line,
                    message=f"The id {name!r} is also that of {first_path}:{first_line}. "
                    f"Kept both, this one as {record_id!r}. Give one of them another `id:`.",
                    fatal=False,
                )
