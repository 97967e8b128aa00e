"""Metrics: how good a ranking is, by the field's own measures.

Flow:  search → [metrics] → `recall eval`
In:    a ranking of document ids and the judged ones.   Out: ratios from 0 to 1.
Next:  worker/recall_worker/evaluate.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

CUTS: Final = (1, 5, 10)
NAMES: Final = (*(f"recall@{cut}" for cut in CUTS), "mrr@10", "ndcg@10")


def measure(ranking: Sequence[str], gold: Mapping[str, int]) -> dict[str, float]:
    """Judge one ranking.

    Args:
        ranking: Document ids, best first, no repeats.
        gold: Relevant document ids to their grade, at least one.

    Returns:
        One ratio for each of `NAMES`. recall@k is the share of the gold found among the first k; nDCG has gain
        2^grade − 1.

    Source: Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002; BEIR's layout.
    """
    found = {f"recall@{cut}": sum(item in gold for item in ranking[:cut]) / len(gold) for cut in CUTS}
    first = next((rank for rank, item in enumerate(ranking[:10], 1) if item in gold), None)
    gains = [2 ** gold.get(item, 0) - 1 for item in ranking[:10]]
    ideal = sorted((2**grade - 1 for grade in gold.values()), reverse=True)[:10]
    return found | {"mrr@10": 1 / first if first else 0.0, "ndcg@10": _dcg(gains) / _dcg(ideal)}


def mean(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Average each measure over queries; zeros where there are none."""
    listed = list(rows)
    return {name: sum(row[name] for row in listed) / len(listed) if listed else 0.0 for name in NAMES}


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
