"""Search: from a prompt to the passages that are close to it, or to none.

Flow:  vault → records → ledger → indexes → [search] → digest → hook
In:    a view of the index, the prompt's text and vector.   Out: hits, best first.
Never: a hit below the floor, a record of another project, a tie left to chance.
Next:  worker/recall_worker/digest.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.analysis import expand, runs
from recall_worker.analysis_stopwords import spaceless_language, stop_words_of, without_stop_words
from recall_worker.fusion import Meaning, Scores, fuse, lean_on_neighbours, read_meaning
from recall_worker.hybrid import View
from recall_worker.ledger import Ledger
from recall_worker.records import Hit

CERTAIN: Final = 1.2
"""Relevance that a passage must have beyond what chance gives the best of so many unrelated passages
(docs/decisions/0009-floor.md)."""

FEW: Final = 4
"""A vault of fewer passages is held to the bar of this many."""

WORDS_RELEVANCE: Final = 6.0
"""Standard deviations of surprise that a words share of 1 stands for."""

WORDS_ALONE: Final = 0.35
"""Words share from which a passage that is not embedded is close enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a prompt's search knows of every passage; vectors of shape (n_rows,).

    Attributes:
        lexical: BM25.
        dense: Cosine, NaN where not embedded; None without an encoder.
        words: BM25 over the prompt's idf mass, ratio from 0 to about 2.
        meaning: What the cosines say with languages taken into account; None without an encoder.
        fused: What orders the hits.
        terms: The prompt's terms that were looked up.
    """

    lexical: Scores
    dense: Scores | None
    words: Scores
    meaning: Meaning | None
    fused: Scores
    terms: tuple[str, ...]


def weigh(view: View, text: str, vector: NDArray[np.float32] | None) -> Evidence:
    """Score every passage of the view for a prompt.

    Args:
        view: Held from start to end.
        text: What to search for; typed text, never query syntax.
        vector: The prompt's embedding, shape (dimension,), unit length; None without an encoder.
    """
    corpus = view.corpus
    found = view.lexical.scores(text, corpus.ids)
    words = (found.values / max(found.mass, 1e-6)).astype(np.float32)
    dense = meaning = None
    if view.meaning is not None and vector is not None:
        half = view.meaning
        dense = half.matrix.scores(vector)[: len(corpus)]
        group = half.groups.of_prompt(half.space, text, vector)
        meaning = read_meaning(dense, corpus.live, vector, half.space, half.groups, group)
    fused = lean_on_neighbours(fuse(words, meaning), corpus.before)
    return Evidence(
        lexical=found.values, dense=dense, words=words, meaning=meaning, fused=fused, terms=found.terms
    )


def order(view: View, scores: Scores, allowed: NDArray[np.bool_], *, top_k: int) -> list[int]:
    """Rows by (-score, record id, ordinal), the best `top_k` of those allowed.

    Args:
        scores: Shape (n_rows,); NaN never ranks.
        allowed: Shape (n_rows,).
    """
    rows = np.flatnonzero(allowed & ~np.isnan(scores))
    if len(rows) > top_k:
        kth = np.partition(scores[rows], len(rows) - top_k)[len(rows) - top_k]
        rows = rows[scores[rows] >= kth]  # every tie of the last place, so that the order below decides
    corpus = view.corpus
    keyed = sorted(rows.tolist(), key=lambda row: (-scores[row], corpus.record_id(row), corpus.ordinal[row]))
    return keyed[:top_k]


def search(
    view: View,
    ledger: Ledger,
    text: str,
    vector: NDArray[np.float32] | None,
    *,
    project: str | None,
    top_k: int,
) -> list[Hit]:
    """Find the passages close to a prompt.

    Args:
        project: The prompt's project; records of other projects are out of reach.
        top_k: Hits at most.

    Returns:
        Hits by (-score, record id, ordinal); empty when nothing is close enough.
    """
    if not text.strip() or not len(view.corpus):
        return []
    evidence = weigh(view, text, vector)
    rows = order(view, evidence.fused, view.corpus.within(project) & close_enough(evidence), top_k=top_k)
    return read_hits(view, ledger, evidence.fused, rows)


def close_enough(evidence: Evidence) -> NDArray[np.bool_]:
    """The floor: which passages have anything to do with the prompt, shape (n_rows,).

    Both measures mean the same in any vault: the share of the prompt's words that a passage holds, and how far its
    cosine lies above that of unrelated sentences. The largest of n unrelated ones grows with n, and so does the bar.

    Source: the expected maximum of n standard normal variables is below sqrt(2 ln n); Cramér, Mathematical Methods of
    Statistics, 1946, section 28.6.
    """
    by_words = evidence.words >= WORDS_ALONE
    if evidence.meaning is None:
        return by_words
    relevance = evidence.meaning.surprise + WORDS_RELEVANCE * evidence.words
    count = max(int(np.count_nonzero(~np.isnan(relevance))), FEW)
    return np.where(np.isnan(relevance), by_words, relevance >= CERTAIN + math.sqrt(2 * math.log(count)))


def read_hits(view: View, ledger: Ledger, scores: Scores, rows: list[int]) -> list[Hit]:
    """Fetch passages and records of rows; those edited away since the view was made are left out."""
    corpus = view.corpus
    passages = ledger.passages([corpus.passage_id(row) for row in rows])
    records = ledger.records({passage.record_id for passage in passages.values()})
    hits: list[Hit] = []
    for row in rows:
        passage = passages.get(corpus.passage_id(row))
        record = records.get(passage.record_id) if passage else None
        if passage is not None and record is not None:
            hits.append(Hit(passage=passage, record=record, score=float(scores[row]), rank=len(hits) + 1))
    return hits


def count_informative(text: str) -> int:
    """Words of a prompt that say what it is about, in any script; stop words do not count."""
    found = runs(text)
    stops, language = stop_words_of(found), spaceless_language(text)
    content = (
        part for run in found if run.casefold() not in stops for part in without_stop_words(run, language)
    )
    return int(sum(expand(part).length for part in content))
