"""Floor: close passages pass, strangers do not, in any size of vault and any language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.floor import CONSIDERED, CROWD, LENT, LOOSE_WEIGHT, STANDS_OUT, UNRELATED_MEANING, rate
from recall_worker.fusion import Meaning, Scores
from recall_worker.hybrid import PRIOR_PASSAGES
from recall_worker.languages import NO_CROWD
from recall_worker.lexical import LexicalScores
from recall_worker.lexical_scoring import Bm25, lucene_idf
from tests.lexical_helpers import filled, ids

PROMPT = "vacuum freezes the orders table"
CLOSE = "autovacuum: why vacuum freezes every row of the orders table"
FAR = "the tea kitchen is on the second floor"


def meaning_of(score: Sequence[float], same: Sequence[bool] | None = None) -> Meaning:
    """A dense half as given."""
    known = [True] * len(score) if same is None else same
    return Meaning(score=np.array(score, np.float32), same_language=np.array(known))


def words(tmp_path: Path, notes: Sequence[str], prompt: str = PROMPT) -> LexicalScores:
    """The words' half of a prompt over some notes."""
    bm25 = Bm25(
        idf=lambda count, with_term: lucene_idf(count + PRIOR_PASSAGES, with_term)
    )  # as in production
    return filled(tmp_path / "lexical", list(notes), bm25=bm25).scores(prompt, ids(len(notes)))


def above(
    found: LexicalScores,
    meaning: Meaning | None,
    *,
    before: Sequence[int] | None = None,
    crowding: float = NO_CROWD,
) -> Scores:
    """How far above the floor each passage lies; they are ordered by their words."""
    count = len(found.values)
    return rate(
        found,
        meaning,
        found.values,
        allowed=np.ones(count, bool),
        before=np.full(count, -1) if before is None else np.array(before),
        crowding=crowding,
    ).above


@pytest.mark.parametrize("count", [1, 2, 3, 30, 300])
def test_words_and_meaning_pass_in_a_vault_of_any_size(tmp_path: Path, count: int) -> None:
    """The one close note is above the floor and no other is, from one record to hundreds."""
    notes = [CLOSE, *(f"{FAR} number {n}" for n in range(count - 1))]
    rated = above(words(tmp_path, notes), meaning_of([3.5, *[0.3] * (count - 1)]))
    assert rated[0] > 0
    assert not (rated[1:] >= 0).any()


@pytest.mark.parametrize("count", [1, 3, 30])
def test_a_prompt_about_something_else_passes_nowhere(tmp_path: Path, count: int) -> None:
    """Even the nearest of unrelated notes, near by chance, stays below."""
    notes = [f"{FAR} number {n}" for n in range(count)]
    assert not (above(words(tmp_path, notes), meaning_of([2.5, *[0.0] * (count - 1)])) >= 0).any()


def test_a_prompt_of_stop_words_is_held_by_nothing(tmp_path: Path) -> None:
    """To hold "what did you do" is to hold nothing."""
    found = words(tmp_path, ["what did you do to it then", FAR], "what did you do")
    assert found.held(np.array([0]))[0] < 0.5
    assert not (above(found, meaning_of([2.0, 0.0])) >= 0).any()


def test_the_one_common_word_of_a_short_prompt_is_little(tmp_path: Path) -> None:
    """To hold all of "what is my name?" is to hold a word that a fifth of the notes have."""
    notes = [f"The name of service {n} stands in its chart." for n in range(12)] + [FAR] * 48
    rated = above(words(tmp_path, notes, "what is my name?"), meaning_of([1.5] * 12 + [0.0] * 48))
    assert not (rated >= 0).any()


def test_many_close_notes_do_not_silence_each_other(tmp_path: Path) -> None:
    """Forty notes on one topic are a crowd, and still what a prompt about it wants."""
    notes = [f"{CLOSE}, case {n}" for n in range(40)] + [f"{FAR} number {n}" for n in range(200)]
    rated = above(words(tmp_path, notes), meaning_of([3.0] * 40 + [0.0] * 200))
    assert (rated[:40] >= 0).all()


def test_more_is_asked_where_notes_are_alike(tmp_path: Path) -> None:
    """Crowding counts against every passage alike, and three times as much where notes are of different kinds."""
    found = words(tmp_path, [CLOSE, FAR])
    rated = {level: above(found, meaning_of([3.0, 0.0]), crowding=level)[0] for level in (2.5, 3.5, 5.5)}
    assert rated[3.5] - rated[5.5] == pytest.approx(2)
    assert rated[2.5] - rated[3.5] == pytest.approx(1 + LOOSE_WEIGHT)


def test_another_language_passes_by_meaning_alone(tmp_path: Path) -> None:
    """Words cannot meet there: what stands out from the crowd is close, what does not is not."""
    notes = ["ตาราง orders ถูก freeze ตอน vacuum", *["ห้องชงชาอยู่ชั้นสอง"] * 19]
    found = words(tmp_path, notes, "why do rows become frozen at night")
    crowd = UNRELATED_MEANING
    near, far = (
        above(found, meaning_of([crowd + STANDS_OUT + by, *[crowd] * 19], [False] * 20))[0]
        for by in (0.1, -0.1)
    )
    assert (near, far) == (pytest.approx(0.1, abs=1e-3), pytest.approx(-0.1, abs=1e-3))


def test_a_note_without_a_vector_passes_by_its_words(tmp_path: Path) -> None:
    """Fresh notes are found before the encoder gets to them, and so is everything without an encoder."""
    found = words(tmp_path, [CLOSE, FAR])
    for meaning in (None, meaning_of([np.nan, 0.0])):
        rated = above(found, meaning)
        assert rated[0] > 0 > rated[1]


def test_the_next_turn_is_close_with_a_close_one(tmp_path: Path) -> None:
    """An answer that repeats no word of the question lies beside it; one two places off is lent less."""
    notes = [CLOSE, "yes, nightly.", "thanks!", FAR]
    rated = above(words(tmp_path, notes), meaning_of([3.5, 0.0, 0.0, 0.0]), before=[-1, 0, 1, -1])
    assert rated[1] == pytest.approx(rated[0] - LENT)
    assert rated[2] == pytest.approx(rated[0] - 2 * LENT)
    assert rated[3] < 0


def test_only_the_best_are_looked_at(tmp_path: Path) -> None:
    """A large vault costs no more than a small one; what nobody would show has no figure."""
    notes = [CLOSE] * 10 + [FAR] * (2 * CONSIDERED)
    rated = above(words(tmp_path, notes), meaning_of([3.0] * 10 + [0.0] * (2 * CONSIDERED)))
    assert np.count_nonzero(~np.isnan(rated)) == CONSIDERED
    assert not np.isnan(rated[:10]).any()


@pytest.fixture(scope="module")
def found_in_thirty(tmp_path_factory: pytest.TempPathFactory) -> LexicalScores:
    """Thirty notes, a third of them close."""
    notes = [CLOSE] * 10 + [FAR] * 20
    return words(tmp_path_factory.mktemp("floor"), notes)


@settings(deadline=None, max_examples=50)
@given(scores=st.lists(st.floats(-4, 8, width=32), min_size=30, max_size=30), place=st.integers(0, 29))
def test_more_meaning_never_hurts(found_in_thirty: LexicalScores, scores: list[float], place: int) -> None:
    """Raising one passage's cosine never takes it further down, though the crowd may rise with it."""
    more = scores.copy()
    more[place] += 1
    before, after = (above(found_in_thirty, meaning_of(values))[place] for values in (scores, more))
    assert after >= before - 1e-4


def test_the_crowd_begins_behind_what_slot_4_shows() -> None:
    """Five notes on one topic fit the slot: none of them is the crowd."""
    assert CROWD.start == 5
