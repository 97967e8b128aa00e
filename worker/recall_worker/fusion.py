"""Fusion: one score per passage out of what its words and its meaning say.

Flow:  lexical, dense → [fusion] → search → digest
In:    two aligned score vectors and the passages' languages.   Out: one score, higher is better.
Never: ranks: reciprocal rank with a weak model destroys Thai (docs/decisions/0005-fusion.md).
Next:  worker/recall_worker/search.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.languages import NO_GROUP, Groups, LanguageSpace

Scores = NDArray[np.float32]

LEXICAL_WEIGHT: Final = 3.0
"""Standard deviations of cosine that a words share of 1 stands for."""

GRANTED_RATIO: Final = 0.8
"""A passage in another language than the prompt's could not have shown its words: it is granted this times the square
of the best share in the prompt's language. Squared, because a prompt that shares few words with any note of its own
language says nothing against those either."""

MOST_GRANTED: Final = 0.8
"""No more words share than this is granted."""

PRIOR_PASSAGES: Final = 20
"""Weight, in passages, of the background's statistics beside the vault's own: decides in small vaults."""

NEIGHBOUR_WEIGHTS: Final = (0.3, 0.15)
"""Share of the scores of the passages one and two places away that a passage inherits …"""

RECORD_WEIGHT: Final = 0.3
"""… and of the best of its record: a note's passages are about one thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the dense half says of each passage; vectors of shape (n_passages,), NaN where not embedded.

    Attributes:
        score: Cosine above the level of the passage's language, in standard deviations over the vault.
        same_language: True where passage and prompt share a language.
    """

    score: Scores
    same_language: NDArray[np.bool_]


def read_meaning(
    dense: Scores,
    live: NDArray[np.bool_],
    vector: Scores,
    space: LanguageSpace,
    groups: Groups,
    prompt_group: int,
) -> Meaning:
    """Take each language's own level out of the cosines.

    Args:
        dense: Cosine similarities, shape (n_passages,), -1 to 1, NaN where not embedded.
        live: Passages that count.
        vector: The prompt's, shape (dimension,).
        space: Of the same encoder.
        groups: Languages of the passages.
        prompt_group: Language of the prompt, or NO_GROUP.
    """
    unrelated = space.vectors @ vector  # (n_languages, n_sentences)
    level, spread = unrelated.mean(axis=1), unrelated.std(axis=1)
    counted = live & ~np.isnan(dense)
    centred = np.full(len(dense), np.nan, np.float32)
    # Counting beats np.unique, which sorts all rows.
    present = np.flatnonzero(np.bincount(groups.of_row[counted] - NO_GROUP)) + NO_GROUP
    for group in present.tolist():
        rows = groups.of_row == group
        base = float(level.mean() if group == NO_GROUP else level[group])
        own = dense[rows & counted]
        base += len(own) / (len(own) + PRIOR_PASSAGES) * (float(own.mean()) - base)
        centred[rows] = dense[rows] - base
    known = centred[counted]
    variance = (float(np.square(known).sum()) + PRIOR_PASSAGES * float(np.square(spread).mean())) / (
        len(known) + PRIOR_PASSAGES
    )
    return Meaning(
        score=centred / max(variance**0.5, 1e-6),
        same_language=(groups.of_row == prompt_group)
        if prompt_group != NO_GROUP
        else np.zeros(len(dense), bool),
    )


def fuse(words: Scores, meaning: Meaning | None) -> Scores:
    """Add what words and meaning say of each passage.

    In the prompt's own language, words that are missing speak against a passage. In another language they could not
    have been there, so the passage is granted part of what the best one of the prompt's language has, and judged by
    its meaning. One that is not embedded yet counts its words twice, so that a fresh note is not penalised.

    Args:
        words: BM25+ score over the prompt's idf mass, shape (n_passages,), ratio from 0 to about 3.
        meaning: None without an encoder.

    Returns:
        Fused scores, shape (n_passages,), no unit.

    Source: the convex combination of Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid Retrieval,
    TOIS 2023, with z-scores instead of min-max, and language handled as missing evidence.
    """
    doubled = 2 * LEXICAL_WEIGHT * words
    if meaning is None:
        return doubled
    best = float(words[meaning.same_language].max(initial=0.0))
    floor = min(MOST_GRANTED, GRANTED_RATIO * best**2)
    granted = np.where(meaning.same_language, words, np.maximum(words, floor))
    both = meaning.score + LEXICAL_WEIGHT * granted
    return np.where(np.isnan(both), doubled, both).astype(np.float32)


def lean_on_record(
    scores: Scores, before: NDArray[np.int64], record: NDArray[np.int32], live: NDArray[np.bool_]
) -> Scores:
    """Let each passage inherit from the passages around it in the same record, and from the record's best.

    Args:
        scores: Shape (n_passages,), without NaN.
        before: Row of the passage before in the same record, -1 for the first one; shape (n_passages,).
        record: Record of each passage, 0 and up; shape (n_passages,).
        live: False for passages that are gone: an old version lends nothing.
    """
    if not len(scores):
        return scores
    above = scores - np.median(scores)
    best = np.full(int(record.max()) + 1, -np.inf, np.float32)
    np.maximum.at(best, record[live], above[live])
    leaned = scores + np.where(live, np.float32(RECORD_WEIGHT) * best[record], 0)
    follows = np.flatnonzero(before >= 0)
    earlier = before[follows]
    for weight in NEIGHBOUR_WEIGHTS:
        lent = np.float32(weight) * above
        leaned[follows] += lent[earlier]
        leaned[earlier] += lent[follows]
        further = before[earlier] >= 0
        follows, earlier = follows[further], before[earlier[further]]
    return leaned
