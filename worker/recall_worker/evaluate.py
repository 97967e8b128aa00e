"""Evaluate: how good BM25, dense and fused rankings are on judged questions.

Flow:  dataset → ledger → index → search → metrics → `recall eval`
In:    a BEIR dataset.   Out: mean recall, MRR and nDCG of each ranking.
Never: another path than a prompt's own: the same ledger, index, encoder and fusion.
Next:  worker/recall_worker/search.py
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from recall_worker.dataset import Dataset, Document, Question
from recall_worker.hybrid import HybridIndex, View
from recall_worker.ledger import Ledger
from recall_worker.metrics import mean, measure
from recall_worker.records import PassageDraft, RecordDraft, RecordType
from recall_worker.search import order, weigh

RANKINGS: Final = ("bm25", "dense", "fused")
TOP_K: Final = 10

Progress = Callable[[str, int, int], None]


class EvalEncoder(Protocol):
    """The parts of an encoder that an evaluation needs."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One question's measures for each ranking."""

    question: Question
    measures: Mapping[str, Mapping[str, float]]


def fill_ledger(ledger: Ledger, dataset: Dataset) -> None:
    """Store a corpus: each document a passage, consecutive documents of one title one record."""
    drafts = [_draft(note) for note in dataset.notes()]
    ledger.add_drafts(drafts, today=dt.date(2000, 1, 1))


def judge(
    dataset: Dataset,
    index: HybridIndex,
    ledger: Ledger,
    encoder: EvalEncoder | None,
    *,
    progress: Progress,
) -> list[Judged]:
    """Search each question and measure the rankings."""
    names = document_ids(dataset, index.view, ledger)
    judged = []
    for number, question in enumerate(dataset.questions, 1):
        vector = None if encoder is None else encoder.encode_queries([question.text])[0]
        rankings = _rankings(index.view, names, question.text, vector)
        measures = {name: measure(ranking, question.gold) for name, ranking in rankings.items()}
        judged.append(Judged(question=question, measures=measures))
        progress("search", number, len(dataset.questions))
    return judged


def summarise(judged: Sequence[Judged], *, field: str | None = None) -> dict[str, Any]:
    """Mean measures of each ranking, over all questions and by each value of `field`.

    Returns:
        `{"bm25": {"recall@1": …}, "dense": …, "fused": …, "queries": n}`, and `"by": {value: the same}` with a field.
    """
    summary: dict[str, Any] = {name: mean([item.measures[name] for item in judged]) for name in RANKINGS}
    summary["queries"] = len(judged)
    if field is not None:
        groups: dict[str, list[Judged]] = defaultdict(list)
        for item in judged:
            groups[str(item.question.fields.get(field, "none"))].append(item)
        summary["by"] = {value: summarise(group) for value, group in sorted(groups.items())}
    return summary


def _draft(note: tuple[Document, ...]) -> RecordDraft:
    """A record whose passages are the note's documents."""
    passages = tuple(
        PassageDraft(ordinal=ordinal, title_path=document.title, text=document.text or " ", line=1)
        for ordinal, document in enumerate(note)
    )
    return RecordDraft(
        key=note[0].id,
        stated_id=True,
        type=RecordType.KNOWLEDGE,
        high=False,
        date=dt.date(2000, 1, 1),
        project=None,
        tags=(),
        title=note[0].title,
        text="\n\n".join(document.text for document in note),
        line=1,
        passages=passages,
    )


def document_ids(dataset: Dataset, view: View, ledger: Ledger) -> list[str]:
    """Document id of each row."""
    corpus = view.corpus
    by_key = {note[0].id: note for note in dataset.notes()}
    return [by_key[corpus.record_id(row)][corpus.ordinal[row]].id for row in range(len(corpus))]


def _rankings(
    view: View, names: Sequence[str], text: str, vector: NDArray[np.float32] | None
) -> dict[str, list[str]]:
    """Document ids, best first, by each half and by both."""
    evidence = weigh(view, text, vector)
    live = view.corpus.live
    dense = evidence.dense if evidence.dense is not None else np.full(len(live), np.nan, np.float32)
    scores = {
        "bm25": (evidence.lexical, live & (evidence.lexical > 0)),
        "dense": (dense, live),
        "fused": (evidence.fused, live),
    }
    return {
        name: [names[row] for row in order(view, values, allowed, top_k=TOP_K)]
        for name, (values, allowed) in scores.items()
    }
