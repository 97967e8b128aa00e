"""Ledger vectors: embeddings by model and text, so that nothing is embedded twice.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    float32 vectors by the sha256 of their text.   Out: the same, each checked; what is still missing.
Never: a vector of the wrong length or with a NaN handed out.
Next:  worker/recall_worker/hybrid.py
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recall_worker.ledger_db import Database, in_batches
from recall_worker.ledger_passages import read_head_seq, read_log_floor
from recall_worker.ledger_types import Kind, passage_input
from recall_worker.records import SEARCHED_TYPES

FLOAT: Final = np.dtype("<f4")

_LACKING = (
    "SELECT passages.id, text_sha256, title_path, passages.text FROM passages "
    "CROSS JOIN records ON records.first_seen = passages.record "  # in this order: few passages are looked at
    f"WHERE type IN ({', '.join(repr(str(kind)) for kind in SEARCHED_TYPES)}) AND NOT EXISTS "
    "(SELECT 1 FROM vectors WHERE vectors.model = ? AND vectors.text_sha256 = passages.text_sha256)"
)


@dataclass(frozen=True, slots=True)
class _Complete:
    """Every passage up to `passage` had its vector when the change log stood at `seq`."""

    passage: int = 0
    seq: int = 0


class VectorShelf:
    """The part of the ledger that keeps embeddings."""

    _database: Database

    def __init__(self) -> None:
        """Start knowing nothing of what is complete."""
        self._guard = threading.Lock()
        self._complete: dict[str, _Complete] = {}
        self._broken: dict[str, set[str]] = {}

    def vector_dimension(self, model: str) -> int | None:
        """Length of the model's vectors, None before the first one."""
        with self._database.read() as db:
            return _dimension(db, model)

    def vectors(self, model: str, sha256s: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors of texts, read-only, shape (dimension,), without those missing, cut short or not finite.

        Args:
            model: Name of the encoder.
            sha256s: `text_sha256` of the passages.
        """
        found: dict[str, NDArray[np.float32]] = {}
        broken: set[str] = set()
        with self._database.read() as db:
            dimension = _dimension(db, model)
            for marks, batch in in_batches(list(sha256s)):
                rows = db.execute(
                    "SELECT text_sha256, vector FROM vectors JOIN models USING (model) "
                    f"WHERE name = ? AND text_sha256 IN ({marks})",
                    (model, *batch),
                )
                for sha256, blob in rows:
                    vector = _read_vector(blob, dimension)
                    if vector is None:
                        broken.add(sha256)
                    else:
                        found[sha256] = vector
        with self._guard:
            self._broken.setdefault(model, set()).update(broken)
        return found

    def put_vectors(self, model: str, items: Iterable[tuple[str, ArrayLike]]) -> None:
        """Keep vectors; durable on return. A model whose vectors change length starts afresh.

        Args:
            items: Pairs of `text_sha256` and vector, shape (dimension,).

        Raises:
            ValueError: Vectors of several lengths, or one that is not finite: the encoder is broken. Nothing
                is kept.
        """
        arrays = {sha256: np.ascontiguousarray(vector, FLOAT) for sha256, vector in items}
        if not arrays:
            return
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) > 1 or any(len(shape) != 1 or not shape[0] for shape in shapes):
            raise ValueError(f"wanted vectors of one shape (dimension,), got {sorted(shapes)}")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("wanted finite vectors, got NaN or infinity")
        ((dimension,),) = shapes
        with self._database.write() as db:
            db.execute("DELETE FROM models WHERE name = ? AND dimension <> ?", (model, dimension))
            started_afresh = db.execute("SELECT changes()").fetchone()[0] > 0
            db.execute("INSERT OR IGNORE INTO models (name, dimension) VALUES (?, ?)", (model, dimension))
            (key,) = db.execute("SELECT model FROM models WHERE name = ?", (model,)).fetchone()
            db.executemany(
                "INSERT OR REPLACE INTO vectors (model, text_sha256, vector) VALUES (?, ?, ?)",
                [(key, sha256, array.tobytes()) for sha256, array in arrays.items()],
            )
        with self._guard:
            self._broken.get(model, set()).difference_update(arrays)
            if started_afresh:
                self._complete.pop(model, None)

    def missing_vectors(self, model: str, limit: int) -> list[tuple[str, str]]:
        """Texts of live, searched passages without a vector; costs next to nothing when there are none.

        Args:
            limit: Texts at most.

        Returns:
            Pairs of `text_sha256` and what the encoder reads, each text once, oldest passage first.
        """
        with self._guard:
            known = self._complete.get(model, _Complete())
            broken = sorted(self._broken.get(model, ()))
        with self._database.read() as db:
            if known.seq < read_log_floor(db):
                known = _Complete()
            row = db.execute("SELECT model FROM models WHERE name = ?", (model,)).fetchone()
            key = row[0] if row else None
            found = dict(self._touched(db, key, known, limit))
            fresh = db.execute(
                f"{_LACKING} AND passages.id > ? ORDER BY passages.id LIMIT ?", (key, known.passage, limit)
            ).fetchall()
            if not found:
                known = _Complete(
                    passage=fresh[0][0] - 1 if fresh else _last_passage(db),
                    seq=read_head_seq(db),
                )
                with self._guard:
                    self._complete[model] = known
            found |= {sha256: passage_input(title_path, text) for _, sha256, title_path, text in fresh}
            found |= dict(self._still_live(db, broken))
        return list(found.items())[:limit]

    def _touched(
        self, db: sqlite3.Connection, key: int | None, known: _Complete, limit: int
    ) -> list[tuple[str, str]]:
        """Passages below the mark whose record may have become searchable since."""
        rows = db.execute(
            f"{_LACKING} AND passages.id <= ? AND passages.id IN "
            "(SELECT passage FROM changes WHERE seq > ? AND kind = ?) ORDER BY passages.id LIMIT ?",
            (key, known.passage, known.seq, Kind.TOUCHED, limit),
        ).fetchall()
        return [(sha256, passage_input(title_path, text)) for _, sha256, title_path, text in rows]

    def _still_live(self, db: sqlite3.Connection, sha256s: list[str]) -> list[tuple[str, str]]:
        """Texts whose stored vector was found broken."""
        found = []
        for marks, batch in in_batches(sha256s):
            rows = db.execute(
                "SELECT text_sha256, title_path, text FROM passages "
                f"WHERE text_sha256 IN ({marks}) ORDER BY id",
                batch,
            )
            found += [(sha256, passage_input(title_path, text)) for sha256, title_path, text in rows]
        return found


def _dimension(db: sqlite3.Connection, model: str) -> int | None:
    row = db.execute("SELECT dimension FROM models WHERE name = ?", (model,)).fetchone()
    return int(row[0]) if row else None


def _last_passage(db: sqlite3.Connection) -> int:
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()
    return int(last)


def _read_vector(blob: bytes, dimension: int | None) -> NDArray[np.float32] | None:
    """The stored vector, or None if it cannot be trusted."""
    if dimension is None or len(blob) != dimension * FLOAT.itemsize:
        return None
    vector = np.frombuffer(blob, FLOAT)
    return vector if np.isfinite(vector).all() else None
