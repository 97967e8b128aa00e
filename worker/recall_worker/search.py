"""Search: from a prompt to the passages that are close to it, or to none.

Flow:  vault → records → ledger → indexes → [search] → digest → hook
In:    a view of the index, the prompt's text and vector.   Out: hits, best first.
Never: a hit below the floor, a record of another project, a tie left to chance.
Next:  worker/recall_worker/digest.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_worker.floor import Rated, rate
from recall_worker.fusion import Meaning, Scores, fuse, lean_on_record, read_meaning
from recall_worker.hybrid import View
from recall_worker.languages import NO_CROWD
from recall_worker.ledger import Ledger
from recall_worker.records import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a prompt's search knows of every passage; vectors of shape (n_rows,).

    Attributes:
        lexical: BM25+.
        dense: Cosine, NaN where not embedded; None without an encoder.
        words: BM25+ over the prompt's idf mass, ratio from 0 to about 3.
        meaning: What the cosines say with languages taken into account; None without an encoder.
        fused: What orders the hits.
        rated: The best passages against the floor.
        terms: The prompt's terms that were looked up.
    """

    lexical: Scores
    dense: Scores | None
    words: Scores
    meaning: Meaning | None
    fused: Scores
    rated: Rated
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
    crowding = NO_CROWD
    if view.meaning is not None and vector is not None:
        half = view.meaning
        dense = half.matrix.scores(vector)[: len(corpus)]
        group = half.groups.of_prompt(half.space, text, vector)
        meaning = read_meaning(dense, corpus.live, vector, half.space, half.groups, group)
        crowding = half.crowding
    fused = lean_on_record(fuse(words, meaning), corpus.before, corpus.record, corpus.live)
    rated = rate(found, meaning, fused, allowed=corpus.live, before=corpus.before, crowding=crowding)
    return Evidence(
        lexical=found.values,
        dense=dense,
        words=words,
        meaning=meaning,
        fused=fused,
        rated=rated,
        terms=found.terms,
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
    """The floor: which passages have anything to do with the prompt, shape (n_rows,)."""
    return evidence.rated.above >= 0


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
