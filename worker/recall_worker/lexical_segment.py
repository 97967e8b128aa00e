"""Lexical segment: one immutable segment of the index, as the scorer reads it.

Flow:  lexical_store → [lexical_segment] → lexical_scoring → lexical
In:    Whoosh's columns of a segment, and its arrays.   Out: columns in memory, postings where they lie on disk.
Never: the segment's deletions: they change with commits, so the view keeps them.
Next:  worker/recall_worker/lexical_scoring.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_worker.lexical_arrays import Postings, Tables
from recall_worker.lexical_writer import arrays_path


class Segment:
    """One segment. Its arrays stay readable, also after a merge removed the file, until the last view is gone."""

    def __init__(self, reader: Any, folder: Path) -> None:
        """Load the columns and map the arrays.

        Args:
            reader: Whoosh's SegmentReader; not needed any more afterwards.
            folder: Where the segment's arrays are kept.

        Raises:
            OSError, ValueError: Something is missing or not whole.
        """
        self.id: str = reader.segment().segment_id()
        size = reader.doc_count_all()
        self.passage_ids = _column(reader, "passage", size, np.dtype(np.int64))
        self.lengths = _column(reader, "length", size, np.dtype(np.float32))
        self.grammed = _column(reader, "grammed", size, np.dtype(np.bool_))
        self._tables = Tables.open(arrays_path(folder, self.id)).of

    def find(self, field: str, term: str) -> tuple[int, int] | None:
        """Where a term's postings start and stop; None if no document has it."""
        table = self._tables[field]
        place = table.find(term.encode())
        return None if place < 0 else table.extent(place)

    def postings(self, field: str, start: int, stop: int) -> Postings:
        """Documents with the term, ascending, and how often each has it; deleted ones included."""
        return self._tables[field].postings(start, stop)


def _column(reader: Any, name: str, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """A whole per-document column."""
    return np.fromiter(reader.column_reader(name, translate=False), kind, size)
