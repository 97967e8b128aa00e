"""Lexical: BM25 over the ledger's passages; every prompt is answered from arrays on disk.

Flow:  ledger → analysis → [lexical] → search → digest
In:    passages added and removed.   Out: a score per corpus row, and how much of the prompt it explains.
Never: a lock held while scoring. A search reads the view it found; a commit puts a new one in its place.
Next:  worker/recall_worker/search.py

    lexical_store     Whoosh's folder: opened, committed to    lexical_writer    Whoosh's writer, fed with lists
    lexical_arrays    postings in a file that is mapped        lexical_segment   a segment as the scorer reads it
    lexical_scoring   BM25 impacts, added up                   lexical_query     a prompt's informative terms
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.lexical_impacts import ByteCache, Impact, add_up
from recall_worker.lexical_query import QueryTerm, query_terms
from recall_worker.lexical_scoring import WORDS, Bm25, View
from recall_worker.records import Passage, PassageId

if TYPE_CHECKING:
    from recall_worker.lexical_store import Store

log = logging.getLogger(__name__)

CACHE_BYTES: Final = 48 * 2**20
HELD_PRIOR: Final = 8.0
"""Weighted idf that a passage is always missing: about two rare words."""

ABSENT_WEIGHT: Final = 0.5
"""What a word that no passage has counts beside others, ratio."""

_MANY_SEGMENTS: Final = 16
_MANY_DELETED: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalScores:
    """What the lexical half says about a prompt.

    Attributes:
        values: BM25, float32, shape (n,), aligned to the ids asked for; 0 where no term meets.
        mass: Weighted idf of all its words: what a passage would score that held each of them once or so.
        terms: Words that were scored, the most informative first.
        scored: Words and grams, each with what it adds; None if no passage has it.
        documents: Document of each value, shape (n,).
    """

    values: NDArray[np.float32]
    mass: float
    terms: tuple[str, ...]
    scored: tuple[tuple[QueryTerm, Impact | None], ...]
    documents: NDArray[np.intp]

    @property
    def coverage(self) -> float:
        """Share of the prompt's idf mass that the best passage contains, ratio 0 to 1."""
        if not len(self.values) or self.values.max() <= 0:
            return 0.0
        best = self.documents[[int(self.values.argmax())]]
        found = (
            term.weight * term.idf
            for term, impact in self.scored
            if term.field == WORDS and impact is not None and impact.has(best)[0]
        )
        return sum(found) / self.mass if self.mass else 0.0

    def held(self, places: NDArray[np.intp]) -> NDArray[np.float32]:
        """Tell how much of what the prompt says some passages hold, whatever their length.

        A word that the whole index lacks weighs half: in a small vault most words do, and it says little. The weight
        of two rare words is always missing, so that to hold the one common word of a short prompt, or its stop words,
        is to hold little.

        Args:
            places: Places in `values`, shape (k,).

        Returns:
            Weighted idf of words and grams that each holds, over all of it; ratio 0 to 1, shape (k,).
        """
        documents = self.documents[places]
        held = np.zeros(len(places), np.float32)
        mass = HELD_PRIOR
        for term, impact in self.scored:
            weight = term.weight * term.idf
            mass += weight if impact is not None else ABSENT_WEIGHT * weight
            if impact is not None:
                held[impact.has(documents)] += weight
        return held / np.float32(mass)


class LexicalIndex:
    """One generation's index. One thread writes at a time; any number of threads search beside it."""

    def __init__(self, store: Store, *, bm25: Bm25, cache: ByteCache[Impact]) -> None:
        """Use `open()`."""
        self._store = store
        self._bm25 = bm25
        self._cache = cache
        self._writing = threading.Lock()
        self._view = self._read()
        query_terms("the", self._view)  # loads the stop words, 60 ms that the first prompt would pay

    @classmethod
    def open(cls, folder: Path, *, bm25: Bm25 | None = None, cache_bytes: int = CACHE_BYTES) -> LexicalIndex:
        """Open the index in a folder of its own, or make an empty one there.

        Args:
            folder: Missing, empty, or made by this class.
            bm25: How to score.
            cache_bytes: Memory for impacts.

        Raises:
            LexicalIndexError: It is damaged, or was made by another analyzer or schema: make a fresh one.
        """
        from recall_worker.lexical_store import Store

        cache: ByteCache[Impact] = ByteCache(cache_bytes)
        return cls(Store(folder), bm25=bm25 or Bm25(), cache=cache)

    @property
    def seq(self) -> int:
        """Position in the ledger's change log that the index holds."""
        return self._store.seq

    @property
    def cached_bytes(self) -> int:
        """Memory held by impacts."""
        return self._cache.nbytes

    def __len__(self) -> int:
        """Passages that can be found."""
        return self._view.documents[WORDS]

    def update(self, *, added: Sequence[Passage], removed: Sequence[PassageId], seq: int) -> None:
        """Bring the index to a position of the ledger's change log, in one commit. Replaying is harmless.

        Args:
            added: New passages; one that is here already, or is removed in the same call, is not added.
            removed: Passages to forget; unknown ones are no error.
            seq: The position, written durably after the commit.

        Raises:
            LexicalIndexError: Nothing was changed (the disk is full, say), or the folder is damaged.
        """
        started = time.perf_counter()
        with self._writing:
            view = self._view
            gone = set(removed)
            fresh = list({passage.id: passage for passage in added if passage.id not in gone}.values())
            present = view.rows(np.array([passage.id for passage in fresh], np.int64), keep=False) < view.size
            fresh = [passage for passage, known in zip(fresh, present.tolist(), strict=True) if not known]
            rows = view.rows(np.array(sorted(gone), np.int64), keep=False)
            rows = rows[rows < view.size]
            if fresh or len(rows):
                self._store.commit(fresh, rows.tolist())
                self._view = self._read()
            self._store.write_seq(seq)
        ms = (time.perf_counter() - started) * 1000
        log.info("lexical added=%d removed=%d seq=%d ms=%.0f", len(fresh), len(rows), seq, ms)

    def scores(self, query: str, ids: NDArray[np.int64]) -> LexicalScores:
        """Score every passage against a prompt.

        Args:
            query: As typed; a long one is cut to its 32 most informative words and 24 grams.
            ids: Passage ids, ascending, shape (n,).

        Returns:
            Scores aligned to `ids`; a passage that the index does not hold (yet, or any more) scores 0.
        """
        view = self._view
        terms = query_terms(query, view)
        by_document = np.zeros(view.size + 1, np.float32)
        impacts = [
            view.impact(term.field, term.term, term.weight) if term.documents else None for term in terms
        ]
        add_up(impacts, by_document[: view.size])
        rows = view.rows(ids)
        values = by_document[rows]
        return LexicalScores(
            values=values,
            mass=sum(term.weight * term.idf for term in terms if term.field == WORDS),
            terms=tuple(term.term for term in terms if term.field == WORDS),
            scored=tuple(zip(terms, impacts, strict=True)),
            documents=rows,
        )

    def explain(self, query: str) -> tuple[QueryTerm, ...]:
        """List the terms that `scores()` searches a prompt by, with weights and idf."""
        return tuple(query_terms(query, self._view))

    def idf(self, word: str) -> tuple[float, int]:
        """Weight of a word of `analyze()` and about how many passages have it; reads no posting list."""
        return self._view.rough_idf(WORDS, word)

    def compact(self, *, most_segments: int = _MANY_SEGMENTS) -> None:
        """Merge all segments into one if they, or the deleted passages in them, have become many.

        Args:
            most_segments: More than these are many.

        Raises:
            LexicalIndexError: As for `update()`.
        """
        with self._writing:
            view = self._view
            if view.segments > most_segments or view.deleted_ratio > _MANY_DELETED:
                self._store.commit([], [], optimize=True)
                self._view = self._read()
                self._store.write_seq(self._store.seq)
                log.info("lexical compacted segments=%d passages=%d", view.segments, len(self))

    def close(self) -> None:
        """Let the files go with this object; until then searches answer, also when the folder is gone."""
        with self._writing:
            self._store.close()

    def _read(self) -> View:
        return View(self._store.read(), bm25=self._bm25, cache=self._cache)
