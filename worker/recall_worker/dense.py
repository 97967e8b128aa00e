"""Dense: every passage's vector in one matrix, searched exactly.

Flow:  ledger → encoder_process → [dense] → hybrid → search → hook → digest
In:    unit vectors and the corpus rows they belong to.   Out: one cosine per row.
Never: an approximate answer, or a row that a reader sees half written.
Next:  worker/recall_worker/hybrid.py
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SMALLEST: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What one search reads. Arrays have room to spare: only the first `rows` count.

    A row of `vectors` is written before `embedded` says that it is there, and never after. So whoever copies
    `embedded` first may read those rows without a lock while others are being added.
    """

    vectors: NDArray[np.float32]  # (capacity, dimension)
    embedded: NDArray[np.bool_]  # (capacity,)
    rows: int


class DenseMatrix:
    """Unit vectors by row, float32: numpy's dot product is ten times slower in half precision or int8.

    One lock orders the writers; readers take none. A change that readers could see half done (growth, another
    vector in a row that has one) happens in fresh arrays that replace the old ones in one assignment.
    100,000 rows of 384 take 154 MB, and one search of them about 8 ms on one thread.

    Args:
        dimension: Length of a vector.
    """

    def __init__(self, dimension: int) -> None:
        if dimension < 1:
            raise ValueError(f"dimension: wanted at least 1, got {dimension}")
        self.dimension = dimension
        self._writing = threading.Lock()
        self._view = _View(
            vectors=np.zeros((0, dimension), dtype=np.float32), embedded=np.zeros(0, dtype=np.bool_), rows=0
        )

    def __len__(self) -> int:
        """Rows, with a vector or without."""
        return self._view.rows

    @property
    def embedded(self) -> int:
        """Rows that have a vector."""
        return int(np.count_nonzero(self.embedded_mask()))

    def embedded_mask(self) -> NDArray[np.bool_]:
        """True where a row has a vector, shape (rows,); a copy."""
        view = self._view
        return view.embedded[: view.rows].copy()

    def resize(self, n_rows: int) -> None:
        """Make room for rows at the end; they have no vector yet.

        Args:
            n_rows: Rows from now on. Rows of a corpus are only ever appended, so fewer than now is an error.

        Raises:
            ValueError: Fewer rows than there are.
        """
        with self._writing:
            view = self._view
            if n_rows < view.rows:
                raise ValueError(
                    f"rows: wanted at least {view.rows}, got {n_rows}; a smaller corpus takes a new matrix"
                )
            if n_rows > len(view.embedded):
                # Doubling keeps appending cheap; zeros beyond the rows take no memory until they are written.
                view = self._copy(view, capacity=max(n_rows, 2 * len(view.embedded), _SMALLEST))
            self._view = replace(view, rows=n_rows)

    def put(self, rows: NDArray[np.integer[Any]], vectors: NDArray[np.float32]) -> None:
        """Give rows their vectors. A row may have one already; putting the same again costs nothing.

        Args:
            rows: Distinct row numbers, shape (n,).
            vectors: Unit vectors, shape (n, dimension).

        Raises:
            ValueError: Shapes that do not fit; a row that is not there or stands twice; a vector not finite.
        """
        rows = np.asarray(rows, dtype=np.intp)
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if rows.ndim != 1 or vectors.shape != (len(rows), self.dimension):
            raise ValueError(f"vectors: wanted shape ({rows.size}, {self.dimension}), got {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise ValueError("vectors: wanted finite numbers")
        with self._writing:
            view = self._view
            if rows.size and not 0 <= rows.min() <= rows.max() < view.rows:
                raise ValueError(f"rows: wanted 0 to {view.rows - 1}, got {rows.min()} to {rows.max()}")
            if len(np.unique(rows)) < len(rows):
                raise ValueError("rows: wanted each row once")
            taken = view.embedded[rows]
            if not np.array_equal(view.vectors[rows[taken]], vectors[taken]):
                view = self._copy(view, capacity=len(view.embedded))
            view.vectors[rows] = vectors
            view.embedded[rows] = True
            self._view = view

    def vectors_of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Vectors of some rows, shape (n, dimension), a copy; zeros where a row has none."""
        return np.take(self._view.vectors, rows, axis=0)

    def scores(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosine of every row with one query.

        Args:
            query: Unit vector, shape (dimension,).

        Returns:
            Shape (rows,), -1 to 1, NaN where a row has no vector.

        Raises:
            ValueError: A query of another length.
        """
        if query.shape != (self.dimension,):
            raise ValueError(f"query: wanted shape ({self.dimension},), got {query.shape}")
        view = self._view
        missing = ~view.embedded[: view.rows]  # before the product: see _View
        found: NDArray[np.float32] = view.vectors[: view.rows] @ query.astype(np.float32, copy=False)
        found[missing] = np.nan
        return found

    def _copy(self, view: _View, *, capacity: int) -> _View:
        """The same rows in arrays of their own, so that readers of the old ones are left alone."""
        vectors = np.zeros((capacity, self.dimension), dtype=np.float32)
        embedded = np.zeros(capacity, dtype=np.bool_)
        vectors[: view.rows] = view.vectors[: view.rows]
        embedded[: view.rows] = view.embedded[: view.rows]
        return _View(vectors=vectors, embedded=embedded, rows=view.rows)
