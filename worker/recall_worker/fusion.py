"""Fusion: one score per passage out of what its words and its meaning say.

Flow:  lexical, dense → [fusion] → search → digest
In:    two aligned score vectors.   Out: one, higher is better.
Never: ranks: reciprocal rank with a weak model destroys Thai (docs/decisions/0005-fusion.md).
Next:  worker/recall_worker/search.py
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

LEXICAL_WEIGHT: Final = 0.5


def fuse(lexical: Scores, dense: Scores | None, *, weight: float = LEXICAL_WEIGHT) -> Scores:
    """Merge two score vectors over one corpus by a min-max-normalised convex combination.

    A passage that is not embedded yet is judged by its words alone, so that a fresh note is not penalised.

    Args:
        lexical: BM25 scores, shape (n_passages,), no unit, zero where no term meets.
        dense: Cosine similarities, shape (n_passages,), -1 to 1, NaN where not embedded; None without an encoder.
        weight: Share of the lexical half, ratio 0 to 1.

    Returns:
        Fused scores, shape (n_passages,), ratio 0 to 1.

    Source: Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023.
    """
    words = _stretch(lexical)
    if dense is None or np.isnan(dense).all():
        return words
    meaning = _stretch(dense)
    return np.where(np.isnan(meaning), words, weight * words + (1 - weight) * meaning).astype(np.float32)


def _stretch(scores: Scores) -> Scores:
    """Lay the lowest score on 0 and the highest on 1; NaN stays."""
    if not len(scores) or np.isnan(scores).all():
        return scores
    low, high = np.nanmin(scores), np.nanmax(scores)
    if high <= low:
        return np.zeros_like(scores)
    return ((scores - low) / (high - low)).astype(np.float32)
