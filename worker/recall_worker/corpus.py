"""Corpus: the searchable passages as columns, one row each; every score vector is aligned to it.

Flow:  ledger → [corpus] → lexical, dense → search
In:    the ledger's passage facts.   Out: columns whose rows never move.
Never: passage text, which stays in the ledger until a hit is shown.
Next:  worker/recall_worker/hybrid.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from recall_worker.records import SEARCHED_TYPES, PassageId, RecordId

if TYPE_CHECKING:
    from recall_worker.ledger import PassageFacts
    from recall_worker.records import Passage, Record

_FACTS: Final = ("record", "ordinal", "script", "project", "date")

NOWHERE: Final = -1
"""Row of a passage that the corpus does not hold; project code of a record that belongs to no project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Columns of shape (n_rows,), ascending by passage id.

    A deletion only clears `live`; rows are appended, never moved, so that score vectors, postings and the matrix of
    vectors made for an older corpus still fit the head of a newer one. `without_dead_rows` starts afresh.

    Attributes:
        ids: Passage ids, int64, strictly ascending.
        live: False where the passage is gone.
        record: Index into `record_ids`.
        ordinal: Place of the passage in its record.
        before: Row of the passage before it in the same record, NOWHERE for the first.
        script: Writing system of its text, see scripts.py.
        project: Index into `projects`, or NOWHERE.
        date: Proleptic ordinal of the record's effective date.
        record_ids: Distinct records, in the order of their first row.
        projects: Distinct project names.
        text_sha256: Key of each row's vector.
    """

    ids: NDArray[np.int64]
    live: NDArray[np.bool_]
    record: NDArray[np.int32]
    ordinal: NDArray[np.int32]
    before: NDArray[np.int64]
    script: NDArray[np.int8]
    project: NDArray[np.int32]
    date: NDArray[np.int32]
    record_ids: tuple[RecordId, ...]
    projects: tuple[str, ...]
    text_sha256: tuple[str, ...]

    def __len__(self) -> int:
        """Rows, dead ones included."""
        return len(self.ids)

    def rows_of(self, passage_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of passage ids, NOWHERE for unknown ones."""
        if not len(self.ids):
            return np.full(len(passage_ids), NOWHERE, np.int64)
        rows = np.searchsorted(self.ids, passage_ids)
        rows = np.minimum(rows, len(self.ids) - 1)
        return np.where(self.ids[rows] == passage_ids, rows, NOWHERE)

    def within(self, project: str | None) -> NDArray[np.bool_]:
        """Rows that a prompt inside `project` may recall: live, and of that project or of none."""
        everywhere = self.project == NOWHERE
        inside: NDArray[np.bool_] = self.live & everywhere
        if project is not None and project in self.projects:
            inside = self.live & (everywhere | (self.project == self.projects.index(project)))
        return inside

    def passage_id(self, row: int) -> PassageId:
        """Passage id of a row."""
        return PassageId(int(self.ids[row]))

    def record_id(self, row: int) -> RecordId:
        """Record id of a row."""
        return self.record_ids[int(self.record[row])]


def read_corpus(facts: PassageFacts, scripts: NDArray[np.int8], previous: Corpus | None = None) -> Corpus:
    """Make the corpus from the ledger's facts, keeping the rows of an earlier one where they were.

    Args:
        facts: Live passages of the ledger, ascending by id.
        scripts: Writing system of each of them.
        previous: The corpus served until now; its vanished passages stay as dead rows.

    Returns:
        A corpus whose head has `previous.ids`, row for row.
    """
    types = {str(kind) for kind in SEARCHED_TYPES}
    keep = np.flatnonzero(np.array([str(kind) in types for kind in facts.types], np.bool_))
    ids = _read_only(np.asarray(facts.ids, dtype=np.int64)[keep])
    record, record_ids = _codes([facts.record_ids[i] for i in keep])
    project, projects = _codes([facts.projects[i] for i in keep])
    ordinal = np.asarray(facts.ordinals, dtype=np.int32)[keep]
    live = np.ones(len(ids), bool)
    fresh = Corpus(
        ids=ids,
        live=live,
        record=record,
        ordinal=ordinal,
        before=_rows_before(record, ordinal, live),
        script=scripts[keep],
        project=project,
        date=np.asarray(facts.dates, dtype=np.int32)[keep],
        record_ids=record_ids,
        projects=projects,
        text_sha256=tuple(facts.text_sha256s[i] for i in keep),
    )
    return fresh if previous is None or not len(previous) else _keep_rows(previous, fresh)


def advance_corpus(
    previous: Corpus,
    added: Sequence[tuple[Passage, Record, int]],
    removed: Sequence[PassageId],
) -> Corpus | None:
    """Make the corpus from an earlier one and what has changed since: an edit costs no reading of all facts.

    Args:
        previous: The corpus served until now.
        added: Passages that came, ascending by id, each with its record and writing system.
        removed: Passages that are gone; unknown ones are no error.

    Returns:
        What `read_corpus` would lay out, row for row; None if a passage came late, behind one with a higher id.
    """
    fresh = [item for item in added if item[1].type in SEARCHED_TYPES]
    ids = np.array([passage.id for passage, _, _ in fresh], np.int64)
    if len(ids) and len(previous) and ids[0] <= previous.ids[-1]:
        return None
    live = np.append(previous.live, np.ones(len(ids), np.bool_))
    gone = previous.rows_of(np.array(removed, np.int64))
    live[gone[gone != NOWHERE]] = False
    record_ids, records = _more_codes(previous.record_ids, [record.id for _, record, _ in fresh])
    projects, inside = _more_codes(previous.projects, [record.project for _, record, _ in fresh])
    corpus = replace(
        previous,
        ids=_read_only(np.append(previous.ids, ids)),
        live=live,
        record=np.append(previous.record, records),
        ordinal=np.append(previous.ordinal, np.array([item.ordinal for item, _, _ in fresh], np.int32)),
        before=np.append(previous.before, np.full(len(ids), NOWHERE)),
        script=np.append(previous.script, np.array([script for _, _, script in fresh], np.int8)),
        project=np.append(previous.project, inside),
        date=np.append(previous.date, np.array([item.date.toordinal() for _, item, _ in fresh], np.int32)),
        record_ids=record_ids,
        projects=projects,
        text_sha256=(*previous.text_sha256, *(passage.text_sha256 for passage, _, _ in fresh)),
    )
    changed = np.unique(np.append(corpus.record[gone[gone != NOWHERE]], records))
    rows = np.flatnonzero(np.isin(corpus.record, changed))
    before = _rows_before(corpus.record[rows], corpus.ordinal[rows], live[rows])
    corpus.before[rows] = np.where(before == NOWHERE, NOWHERE, rows[before] if len(rows) else before)
    return corpus


def without_dead_rows(corpus: Corpus) -> Corpus:
    """The same passages with the dead rows gone; every aligned column must be made anew."""
    keep = np.flatnonzero(corpus.live)
    columns: dict[str, Any] = {name: getattr(corpus, name)[keep] for name in ("ids", "live", *_FACTS)}
    columns["ids"] = _read_only(columns["ids"])
    before = _rows_before(columns["record"], columns["ordinal"], columns["live"])
    return replace(corpus, **columns, before=before, text_sha256=tuple(corpus.text_sha256[i] for i in keep))


T = TypeVar("T", bound=str)


def _codes(names: list[T] | list[T | None]) -> tuple[NDArray[np.int32], tuple[T, ...]]:
    """Strings to small integers in order of first appearance, None to NOWHERE."""
    known: dict[T, int] = {}
    codes = [NOWHERE if name is None else known.setdefault(name, len(known)) for name in names]
    return np.asarray(codes, dtype=np.int32), tuple(known)


def _more_codes(known: tuple[T, ...], names: Sequence[T | None]) -> tuple[tuple[T, ...], NDArray[np.int32]]:
    """Codes of more strings behind those known."""
    if not any(name is not None for name in names):
        return known, np.full(len(names), NOWHERE, np.int32)
    codes = {name: code for code, name in enumerate(known)}
    found = [NOWHERE if name is None else codes.setdefault(name, len(codes)) for name in names]
    return tuple(codes), np.array(found, np.int32)


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same array, which nobody can change: who has seen it before need not compare it."""
    array.setflags(write=False)
    return array


def _rows_before(
    record: NDArray[np.int32], ordinal: NDArray[np.int32], live: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Row of each live passage's predecessor in its record."""
    rows = np.flatnonzero(live)
    rows = rows[np.lexsort((ordinal[rows], record[rows]))]
    before = np.full(len(record), NOWHERE, np.int64)
    same = (
        np.flatnonzero(record[rows[1:]] == record[rows[:-1]]) + 1 if len(rows) > 1 else np.empty(0, np.int64)
    )
    before[rows[same]] = rows[same - 1]
    return before


def _keep_rows(previous: Corpus, fresh: Corpus) -> Corpus:
    """Lay the fresh facts over the old rows and append what is new."""
    appended = fresh.ids[fresh.ids > previous.ids[-1]]
    ids = _read_only(np.concatenate([previous.ids, appended]))
    rows = np.searchsorted(ids, fresh.ids)
    # A passage that was unsearchable (its record a profile) and now is not would need a row in the middle.
    if not np.array_equal(ids[rows], fresh.ids):
        return fresh
    live = np.zeros(len(ids), bool)
    live[rows] = True
    columns: dict[str, Any] = {}
    for name in _FACTS:
        column = getattr(fresh, name)
        columns[name] = np.zeros(len(ids), column.dtype)
        columns[name][rows] = column
    before = _rows_before(columns["record"], columns["ordinal"], live)
    shas = [*previous.text_sha256, *fresh.text_sha256[len(fresh.ids) - len(appended) :]]
    return replace(fresh, ids=ids, live=live, before=before, text_sha256=tuple(shas), **columns)
