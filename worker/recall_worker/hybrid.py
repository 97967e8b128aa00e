"""Hybrid index: corpus, postings and vectors of one generation, kept row for row beside the ledger.

Flow:  vault → records → ledger → [hybrid index] → search → hook → digest
In:    the ledger's change log and vectors.   Out: an immutable View that searches read without a lock.
Never: a truth of its own: whatever is lost here is made again from the ledger.
Next:  worker/recall_worker/search.py
"""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_worker.corpus import NOWHERE, Corpus, advance_corpus, read_corpus, without_dead_rows
from recall_worker.dense import DenseMatrix
from recall_worker.errors import LexicalIndexError
from recall_worker.languages import NO_CROWD, NO_GROUP, Groups, LanguageSpace, group_rows, measure_crowding
from recall_worker.ledger import Changes, Ledger
from recall_worker.lexical import LexicalIndex
from recall_worker.lexical_scoring import Bm25, lucene_idf
from recall_worker.records import PassageId
from recall_worker.scripts import Script, script_of

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_BATCH: Final = 4_096
"""Rows read from the ledger at a time."""

LEXICAL_BATCH: Final = 10_000
"""Passages per Whoosh commit while an index is filled: bounds memory and what a crash costs."""

PRIOR_PASSAGES: Final = 50
"""Passages that match nothing, counted beside the vault's own when a word's weight is reckoned: in a vault of three
records no word would be informative otherwise."""

FEW_CHANGES: Final = 1_000
"""New passages from which reading all facts is no slower than adding these."""

CROWDING_DRIFT: Final = 0.1
"""Growth, as a share, after which the crowding is measured again."""

DEAD_RATIO: Final = 0.2
"""Share of dead rows above which the corpus is laid out afresh."""


class PassageEncoder(Protocol):
    """The part of an encoder that fills vectors."""

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseHalf:
    """Vectors of the rows, and the languages they fall into.

    Attributes:
        matrix: One row for each of the corpus.
        space: Of the encoder that made the vectors.
        groups: Language of each row.
        crowding: How near notes on different things lie to each other, see `measure_crowding`.
        crowding_of: Embedded rows when that was measured.
    """

    matrix: DenseMatrix
    space: LanguageSpace
    groups: Groups
    crowding: float = NO_CROWD
    crowding_of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one search reads; all parts fit each other for as long as it is held.

    Attributes:
        meaning: None until an encoder has said its name, or with `model = "none"`.
    """

    corpus: Corpus
    lexical: LexicalIndex
    meaning: DenseHalf | None


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
        self._languages = np.empty(0, np.int64)
        self._writing = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lexical = _open_lexical(folder)
        except LexicalIndexError as error:
            log.warning("lexical index set aside, made again from the ledger: %s", error)
            lexical = self._fresh_lexical()
        facts = ledger.passage_facts()
        corpus = read_corpus(facts, self._scripts_of(facts.ids, None))
        self._view = View(corpus=corpus, lexical=lexical, meaning=None)

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
            corpus = None
            changes = self._ledger.changes_since(lexical.seq)
            if changes is None:
                lexical.close()
                lexical = self._fresh_lexical()
                touched = self._fill(lexical, progress)
            elif len(lexical) == 0 and len(changes.added) > LEXICAL_BATCH:
                touched = self._fill(lexical, progress)
            else:
                touched = len(changes.added) + len(changes.removed)
                try:
                    if touched or changes.seq != lexical.seq:
                        lexical.update(added=changes.added, removed=changes.removed, seq=changes.seq)
                except (LexicalIndexError, OSError) as error:
                    if _lacks_room(error):
                        raise
                    log.warning("lexical index made again from the ledger: %s", error)
                    lexical.close()
                    lexical = self._fresh_lexical()
                    self._fill(lexical, progress)
                corpus = self._advanced(changes)
            self._show(lexical, corpus or self._read_corpus())
            return touched

    def attach(self, model: str, dimension: int, space: LanguageSpace) -> None:
        """Load the ledger's vectors of `model` beside the rows.

        Args:
            space: Of the same model.
        """
        with self._writing:
            if self._model == model and self._view.meaning is not None:
                return
            self._model = model
            self._lay_out(self._view.corpus, self._view.lexical, DenseMatrix(dimension), space)

    def missing(self) -> int:
        """Live passages that have no vector yet; 0 without an encoder."""
        view = self._view
        if view.meaning is None:
            return 0
        return int(np.count_nonzero(view.corpus.live & ~view.meaning.matrix.embedded_mask()))

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
            self._place(found)
        return len(missing)

    def compact(self) -> None:
        """Merge Whoosh's segments and drop dead rows once they are many."""
        with self._writing:
            view = self._view
            view.lexical.compact()
            dead = len(view.corpus) - int(np.count_nonzero(view.corpus.live))
            if dead > DEAD_RATIO * max(len(view.corpus), 1):
                self._move_rows(without_dead_rows(view.corpus), view.lexical)

    def _advanced(self, changes: Changes) -> Corpus | None:
        """The corpus after a few edits; None if all of the ledger's facts must be read to tell."""
        view = self._view
        if changes.touched or len(changes.added) > FEW_CHANGES:
            return None
        records = self._ledger.records({passage.record_id for passage in changes.added})
        added = [
            (passage, records[passage.record_id], int(script_of(passage.text)))
            for passage in changes.added
            if passage.record_id in records
        ]
        return advance_corpus(view.corpus, added, changes.removed)

    def _read_corpus(self) -> Corpus:
        """The corpus by all of the ledger's facts."""
        facts = self._ledger.passage_facts()
        known = self._view.corpus
        return read_corpus(facts, self._scripts_of(facts.ids, known), known)

    def _show(self, lexical: LexicalIndex, corpus: Corpus) -> None:
        """Publish a view with another corpus."""
        view = self._view
        if not np.array_equal(corpus.ids[: len(view.corpus)], view.corpus.ids):
            self._move_rows(corpus, lexical)
            return
        meaning = view.meaning
        if meaning is not None and len(corpus) > len(view.corpus):
            meaning.matrix.resize(len(corpus))
            self._languages = np.append(self._languages, np.full(len(corpus) - len(view.corpus), NO_GROUP))
            self._load_vectors(corpus, meaning, rows=range(len(view.corpus), len(corpus)))
            meaning = self._regrouped(corpus, meaning)
        self._view = View(corpus=corpus, lexical=lexical, meaning=meaning)

    def _move_rows(self, corpus: Corpus, lexical: LexicalIndex) -> None:
        """Publish a view whose rows moved: the vectors are loaded anew."""
        meaning = self._view.meaning
        if meaning is None:
            self._view = View(corpus=corpus, lexical=lexical, meaning=None)
        else:
            self._lay_out(corpus, lexical, DenseMatrix(meaning.matrix.dimension), meaning.space)

    def _lay_out(
        self, corpus: Corpus, lexical: LexicalIndex, matrix: DenseMatrix, space: LanguageSpace
    ) -> None:
        """Fill an empty matrix with the corpus's vectors and publish it."""
        matrix.resize(len(corpus))
        self._languages = np.full(len(corpus), NO_GROUP)
        meaning = DenseHalf(
            matrix=matrix, space=space, groups=Groups(of_row=self._languages.copy(), by_script={})
        )
        self._load_vectors(corpus, meaning, rows=range(len(corpus)))
        self._view = View(corpus=corpus, lexical=lexical, meaning=self._regrouped(corpus, meaning))

    def _regrouped(self, corpus: Corpus, meaning: DenseHalf) -> DenseHalf:
        """The same vectors with the languages that they make up by now."""
        groups = group_rows(meaning.space, self._languages, corpus.script, meaning.matrix)
        embedded = int(np.count_nonzero(groups.of_row != NO_GROUP))
        regrouped = replace(meaning, groups=groups)
        if abs(embedded - meaning.crowding_of) <= CROWDING_DRIFT * meaning.crowding_of:
            return regrouped
        crowding = measure_crowding(meaning.matrix, groups.of_row, corpus.record, corpus.live)
        return replace(regrouped, crowding=crowding, crowding_of=embedded)

    def _scripts_of(self, ids: NDArray[np.int64], known: Corpus | None) -> NDArray[np.int8]:
        """Writing system of each passage; only those that the known corpus lacks are read."""
        scripts = np.zeros(len(ids), np.int8)
        rows = np.full(len(ids), NOWHERE) if known is None else known.rows_of(ids)
        if known is not None:
            scripts[rows != NOWHERE] = known.script[rows[rows != NOWHERE]]
        for batch in _batched(iter(np.flatnonzero(rows == NOWHERE).tolist()), READ_BATCH):
            passages = self._ledger.passages([PassageId(int(ids[place])) for place in batch])
            for place in batch:
                passage = passages.get(PassageId(int(ids[place])))
                scripts[place] = script_of(passage.text) if passage else 0
        return scripts

    def _load_vectors(self, corpus: Corpus, meaning: DenseHalf, *, rows: Iterable[int]) -> None:
        """Put the ledger's vectors on their rows, a few thousand at a time."""
        assert self._model is not None
        for batch in _batched(iter(rows), READ_BATCH):
            found = self._ledger.vectors(self._model, [corpus.text_sha256[row] for row in batch])
            self._put(corpus, meaning, [row for row in batch if corpus.text_sha256[row] in found], found)

    def _place(self, found: dict[str, NDArray[np.float32]]) -> None:
        """Put fresh vectors on every row that has their text."""
        view = self._view
        if view.meaning is None:
            return
        waiting = np.flatnonzero(view.corpus.live & ~view.meaning.matrix.embedded_mask()).tolist()
        rows = [row for row in waiting if view.corpus.text_sha256[row] in found]
        self._put(view.corpus, view.meaning, rows, found)
        self._view = View(
            corpus=view.corpus, lexical=view.lexical, meaning=self._regrouped(view.corpus, view.meaning)
        )

    def _put(
        self, corpus: Corpus, meaning: DenseHalf, rows: list[int], found: dict[str, NDArray[np.float32]]
    ) -> None:
        """Store vectors and note the language that each is nearest to."""
        if not rows:
            return
        places = np.asarray(rows)
        vectors = np.stack([found[corpus.text_sha256[row]] for row in rows])
        meaning.matrix.put(places, vectors)
        for script in np.unique(corpus.script[places]):
            of_script = corpus.script[places] == script
            self._languages[places[of_script]] = meaning.space.nearest(
                vectors[of_script], Script(int(script))
            )

    def _fresh_lexical(self) -> LexicalIndex:
        """An empty Whoosh index in place of whatever stands there."""
        shutil.rmtree(self.folder / "lexical", ignore_errors=True)
        return _open_lexical(self.folder)

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
        lexical.compact(most_segments=1)
        changes = self._ledger.changes_since(seq)
        if changes is not None and (changes.added or changes.removed):
            lexical.update(added=changes.added, removed=changes.removed, seq=changes.seq)
        return done


def _lacks_room(error: BaseException | None) -> bool:
    """True if the disk or a quota is full: the index is sound, and another one would have no room either."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return True
        error = error.__cause__ or error.__context__
    return False


def _open_lexical(folder: Path) -> LexicalIndex:
    return LexicalIndex.open(folder / "lexical", bm25=Bm25(idf=_idf))


def _idf(documents: int, with_term: int) -> float:
    """Lucene's idf, steadied for small vaults."""
    return lucene_idf(documents + PRIOR_PASSAGES, with_term)


def _batched(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items."""
    while batch := list(islice(items, size)):
        yield batch
