"""Fusion: small cases worked out by hand, and what must hold of any scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recall_worker.fusion import (
    LEXICAL_WEIGHT,
    NEIGHBOUR_WEIGHTS,
    RECORD_WEIGHT,
    Meaning,
    Scores,
    fuse,
    lean_on_record,
    read_meaning,
)
from recall_worker.languages import NO_GROUP, Groups, LanguageSpace

UNIT = st.floats(0, 1, width=32)


def meaning_of(score: list[float], same: list[bool]) -> Meaning:
    """A dense half as given."""
    values = np.array(score, np.float32)
    return Meaning(score=values, same_language=np.array(same))


def floats(*values: float) -> Scores:
    """A float32 vector."""
    return np.array(values, np.float32)


def test_words_and_meaning_add_up_in_one_language() -> None:
    """Fused = z + weight × words share."""
    fused = fuse(floats(0.5, 0.0), meaning_of([1.0, 2.0], [True, True]))
    assert fused.tolist() == [1.0 + LEXICAL_WEIGHT * 0.5, 2.0]


def test_another_language_is_not_blamed_for_missing_words() -> None:
    """With equal meaning the foreign passage comes close behind the best one of the prompt's language, not last."""
    fused = fuse(floats(0.6, 0.1, 0.0), meaning_of([1.0, 1.0, 1.0], [True, True, False]))
    assert fused[0] > fused[2] > fused[1]


def test_without_words_in_the_prompts_language_nothing_is_granted() -> None:
    """A prompt that no passage of its own language answers in words is judged by meaning alone."""
    fused = fuse(floats(0.0, 0.0), meaning_of([1.0, 0.5], [True, False]))
    assert fused.tolist() == [1.0, 0.5]


def test_a_passage_without_a_vector_is_not_penalised() -> None:
    """With the same words it stands level with one whose meaning confirms them."""
    fused = fuse(floats(0.8, 0.8), meaning_of([LEXICAL_WEIGHT * 0.8, np.nan], [True, False]))
    assert fused[0] == pytest.approx(fused[1])


def test_without_an_encoder_words_alone_decide() -> None:
    """The order is BM25's."""
    assert np.argsort(fuse(floats(0.1, 0.9, 0.4), None)).tolist() == [0, 2, 1]


@given(arrays(np.float32, st.integers(1, 30), elements=UNIT), st.data())
def test_more_words_never_hurt(words: Scores, data: st.DataObject) -> None:
    """Raising one passage's words share in the prompt's own language never lowers its fused score."""
    z = data.draw(arrays(np.float32, len(words), elements=st.floats(-5, 5, width=32)))
    meaning = Meaning(score=z, same_language=np.ones(len(words), bool))
    place = data.draw(st.integers(0, len(words) - 1))
    more = words.copy()
    more[place] += 0.5
    assert fuse(more, meaning)[place] >= fuse(words, meaning)[place]


def space_of_two() -> LanguageSpace:
    """Two languages at right angles, four sentences each."""
    spread = np.array([[0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]])
    vectors = np.zeros((2, 4, 4), np.float32)
    vectors[0, :, 0] = vectors[1, :, 1] = 1
    vectors[:, :, 2:] = spread
    return LanguageSpace(scripts=np.array([1, 10]), vectors=vectors, means=vectors.mean(axis=1))


def test_a_languages_own_level_is_taken_out() -> None:
    """Passages that lie equally far above their own language's level score alike, whatever the raw cosines."""
    space = space_of_two()
    groups = Groups(of_row=np.array([0, 0, 1, 1]), by_script={1: np.array([0]), 10: np.array([1])})
    vector = floats(0.9, 0.3, 0.3, 0.0)
    dense = floats(0.95, 0.85, 0.35, 0.25)  # language 0 lies near the prompt as a whole
    meaning = read_meaning(dense, np.ones(4, bool), vector, space, groups, 0)
    assert meaning.score[0] == pytest.approx(meaning.score[2], abs=0.05)
    assert meaning.score[0] > meaning.score[1]
    assert meaning.same_language.tolist() == [True, True, False, False]


def test_rows_that_are_dead_or_not_embedded_do_not_count() -> None:
    """Statistics come from live, embedded rows; the others stay NaN or unread."""
    space = space_of_two()
    dense = floats(0.9, 0.8, np.nan, 5.0)
    live = np.array([True, True, True, False])
    groups = Groups(of_row=np.array([0, 0, NO_GROUP, 0]), by_script={})
    meaning = read_meaning(dense, live, floats(1, 0, 0, 0), space, groups, NO_GROUP)
    assert np.isnan(meaning.score[2])
    assert abs(meaning.score[0]) < 10
    assert not meaning.same_language.any()


def test_a_record_lifts_its_passages() -> None:
    """Those beside a strong one gain a share of it, those further off less, and all the same of the record's best."""
    scores = floats(0, 0, 10, 0, 0, 0, 0, 0)
    before = np.array([-1, 0, 1, 2, 3, 4, -1, -1])
    record = np.array([0, 0, 0, 0, 0, 0, 1, 2], np.int32)
    near, far = (10 * weight for weight in NEIGHBOUR_WEIGHTS)
    best = 10 * RECORD_WEIGHT
    assert lean_on_record(scores, before, record, np.ones(8, bool)).tolist() == pytest.approx(
        [far + best, near + best, 10 + best, near + best, far + best, best, 0, 0]
    )


def test_an_old_version_lends_nothing() -> None:
    """A dead passage lifts neither its record nor those beside it."""
    scores = floats(10, 1, 0, 0)
    live = np.array([False, True, True, True])
    leaned = lean_on_record(scores, np.array([-1, -1, 1, -1]), np.array([0, 0, 0, 1], np.int32), live)
    assert leaned[2] == pytest.approx(1 * NEIGHBOUR_WEIGHTS[0] + 1 * RECORD_WEIGHT, abs=0.3)


def test_single_passages_keep_their_order() -> None:
    """What a record lends, one of a single passage gives to itself: long notes have no head start."""
    scores = np.arange(9, dtype=np.float32)
    leaned = lean_on_record(scores, np.full(9, -1), np.arange(9, dtype=np.int32), np.ones(9, bool))
    assert (np.diff(leaned) > 0).all()
