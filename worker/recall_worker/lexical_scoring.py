"""Lexical scoring: BM25 over decoded postings, with numpy.

Flow:  lexical_store → lexical_segment → [lexical_scoring] → lexical → search
In:    immutable segments and which of their documents are deleted.   Out: impacts, added up per document.
Never: Whoosh, text, a change to a view: a commit makes a new one.
Next:  worker/recall_worker/lexical.py
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_worker.lexical_impacts import ByteCache, Impact

WORDS: Final = "words"
GRAMS: Final = "grams"

_DENSE_SHARE: Final = 1 / 8
"""A term in more of the documents than this is kept as one vector: faster to add, and not much larger."""

_KNOWN_TERMS: Final = 20_000
"""Terms whose place and idf are remembered; a long pasted log asks for thousands."""

_serials = itertools.count()

S = TypeVar("S", bound=np.generic)


def lucene_idf(documents: int, with_term: int) -> float:
    """Weigh a term by its rarity; never negative.

    Args:
        documents: Documents in all.
        with_term: Those that have the term.

    Source: Lucene's BM25Similarity; Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009.
    """
    return math.log1p((documents - with_term + 0.5) / (with_term + 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25:
    """How scores are made; docs/decisions/0007-lexical-scoring.md has the measures behind each value.

    Source: Lv and Zhai, Lower-Bounding Term Frequency Normalization, CIKM 2011, for `delta`.

    Attributes:
        k1: How soon more of the same term stops counting.
        b: How much length counts among long documents, ratio.
        short_words: Words at which half of `b` is left: short texts differ in length by accident.
        delta: What a term adds by being there at all, whatever the length of the document (BM25+).
        gram_weight: Weight of an n-gram beside a word, ratio.
        stop_weight: Weight of a stop word in a query, ratio.
        top_words: Word terms of a query that are scored, the most informative.
        top_grams: Grams of a query that are scored, the most informative.
        idf: Documents in all and with the term → weight.
    """

    k1: float = 0.9
    b: float = 0.75
    short_words: float = 40.0
    delta: float = 1.0
    gram_weight: float = 0.25
    stop_weight: float = 0.3
    top_words: int = 32
    top_grams: int = 24
    idf: Callable[[int, int], float] = lucene_idf

    def norms(self, lengths: NDArray[np.float32], mean: float) -> NDArray[np.float32]:
        """What a document's length adds below the fraction line.

        Args:
            lengths: Words of each document, shape (n,).
            mean: Their mean over live documents.

        Returns:
            `k1 * (1 - B + B * length / mean)`, shape (n,), with B faded for a corpus of short documents.
        """
        if mean <= 0:
            return np.full(len(lengths), self.k1, np.float32)
        b = self.b * mean / (mean + self.short_words)
        return (self.k1 * (1 - b + b * (lengths / np.float32(mean)))).astype(np.float32)


class Postings(Protocol):
    """One segment of the index as the scorer sees it; immutable."""

    passage_ids: NDArray[np.int64]
    lengths: NDArray[np.float32]
    grammed: NDArray[np.bool_]

    def find(self, field: str, term: str) -> tuple[int, int] | None:
        """Where a term's postings start and stop; None if no document has it."""

    def postings(self, field: str, start: int, stop: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Documents with the term, ascending, and how often each has it; deleted ones included."""


class View:
    """All documents after one commit. Only its caches change: any thread may score while the next is made."""

    def __init__(
        self, segments: Sequence[tuple[Postings, NDArray[np.int64]]], *, bm25: Bm25, cache: ByteCache[Impact]
    ) -> None:
        """Lay segments end to end.

        Args:
            segments: Each with the numbers of its deleted documents.
            bm25: How to score.
            cache: Where impacts are kept, beside those of earlier views, which are forgotten in time.
        """
        self.bm25 = bm25
        self._segments = [segment for segment, _ in segments]
        self._bases = np.cumsum([0, *(len(segment.passage_ids) for segment in self._segments)]).tolist()
        self.size: int = self._bases[-1]
        self.live = np.ones(self.size, np.bool_)
        for base, (_, deleted) in zip(self._bases, segments, strict=False):
            self.live[base + deleted] = False
        self.passage_ids = _joined([segment.passage_ids for segment in self._segments], np.int64)
        lengths = _joined([segment.lengths for segment in self._segments], np.float32)
        grammed = _joined([segment.grammed for segment in self._segments], np.bool_) & self.live
        self.documents = {WORDS: int(np.count_nonzero(self.live)), GRAMS: int(np.count_nonzero(grammed))}
        self.whole = self.documents[WORDS] == self.size
        mean = float(lengths[self.live].mean(dtype=np.float64)) if self.documents[WORDS] else 0.0
        self._norms = bm25.norms(lengths, mean)
        self._cache = cache
        self._serial = next(_serials)
        self._idfs: dict[tuple[str, str], tuple[float, int]] = {}
        self._places: dict[tuple[str, str], tuple[tuple[int, int, int], ...]] = {}
        self._aligned: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None
        self._order: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def deleted_ratio(self) -> float:
        """Share of documents that are deleted but still in their segments."""
        return 1 - self.documents[WORDS] / self.size if self.size else 0.0

    def rows(self, ids: NDArray[np.int64], *, keep: bool = True) -> NDArray[np.intp]:
        """Documents of passages; `size` where a passage is not in the index.

        Args:
            ids: Passage ids, shape (n,).
            keep: Remember the answer: searches ask with the same ids until the next commit.
        """
        aligned = self._aligned
        if aligned is not None and (
            (aligned[0] is ids and not ids.flags.writeable) or np.array_equal(aligned[0], ids)
        ):
            return aligned[1]
        known, order = self._sorted()
        place = np.searchsorted(known, ids)
        found = place < len(known)
        found[found] = known[place[found]] == ids[found]
        rows = np.full(len(ids), self.size, np.intp)
        rows[found] = order[place[found]]
        if keep:
            self._aligned = (ids.copy() if ids.flags.writeable else ids, rows)
        return rows

    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Ids of live passages, ascending, and their documents; sorted once."""
        if self._order is None:
            live = np.flatnonzero(self.live)
            order = live[np.argsort(self.passage_ids[live], kind="stable")]
            self._order = self.passage_ids[order], order
        return self._order

    def idf(self, field: str, term: str) -> tuple[float, int]:
        """Weight of a term and how many live documents have it."""
        if self.whole:
            return self.rough_idf(field, term)  # nothing is deleted: the segments' own counts are right
        impact = self.impact(field, term) if self.rough_idf(field, term)[1] else None
        if impact is not None:
            return impact.idf, impact.documents
        return (self.bm25.idf(self.documents[field], 0) if self.documents[field] else 0.0), 0

    def rough_idf(self, field: str, term: str) -> tuple[float, int]:
        """The same by the segments' own counts, which include deleted documents; reads no posting list."""
        known = self._idfs.get((field, term))
        if known is None:
            found = sum(stop - start for _, start, stop in self._find(field, term))
            count = min(found, self.documents[field])
            known = (self.bm25.idf(self.documents[field], count) if self.documents[field] else 0.0), count
            if len(self._idfs) >= _KNOWN_TERMS:
                self._idfs.clear()
            self._idfs[field, term] = known
        return known

    def _find(self, field: str, term: str) -> tuple[tuple[int, int, int], ...]:
        """Number of each segment that has a term, and where its postings start and stop there."""
        known = self._places.get((field, term))
        if known is None:
            places = [segment.find(field, term) for segment in self._segments]
            known = tuple((number, *place) for number, place in enumerate(places) if place is not None)
            if len(self._places) >= _KNOWN_TERMS:
                self._places.clear()
            self._places[field, term] = known
        return known

    def impact(self, field: str, term: str, weight: float = 1.0) -> Impact | None:
        """What a term adds to each live document, or None if no live document has it.

        Args:
            weight: What to multiply it by.
        """
        key = (self._serial, field, term, weight)
        impact = self._cache.get(key)
        if impact is None:
            impact = self._make_impact(field, term, weight)
            self._cache.put(key, impact, impact.nbytes)
        return impact if impact.documents else None

    def _make_impact(self, field: str, term: str, weight: float) -> Impact:
        """Join the segments' postings, leave the deleted out, and score once."""
        rows, counts = self._postings(field, term)
        if not self.whole:
            live = self.live[rows]
            rows, counts = rows[live], counts[live]
        idf = self.bm25.idf(self.documents[field], len(rows))
        values = np.float32(idf * (self.bm25.k1 + 1)) * counts / (counts + self._norms[rows])
        values += np.float32(idf * self.bm25.delta)
        if weight != 1:
            values *= np.float32(weight)
        if len(rows) > self.documents[WORDS] * _DENSE_SHARE:
            everywhere = np.zeros(self.size, np.float32)
            everywhere[rows] = values
            return Impact(documents=len(rows), idf=idf, rows=None, values=everywhere)
        return Impact(documents=len(rows), idf=idf, rows=rows, values=values)

    def _postings(self, field: str, term: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """A term's documents in all segments, deleted ones included, and how often each has it."""
        found = []
        for number, start, stop in self._find(field, term):
            documents, counts = self._segments[number].postings(field, start, stop)
            base = self._bases[number]
            found.append((documents + np.int32(base) if base else documents, counts))
        if len(found) == 1:
            return found[0][0], found[0][1].astype(np.float32)
        return (
            _joined([documents for documents, _ in found], np.int32),
            _joined([counts for _, counts in found], np.float32),
        )


def _joined(arrays: Sequence[NDArray[Any]], kind: type[S]) -> NDArray[S]:
    """One array of a given type, also of none."""
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)
