"""Lexical writer: Whoosh's own writer, given posting lists instead of postings.

Flow:  ledger → analysis → [lexical_writer] → Whoosh's files, lexical_arrays → lexical_segment
In:    analysed passages, and the arrays of segments that are merged.   Out: a Whoosh segment and its arrays.
Never: a file that Whoosh itself could not read, score and merge.
Next:  worker/recall_worker/lexical_store.py

Whoosh keeps a tuple for each posting, sorts them all and hands them on one by one: 5 ms for a passage with its
n-grams. Here a term's postings stay together from the start, and a merge reads them from arrays. Whoosh still numbers
documents, decides what is merged, lays out its blocks and commits.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from whoosh.codec.whoosh3 import W3Codec, W3FieldWriter, W3Segment
from whoosh.fields import TEXT
from whoosh.writing import SegmentWriter

from recall_worker.lexical_arrays import FIELDS, Postings, TableBuilder, Tables, write_tables

_BLOCK: Final = 128
"""Whoosh's own; a block is what its readers skip by."""

_COMPRESSION: Final = 3
_WORTH_COMPRESSING: Final = 16
"""Postings below which zlib makes a block larger."""

Terms = Iterator[tuple[bytes, Postings]]


def arrays_path(folder: Path, segment_id: str) -> Path:
    """Where a segment's arrays are kept. The name is none of Whoosh's, which packs and removes its own."""
    return folder / f"arrays-{segment_id}.bin"


class TermsField(TEXT):  # type: ignore[misc]
    """A text field whose value may be a list of terms; counts them at once."""

    def index(self, value: Any, **options: Any) -> Iterable[tuple[bytes, int, float, bytes]]:
        """What Whoosh indexes: term, frequency, weight and a value that the posting list makes itself."""
        if not isinstance(value, list):
            found: Iterable[tuple[bytes, int, float, bytes]] = super().index(value, **options)
            return found
        return [(term.encode(), count, count, b"") for term, count in Counter(value).items()]


class ArrayWriter(SegmentWriter):  # type: ignore[misc]
    """Writes one commit."""

    def __init__(self, index: Any, *, folder: Path) -> None:
        """Begin a commit; the caller holds the write lock."""
        super().__init__(index, _lk=False, codec=_Codec(folder))
        self.folder = folder
        self.pool = _Pool()

    def add_postings_to_pool(self, reader: Any, startdoc: int, docmap: dict[int, int] | None) -> None:
        """Take in a segment that is merged, from its arrays."""
        size = reader.doc_count_all()
        if docmap is None:
            numbers = np.arange(startdoc, startdoc + size, dtype=np.int32)
        else:
            numbers = np.full(size, -1, np.int32)
            numbers[list(docmap)] = list(docmap.values())
        self.pool.merge(Tables.open(arrays_path(self.folder, reader.segment().segment_id())), numbers)

    def cancel(self) -> None:
        """Drop the commit."""
        super().cancel()
        arrays_path(self.folder, self.newsegment.segment_id()).unlink(missing_ok=True)


class _Pool:
    """Posting lists of a commit, by term."""

    def __init__(self) -> None:
        self._fresh: dict[str, dict[bytes, tuple[list[int], list[int]]]] = {field: {} for field in FIELDS}
        self._merged: list[tuple[Tables, NDArray[np.int32]]] = []

    def add(self, item: tuple[str, bytes, int, float, bytes]) -> None:
        """Add one posting of a new document; documents come in ascending order."""
        field, term, document, count, _ = item
        found = self._fresh[field].get(term)
        if found is None:
            self._fresh[field][term] = ([document], [int(count)])
        else:
            found[0].append(document)
            found[1].append(int(count))

    def merge(self, tables: Tables, numbers: NDArray[np.int32]) -> None:
        """Add a whole segment whose documents take these numbers, all of them higher than any before."""
        self._merged.append((tables, numbers))

    def iter_postings(self) -> _Pool:
        """The pool itself: the field writer asks it for lists."""
        return self

    def terms(self, field: str) -> Terms:
        """Every term of a field in order, with all its postings."""
        streams = [self._new_terms(field), *(tables.of[field].renumbered(to) for tables, to in self._merged)]
        for term, same in groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
            lists = [postings for _, postings in same]
            if len(lists) == 1:
                yield term, lists[0]
            else:
                yield (
                    term,
                    (
                        np.concatenate([documents for documents, _ in lists]),
                        np.concatenate([counts for _, counts in lists]),
                    ),
                )

    def cleanup(self) -> None:
        """Let go of everything."""
        self._merged.clear()

    def _new_terms(self, field: str) -> Terms:
        fresh = self._fresh[field]
        for term in sorted(fresh):
            documents, counts = fresh[term]
            yield term, (np.array(documents, np.int32), np.array(counts, np.uint32))


class _Codec(W3Codec):  # type: ignore[misc]
    """Whoosh's codec, writing arrays beside its files."""

    length_stats = False
    """Lengths are reckoned from the lists, not asked for posting by posting."""

    def __init__(self, folder: Path) -> None:
        super().__init__(blocklimit=_BLOCK)
        self.folder = folder

    def field_writer(self, storage: Any, segment: Any) -> _FieldWriter:
        """One for each segment."""
        return _FieldWriter(self, storage, segment)

    def new_segment(self, storage: Any, indexname: str) -> W3Segment:
        """Named after Whoosh's own class: Whoosh pickles it."""
        return W3Segment(W3Codec(), indexname)


class _FieldWriter(W3FieldWriter):  # type: ignore[misc]
    """Writes a segment's terms, to Whoosh's files and to the arrays."""

    def add_postings(self, schema: Any, lengths: None, pool: _Pool) -> None:
        """Write all terms of all fields."""
        tables = {field: TableBuilder() for field in FIELDS}
        for field in FIELDS:
            # Shortest and longest text of a block are for Whoosh's own scorer, which we hold ours against.
            terms = list(pool.terms(field))
            if not terms:
                continue
            of_document = _lengths(terms)
            self.start_field(field, schema[field])
            for term, (documents, counts) in terms:
                self.start_term(term)
                self._add_list(documents, counts, of_document)
                self.finish_term()
                tables[field].add(term, documents, counts)
            self.finish_field()
        path = arrays_path(self._codec.folder, self._segment.segment_id())
        write_tables(path, [tables[field].arrays() for field in FIELDS])

    def _add_list(self, documents: NDArray[np.int32], counts: NDArray[Any], lengths: list[int]) -> None:
        """Fill the writer's blocks at once instead of posting by posting."""
        writer = self._postwriter
        writer._compression = _COMPRESSION if len(documents) >= _WORTH_COMPRESSING else 0
        for start in range(0, len(documents), _BLOCK):
            if start:
                writer._write_block()
            numbers, weights = documents[start : start + _BLOCK].tolist(), counts[start : start + _BLOCK]
            of_block = [lengths[number] for number in numbers]
            writer._ids = array("I", numbers)
            writer._weights = array("f", weights.tolist())
            writer._values = [weights.astype(">u4").tobytes()]
            writer._maxweight = max(writer._weights)
            writer._minlength, writer._maxlength = min(of_block), max(of_block)


def _lengths(terms: Iterable[tuple[bytes, Postings]]) -> list[int]:
    """How many terms of a field each document has."""
    documents = np.concatenate([found for _, (found, _) in terms])
    counts = np.concatenate([found for _, (_, found) in terms])
    lengths: list[int] = np.bincount(documents, counts).astype(np.int64).tolist()
    return lengths
