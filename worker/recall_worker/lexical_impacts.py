"""Lexical impacts: what a term adds to each document that has it, kept in bounded memory and added up.

Flow:  lexical_scoring → [lexical impacts] → lexical → search
In:    documents and scores of a term.   Out: sums, one for each document.
Never: a lock on the way of a search; more bytes than the cache may hold.
Next:  worker/recall_worker/lexical.py
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What a term adds to each document that has it.

    Attributes:
        documents: How many live documents have it.
        idf: Its weight.
        rows: Documents, shape (documents,); None if `values` has one entry for every document.
        values: Scores, no unit.
    """

    documents: int
    idf: float
    rows: NDArray[np.int32] | None
    values: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + (0 if self.rows is None else self.rows.nbytes)

    def has(self, documents: NDArray[np.intp]) -> NDArray[np.bool_]:
        """True for each of some documents that the term is in; False past the last one, shape as given."""
        if self.rows is None:
            inside = documents < len(self.values)
            return inside & (self.values[np.where(inside, documents, 0)] > 0)
        places = np.minimum(np.searchsorted(self.rows, documents), len(self.rows) - 1)
        found: NDArray[np.bool_] = self.rows[places] == documents
        return found


class ByteCache(Generic[V]):
    """Mapping that forgets what it has had longest when its values pass a number of bytes. Thread-safe."""

    _OVERHEAD: Final = 300  # key, array headers, entry

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[Hashable, tuple[V, int]] = {}
        self._lock = threading.Lock()
        self.nbytes = 0

    def get(self, key: Hashable) -> V | None:
        """The value, if it is still here; takes no lock."""
        held = self._held.get(key)
        return None if held is None else held[0]

    def put(self, key: Hashable, value: V, nbytes: int) -> None:
        """Keep a value; one that is larger than the limit alone is not kept."""
        nbytes += self._OVERHEAD
        with self._lock:
            if nbytes > self._limit or key in self._held:
                return
            self._held[key] = (value, nbytes)
            self.nbytes += nbytes
            while self.nbytes > self._limit:
                _, freed = self._held.pop(next(iter(self._held)))
                self.nbytes -= freed


def add_up(impacts: Iterable[Impact | None], scores: NDArray[np.float32]) -> None:
    """Add what terms are worth to the documents that have them, term by term in this order.

    Args:
        impacts: Of the terms.
        scores: Changed in place, one for each document.
    """
    lists: list[Impact] = []
    for impact in impacts:
        if impact is None:
            continue
        if impact.rows is not None:
            lists.append(impact)
            continue
        _add_lists(scores, lists)
        lists.clear()
        scores += impact.values
    _add_lists(scores, lists)


def _add_lists(scores: NDArray[np.float32], lists: Sequence[Impact]) -> None:
    """Add posting lists, all in one call."""
    rows = [impact.rows for impact in lists if impact.rows is not None]
    if len(rows) == 1:
        np.add.at(scores, rows[0], lists[0].values)
    elif rows:
        np.add.at(scores, np.concatenate(rows), np.concatenate([impact.values for impact in lists]))
