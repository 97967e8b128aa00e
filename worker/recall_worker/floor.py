"""Floor: whether a passage has anything to do with a prompt; if none has, slot 4 stays silent.

Flow:  lexical, fusion → [floor] → search → digest
In:    what words and meaning say of the best passages.   Out: how far above the bar each of them lies.
Never: a bar on cosines or on scores normalised within the vault: a vault of three records must be silent too.
Next:  worker/recall_worker/search.py

docs/decisions/0009-floor.md has the measures behind each number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.fusion import Meaning, Scores
from recall_worker.lexical import LexicalScores

CONSIDERED: Final = 64
"""Best rows that are looked at; the others have no relevance."""

HELD_WEIGHT: Final = 13.0
"""Standard deviations of cosine that holding all of the prompt's words stands for."""

BAR: Final = 4.5
"""Relevance, less the crowding and half of the crowd's relevance, from which a passage is close."""

CLUSTERED: Final = 3.5
LOOSE_WEIGHT: Final = 1.25
"""Below this crowding the notes do not come in clusters, and a prompt that comes near to one seldom does so by
chance: each step down counts this much more."""

CROWD: Final = slice(5, 15)
"""Ranks of the passages that a close one must stand out from: those beyond what slot 4 can show."""

CROWD_SHARE: Final = 0.1
"""Share of the vault that may make the crowd: of ten notes on one topic, the sixth is no stranger."""

CROWD_WEIGHT: Final = 0.5
UNRELATED: Final = 2.5
"""Relevance of an unrelated passage: stands in for the crowd that a small vault does not have."""

MOST_CROWDED: Final = 5.0
"""The crowd's relevance counts no further: fifty notes on one topic do not silence each other."""

STANDS_OUT: Final = 2.3
"""Standard deviations by which a passage in another language must stand out from the crowd."""

UNRELATED_MEANING: Final = 1.5
"""The same for meaning alone, in standard deviations."""

HELD_ALONE: Final = 0.4
"""Share of the prompt's words from which a passage without a vector is close."""

LENT: Final = 1.0
"""How much less than its neighbours in the same record a passage may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """The best passages against the bar; vectors of shape (n_rows,), NaN for passages that were not looked at.

    Attributes:
        held: Share of what the prompt says that the passage holds, ratio 0 to 1.
        above: How far above the bar it lies, in standard deviations of cosine; 0 is close enough.
    """

    held: Scores
    above: Scores


def rate(
    found: LexicalScores,
    meaning: Meaning | None,
    fused: Scores,
    *,
    allowed: NDArray[np.bool_],
    before: NDArray[np.int64],
    crowding: float,
) -> Rated:
    """Rate the best passages against the bar.

    A passage is close if it holds much of what the prompt says, by words and by meaning, and more than a crowd of
    others does. One in another language cannot hold the words: its meaning must stand out by itself.

    Args:
        found: The words' half.
        meaning: None without an encoder.
        fused: What orders the passages, shape (n_rows,).
        allowed: Rows that count, shape (n_rows,).
        before: Row of the passage before in the same record, -1 for the first; shape (n_rows,).
        crowding: How near the vault's notes lie to each other, see `languages.measure_crowding`.
    """
    rows = _best_rows(fused, allowed)
    held, above = np.full((2, len(fused)), np.nan, np.float32)
    if len(rows):
        held[rows] = found.held(rows)
        if meaning is None:
            above[rows] = HELD_WEIGHT * (held[rows] - HELD_ALONE)
        else:
            strangers = int(CROWD_SHARE * np.count_nonzero(allowed))
            above[rows] = _by_both(
                held[rows],
                meaning.score[rows],
                meaning.same_language[rows],
                crowding=crowding,
                strangers=strangers,
            )
        _lend(above, rows, before)
    return Rated(held=held, above=above)


def _by_both(
    held: Scores, score: Scores, same_language: NDArray[np.bool_], *, crowding: float, strangers: int
) -> NDArray[np.floating]:
    """How far above the bar some rows lie; shape as given."""
    embedded = ~np.isnan(score)
    relevance = np.where(embedded, score, 0) + HELD_WEIGHT * held
    level = min(MOST_CROWDED, _crowd(relevance[embedded], strangers, UNRELATED))
    bar = BAR + crowding + LOOSE_WEIGHT * min(0.0, crowding - CLUSTERED)
    above = relevance - CROWD_WEIGHT * level - bar
    foreign = embedded & ~same_language
    alone = score - _crowd(score[foreign], strangers, UNRELATED_MEANING) - STANDS_OUT
    above = np.where(foreign, np.fmax(above, alone), above)
    return np.where(embedded, above, HELD_WEIGHT * (held - HELD_ALONE))


def _best_rows(fused: Scores, allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Allowed rows with the best scores, up to `CONSIDERED`, in any order."""
    rows = np.flatnonzero(allowed & ~np.isnan(fused))
    if len(rows) <= CONSIDERED:
        return rows
    return rows[np.argpartition(-fused[rows], CONSIDERED - 1)[:CONSIDERED]]


def _crowd(values: NDArray[np.floating], strangers: int, unrelated: float) -> float:
    """Mean of the ranks that make the crowd, as far as there are so many strangers in the vault."""
    ranked = np.sort(values)[::-1][CROWD][:strangers]
    missing = CROWD.stop - CROWD.start - len(ranked)
    return float((ranked.sum() + missing * unrelated) / (CROWD.stop - CROWD.start))


def _lend(above: Scores, rows: NDArray[np.intp], before: NDArray[np.int64]) -> None:
    """Let the two passages on either side of a close one be close: a turn of talk says little by itself."""
    follows = rows[before[rows] >= 0]
    for _ in range(2):
        lent = above - np.float32(LENT)
        above[follows] = np.fmax(above[follows], lent[before[follows]])
        np.fmax.at(above, before[follows], lent[follows])
