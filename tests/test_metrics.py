"""Metrics: held against values computed by hand."""

from __future__ import annotations

import math

import pytest

from recall_worker.metrics import NAMES, mean, measure


def test_a_single_gold_at_rank_three() -> None:
    """recall@1 misses it, recall@5 has it, MRR is 1/3, nDCG is 1/log2(4)."""
    found = measure(["a", "b", "gold", "c"], {"gold": 1})
    assert found["recall@1"] == 0
    assert found["recall@5"] == found["recall@10"] == 1
    assert found["mrr@10"] == pytest.approx(1 / 3)
    assert found["ndcg@10"] == pytest.approx(0.5)


def test_several_gold_count_the_share_found() -> None:
    """Two of four gold records among the first five are recall@5 of a half."""
    found = measure(["g1", "x", "g2", "y", "z"], {"g1": 1, "g2": 1, "g3": 1, "g4": 1})
    assert found["recall@1"] == 0.25
    assert found["recall@5"] == 0.5
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, 5))
    assert found["ndcg@10"] == pytest.approx((1 + 0.5) / ideal)


def test_grades_weigh_exponentially() -> None:
    """A grade of 2 gains three times a grade of 1."""
    found = measure(["one", "two"], {"one": 1, "two": 2})
    assert found["ndcg@10"] == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_nothing_found_is_zero_everywhere() -> None:
    """An empty ranking scores zero by each measure, and so does the mean of nothing."""
    assert set(measure([], {"g": 1}).values()) == {0.0}
    assert mean([]) == dict.fromkeys(NAMES, 0.0)
