"""Lexical arrays: the postings of one segment in one file, laid out to be searched where they lie.

Flow:  lexical_writer → [lexical_arrays] → lexical_segment → lexical_scoring
In:    terms in order, each with its documents and counts.   Out: the same, read by mapping the file.
Never: a copy of a posting list, a pickle, a table of terms in memory.
Next:  worker/recall_worker/lexical_segment.py

One file for a segment: magic, version and size of the file, then for each field in the order of FIELDS how many terms,
postings and bytes of terms there are and how wide a count is, then the arrays, each on a boundary of 8 bytes:

    heads     uint64    first eight bytes of each term, big end first: numbers in the order of the terms
    letters   uint32    where each term ends in `text`, after a 0
    starts    uint64    where each term's postings end, after a 0
    text      bytes     the terms, UTF-8, ascending, one after the other
    documents int32     ascending for each term
    counts    uint8, uint16 or uint32
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

FIELDS: Final = ("grams", "words")
"""As Whoosh writes them, by name."""

_MAGIC: Final = b"RCLPOST1"
_HEAD: Final = struct.Struct("<8sQ")
_SIZES: Final = struct.Struct("<QQQQ")
_HEAD_BYTES: Final = 8
_COUNT_KINDS: Final[dict[int, np.dtype[Any]]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}

Postings = tuple[NDArray[np.int32], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Terms of one field with their postings; immutable.

    Attributes:
        heads: See above, shape (n_terms,).
        letters: Shape (n_terms + 1,).
        starts: Shape (n_terms + 1,).
        text: All terms.
        documents: Shape (n_postings,).
        counts: Shape (n_postings,).
    """

    heads: memoryview
    letters: memoryview
    starts: memoryview
    text: memoryview
    documents: NDArray[np.int32]
    counts: NDArray[Any]

    def __len__(self) -> int:
        """Terms."""
        return len(self.heads)

    def find(self, term: bytes) -> int:
        """Place of a term, -1 if it is not here."""
        head = _head(term)
        low = bisect_left(self.heads, head)
        if low == len(self.heads) or self.heads[low] != head:
            return -1
        if len(term) > _HEAD_BYTES or self.term(low) != term:
            high = bisect_right(self.heads, head, low)
            low = bisect_left(range(high), term, low, key=self.term)
            if low == high or self.term(low) != term:
                return -1
        return low

    def term(self, place: int) -> bytes:
        """The term at a place."""
        return bytes(self.text[self.letters[place] : self.letters[place + 1]])

    def extent(self, place: int) -> tuple[int, int]:
        """Where the postings of the term at a place start and stop."""
        return self.starts[place], self.starts[place + 1]

    def postings(self, start: int, stop: int) -> Postings:
        """Documents, ascending for each term, and how often each has it; not copied."""
        return self.documents[start:stop], self.counts[start:stop]

    def renumbered(self, numbers: NDArray[np.int32]) -> Iterator[tuple[bytes, Postings]]:
        """Every term that is left with its postings when documents take other numbers.

        Args:
            numbers: New number of each document, ascending where it is not -1, which drops the document.
        """
        documents = numbers[self.documents]
        kept = documents >= 0
        bounds = np.concatenate([[0], np.cumsum(kept)])[np.asarray(self.starts)].tolist()
        documents, counts = documents[kept], self.counts[kept]
        for place, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                yield self.term(place), (documents[start:stop], counts[start:stop])


class TableBuilder:
    """Takes terms in order and lays them out."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._heads: list[int] = []
        self._letters = [0]
        self._starts = [0]
        self._documents: list[NDArray[np.int32]] = []
        self._counts: list[NDArray[Any]] = []

    def add(self, term: bytes, documents: NDArray[np.int32], counts: NDArray[Any]) -> None:
        """Add a term that sorts behind all before it."""
        self._text += term
        self._heads.append(_head(term))
        self._letters.append(len(self._text))
        self._starts.append(self._starts[-1] + len(documents))
        self._documents.append(documents)
        self._counts.append(counts)

    def arrays(self) -> list[NDArray[Any]]:
        """In the order of the file."""
        counts = np.concatenate(self._counts) if self._counts else np.zeros(0, np.uint8)
        most = int(counts.max(initial=0))
        kind = _COUNT_KINDS[1 if most < 2**8 else 2 if most < 2**16 else 4]
        return [
            np.array(self._heads, "<u8"),
            np.array(self._letters, "<u4"),
            np.array(self._starts, "<u8"),
            np.frombuffer(bytes(self._text), np.uint8),
            np.concatenate(self._documents).astype("<i4", copy=False)
            if self._documents
            else np.zeros(0, "<i4"),
            counts.astype(kind, copy=False),
        ]


def write_tables(path: Path, tables: Iterable[list[NDArray[Any]]]) -> None:
    """Write the arrays of each field in the order of FIELDS, durably; an unfinished file is never left under the name.

    Raises:
        OSError: The disk is full, say.
    """
    tables = list(tables)
    sizes = b"".join(
        _SIZES.pack(len(heads), len(documents), len(text), counts.itemsize)
        for heads, _, _, text, documents, counts in tables
    )
    parts = [_padded(array.tobytes()) for arrays in tables for array in arrays]
    size = _HEAD.size + len(sizes) + sum(map(len, parts))
    fresh = path.with_suffix(".tmp")
    try:
        with fresh.open("wb") as file:
            file.write(_HEAD.pack(_MAGIC, size) + sizes)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """An open file; it stays readable for as long as this is held, also when it was deleted meanwhile.

    Attributes:
        of: Table of each field.
    """

    of: dict[str, Table]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file; hardly any of it is read.

        Raises:
            OSError: It is not there.
            ValueError: It is not whole.
        """
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, size = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0)
        if magic != _MAGIC or size != len(data):
            raise ValueError(
                f"{path.name}: wanted {size} bytes after {_MAGIC!r}, got {len(data)} after {magic!r}"
            )
        place = _HEAD.size + len(FIELDS) * _SIZES.size
        found = {}
        for number, field in enumerate(FIELDS):
            sizes: tuple[int, int, int, int] = _SIZES.unpack_from(data, _HEAD.size + number * _SIZES.size)
            found[field], place = _read_table(data, place, sizes, name=path.name)
        return cls(of=found)


def _read_table(
    data: mmap.mmap, place: int, sizes: tuple[int, int, int, int], *, name: str
) -> tuple[Table, int]:
    """The table that begins at a place, and where the next one does."""
    terms, postings, letters, width = sizes

    def take(kind: np.dtype[Any], length: int) -> NDArray[Any]:
        nonlocal place
        array = np.frombuffer(data, kind, length, place)
        place += -(-array.nbytes // 8) * 8
        return array

    heads = take(np.dtype("<u8"), terms)
    ends = take(np.dtype("<u4"), terms + 1)
    starts = take(np.dtype("<u8"), terms + 1)
    text = take(np.dtype("u1"), letters)
    documents = take(np.dtype("<i4"), postings)
    counts = take(_COUNT_KINDS[width], postings)
    if ends[-1] != letters or starts[-1] != postings:
        raise ValueError(f"{name}: its terms and postings do not match")
    table = Table(
        heads=heads.data,
        letters=ends.data,
        starts=starts.data,
        text=text.data,
        documents=documents,
        counts=counts,
    )
    return table, place


def _head(term: bytes) -> int:
    return int.from_bytes(term[:_HEAD_BYTES].ljust(_HEAD_BYTES, b"\0"), "big")


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
