"""Cache bench: its own arithmetic, and a short replay that could fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_cache import EXAMPLE_VAULT, Tally, _read_notes, replay

NOTES = list(_read_notes(EXAMPLE_VAULT))


def test_tally_by_hand() -> None:
    """Two additions, one of which appends, and an edit halfway: a half, a third, and the mean of 1, 0.5 and 0.5."""
    tally = Tally()
    tally.add("addition", "abcd", "abcdef")
    tally.add("addition", "abcd", "abxy")
    tally.add("edit", "abcd", "abcd")
    tally.add("edit", "abcd", "ab")
    assert tally.report() == {"prefix_kept": {"additions": 0.5, "all": 0.3333}, "common_prefix": 0.6667}


def test_a_stream_is_the_same_for_its_seed(tmp_path: Path) -> None:
    """Forty changes give the same figures twice; another seed gives others; the naive rendering keeps nothing."""
    figures = []
    for place, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(place)
        folder.mkdir()
        ours, naive = replay(folder, NOTES, seed=seed, changes=40, edited=1_000)
        figures.append(ours.report())
        assert ours.seen.total() == 40
        assert ours.report()["prefix_kept"]["additions"] >= 0.8
        assert naive.report()["prefix_kept"]["additions"] == 0
    assert figures[0] == figures[1] != figures[2]


@pytest.mark.slow
def test_the_bars_hold(tmp_path: Path) -> None:
    """Five hundred changes of the example vault: additions 0.80, all 0.70, common prefix 0.90."""
    ours, naive = replay(tmp_path, NOTES, seed=11, changes=500, edited=1_000_000)
    report = ours.report()
    assert report["prefix_kept"]["additions"] >= 0.80
    assert report["prefix_kept"]["all"] >= 0.70
    assert report["common_prefix"] >= 0.90 > naive.report()["common_prefix"]
