"""Hybrid index: corpus, postings and vectors of one generation, kept row for row beside the ledger.

Flow:  vault → records → ledger → [hybrid index] → search → hook → digest
In:    the ledger's change log and vectors.   Out: an immutable View that searches read without a lock.
Never: a truth of its own: whatever is lost here is made again from the ledger.
Next:  worker/recall_worker/search.py
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_worker.corpus import Corpus, read_corpus, without_dead_rows
from recall_worker.dense import DenseMatrix
from recall_worker.errors import LexicalIndexError
from recall_worker.ledger import Ledger
from recall_worker.lexical import LexicalIndex

log = logging.getLogger(__name__)

T = TypeVar("T")

LEXICAL_BATCH = 2_000
"""Passages per Whoosh commit while an index is filled: bounds memory and what a crash costs."""

DEAD_RATIO = 0.2
"""Share of dead rows above which the corpus is laid out afresh."""


class PassageEncoder(Protocol):
    """The part of an encoder that fills vectors."""

    def encode_passages(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one search reads; all parts fit each other for as long as it is held.

    Attributes:
        dense: None until an encoder has said its name, or with `model = "none"`.
    """

    corpus: Corpus
    lexical: LexicalIndex
    dense: DenseMatrix | None


class HybridIndex:
    """One generation of the index. One writer at a time; any number of searches beside it."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        """Open or make the generation in `folder` and load the corpus; `follow()` brings it up to date.

        Raises:
            LexicalIndexError: The Whoosh index cannot be made even afresh.
        """
        self.folder = folder
        self._ledger = ledger
        self._model: str | None = None
        self._writing = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lexical = LexicalIndex.open(folder / "lexical")
        except LexicalIndexError as error:
            log.warning("lexical index set aside, made again from the ledger: %s", error)
            lexical = self._fresh_lexical()
        self._view = View(corpus=read_corpus(ledger.passage_facts()), lexical=lexical, dense=None)

    @property
    def view(self) -> View:
        """What a search should hold on to from its start to its end."""
        return self._view

    @property
    def model(self) -> str | None:
        """Name of the encoder whose vectors are loaded."""
        return self._model

    def __enter__(self) -> Self:
        """Close on exit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of the Whoosh index; views already handed out must not be searched any more."""
        with self._writing:
            self._view.lexical.close()

    def follow(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Replay what the ledger has recorded since this index last looked.

        Args:
            progress: Called with passages done and passages in all while a fresh index is filled.

        Returns:
            Passages added and removed.
        """
        with self._writing:
            lexical = self._view.lexical
            changes = self._ledger.changes_since(lexical.seq)
            if changes is None:
                lexical.close()
                lexical = self._fresh_lexical()
                touched = self._fill(lexical, progress)
            elif len(lexical) == 0 and len(changes.added) > LEXICAL_BATCH:
                touched = self._fill(lexical, progress)
            else:
                touched = len(changes.added) + len(changes.removed)
                if touched or changes.seq != lexical.seq:
                    lexical.update(added=changes.added, removed=changes.removed, seq=changes.seq)
            self._show(lexical)
            return touched

    def attach(self, model: str, dimension: int) -> None:
        """Load the ledger's vectors of `model` beside the rows."""
        with self._writing:
            if self._model == model and self._view.dense is not None:
                return
            self._model = model
            dense = DenseMatrix(dimension)
            dense.resize(len(self._view.corpus))
            self._load_vectors(self._view.corpus, dense, rows=range(len(self._view.corpus)))
            self._view = View(corpus=self._view.corpus, lexical=self._view.lexical, dense=dense)

    def missing(self) -> int:
        """Live passages that have no vector yet; 0 without an encoder."""
        view = self._view
        return 0 if view.dense is None else int(np.count_nonzero(view.corpus.live & ~view.dense.embedded_mask()))

    def embed(self, encoder: PassageEncoder, *, limit: int) -> int:
        """Encode up to `limit` texts that have no vector, keep them in the ledger, and serve them.

        Returns:
            Texts encoded; 0 when nothing is missing.

        Raises:
            ModelError: The encoder is gone.
        """
        if self._model is None:
            return 0
        missing = self._ledger.missing_vectors(self._model, limit)
        if not missing:
            return 0
        vectors = encoder.encode_passages([text for _, text in missing])
        found = dict(zip((sha for sha, _ in missing), vectors, strict=True))
        self._ledger.put_vectors(self._model, found.items())
        with self._writing:
            self._place(self._view, found)
        return len(missing)

    def compact(self) -> None:
        """Merge Whoosh's segments and drop dead rows once they are many."""
        with self._writing:
            view = self._view
            view.lexical.compact()
            dead = len(view.corpus) - int(np.count_nonzero(view.corpus.live))
            if dead > DEAD_RATIO * max(len(view.corpus), 1):
                self._lay_out(without_dead_rows(view.corpus), view.lexical)

    def _show(self, lexical: LexicalIndex) -> None:
        """Publish a view with the ledger's facts of now."""
        view = self._view
        corpus = read_corpus(self._ledger.passage_facts(), view.corpus)
        if not np.array_equal(corpus.ids[: len(view.corpus)], view.corpus.ids):
            self._lay_out(corpus, lexical)
            return
        if view.dense is not None and len(corpus) > len(view.corpus):
            view.dense.resize(len(corpus))
            self._load_vectors(corpus, view.dense, rows=range(len(view.corpus), len(corpus)))
        self._view = View(corpus=corpus, lexical=lexical, dense=view.dense)

    def _lay_out(self, corpus: Corpus, lexical: LexicalIndex) -> None:
        """Publish a view whose rows moved: the vectors are loaded anew."""
        dense = None
        if self._view.dense is not None:
            dense = DenseMatrix(self._view.dense.dimension)
            dense.resize(len(corpus))
            self._load_vectors(corpus, dense, rows=range(len(corpus)))
        self._view = View(corpus=corpus, lexical=lexical, dense=dense)

    def _load_vectors(self, corpus: Corpus, dense: DenseMatrix, *, rows: Iterable[int]) -> None:
        """Put the ledger's vectors on their rows, a few thousand at a time."""
        assert self._model is not None
        for batch in _batched(iter(rows), 4_096):
            by_sha = self._ledger.vectors(self._model, [corpus.text_sha256[row] for row in batch])
            held = [row for row in batch if corpus.text_sha256[row] in by_sha]
            if held:
                dense.put(np.asarray(held), np.stack([by_sha[corpus.text_sha256[row]] for row in held]))

    def _place(self, view: View, found: dict[str, NDArray[np.float32]]) -> None:
        """Put fresh vectors on every row that has their text."""
        if view.dense is None:
            return
        rows_by_sha: dict[str, list[int]] = defaultdict(list)
        waiting = np.flatnonzero(view.corpus.live & ~view.dense.embedded_mask())
        for row in waiting.tolist():
            rows_by_sha[view.corpus.text_sha256[row]].append(row)
        rows = [row for sha in found for row in rows_by_sha.get(sha, ())]
        if rows:
            view.dense.put(np.asarray(rows), np.stack([found[view.corpus.text_sha256[row]] for row in rows]))

    def _fresh_lexical(self) -> LexicalIndex:
        """An empty Whoosh index in place of whatever stands there."""
        shutil.rmtree(self.folder / "lexical", ignore_errors=True)
        return LexicalIndex.open(self.folder / "lexical")

    def _fill(self, lexical: LexicalIndex, progress: Callable[[int, int], None] | None) -> int:
        """Fill an empty index from all live passages, in batches; the log's position is written with the last."""
        seq = self._ledger.head_seq()
        total = self._ledger.passage_count()
        done = 0
        for batch in _batched(self._ledger.all_passages(), LEXICAL_BATCH):
            lexical.update(added=batch, removed=[], seq=0)
            done += len(batch)
            if progress:
                progress(done, total)
        lexical.update(added=[], removed=[], seq=seq)
        changes = self._ledger.changes_since(seq)
        if changes is not None and (changes.added or changes.removed):
            lexical.update(added=changes.added, removed=changes.removed, seq=changes.seq)
        return done


def _batched(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items."""
    while batch := list(islice(items, size)):
        yield batch

