"""Lexical segment: one immutable Whoosh segment, its postings decoded once to numpy arrays.

Flow:  lexical_store → [lexical_segment] → lexical_scoring → lexical
In:    an open Whoosh segment reader.   Out: columns and postings.
Never: the segment's deletions: they change with commits, so the view keeps them.
Next:  worker/recall_worker/lexical_scoring.py
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from whoosh.codec.whoosh3 import W3LeafMatcher
from whoosh.reading import TermNotFound

from recall_worker.lexical_scoring import ByteLru

Decoded = tuple[NDArray[np.int32], NDArray[Any]]

_COUNTED_TERMS: Final = 20_000
"""Terms whose frequency is remembered; a long pasted log asks for thousands."""


class Segment:
    """One segment. Its files stay readable, also after a merge removed them, until the last view is gone."""

    def __init__(self, reader: Any, cache: ByteLru[Any]) -> None:
        """Load the columns.

        Args:
            reader: Whoosh's SegmentReader; closed with this object.
            cache: Where decoded postings are kept.
        """
        self.id: str = reader.segment().segment_id()
        size = reader.doc_count_all()
        self.passage_ids = _column(reader, "passage", size, np.dtype(np.int64))
        self.lengths = _column(reader, "length", size, np.dtype(np.float32))
        self.grammed = _column(reader, "grammed", size, np.dtype(np.bool_))
        self._schema = reader.schema
        self._terms = reader._terms
        self._cache = cache
        self._frequencies: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, reader.close)

    def frequency(self, field: str, term: str) -> int:
        """Documents with the term, deleted ones included."""
        count = self._frequencies.get((field, term))
        if count is None:
            with self._lock:
                try:
                    count = int(self._terms.doc_frequency(field, term.encode()))
                except (KeyError, TermNotFound):
                    count = 0
                if len(self._frequencies) >= _COUNTED_TERMS:
                    self._frequencies.clear()
                self._frequencies[field, term] = count
        return count

    def postings(self, field: str, term: str) -> Decoded:
        """Documents with the term, ascending, and how often each has it; the term must be there.

        Whoosh's files have one read position: one thread decodes at a time. A commit has its own handles and
        never waits here.
        """
        key = (self.id, field, term)
        decoded: Decoded | None = self._cache.get(key)
        if decoded is None:
            with self._lock:
                decoded = _decode(self._terms.matcher(field, term.encode(), self._schema[field].format))
            self._cache.put(key, decoded, decoded[0].nbytes + decoded[1].nbytes)
        return decoded


def _column(reader: Any, name: str, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """A whole per-document column."""
    return np.fromiter(reader.column_reader(name, translate=False), kind, size)


def _decode(matcher: Any) -> Decoded:
    """Read a posting list to its end: by blocks of 128, or one by one where it is stored inline."""
    documents: list[int] = []
    counts: list[float] = []
    while matcher.is_active():
        if isinstance(matcher, W3LeafMatcher):
            matcher._read_ids()
            matcher._read_weights()
            documents += matcher._ids
            counts += matcher._weights
            matcher._next_block()
        else:
            documents.append(matcher.id())
            counts.append(matcher.weight())
            matcher.next()
    small = np.uint8 if max(counts, default=0) < 256 else np.float32
    return np.array(documents, np.int32), np.array(counts, small)
