"""Alike: the pairs of near_duplicates.jsonl, and what can and cannot be told from letters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz

from recall_worker.alike import (
    SAME_PERCENT,
    comparable,
    differ_in_subject,
    in_common,
    may_repeat,
    most_in_common,
    repeated_share,
)

TEXTS = st.text(alphabet="ab ไมห้่ข本番を不1.…😀\ud800", max_size=80)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One line of near_duplicates.jsonl."""

    lang: str
    kind: str
    older: str
    newer: str
    older_title: str = ""
    newer_title: str = ""


PAIRS = [
    Pair(**json.loads(line))
    for line in Path(__file__).with_name("near_duplicates.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.lang}-{pair.kind}")
def test_no_statement_hides_another(pair: Pair) -> None:
    """Only what is contained whole is repeated: not an amended clause, a turned sentence or another subject."""
    older, newer = comparable(pair.older), comparable(pair.newer)
    assert repeated_share(newer, older) < 0.6
    assert repeated_share(older, newer) == (1 if pair.kind == "contains" else 0)
    assert repeated_share(older, older) == repeated_share(newer, newer) == 1


def test_the_pairs_cover_four_languages() -> None:
    """Each kind in each of them."""
    assert {(pair.lang, pair.kind) for pair in PAIRS} == {
        (lang, kind)
        for lang in ("en", "th", "ja", "zh")
        for kind in ("reworded", "amended", "negated", "other", "template", "contains")
    }


@pytest.mark.parametrize(
    ("line", "within"),
    [
        ("Squash commits before merging.", "Do not squash commits before merging."),
        ("squash commits", "whatever they say, never squash commits; it hides who did what"),
        ("共有ブランチで force push を使う", "共有ブランチで force push を使わない。理由は履歴。"),
        ("ปล่อยของวันศุกร์ได้", "ห้ามปล่อยของวันศุกร์ได้ ไม่ว่ากรณีใด"),
        ("合并之前压缩提交记录", "合并之前压缩提交记录是不允许的。"),
    ],
)
def test_a_not_beside_the_place_counts(line: str, within: str) -> None:
    """The sentence around what is found may turn it round."""
    assert repeated_share(comparable(line), comparable(within)) == 0


def test_another_sentence_does_not_turn_it_round() -> None:
    """What is forbidden elsewhere in a note says nothing about this sentence."""
    within = comparable("Never deploy on Fridays. Squash commits before merging. Do not rename branches.")
    assert repeated_share("squash commits before merging.", within) > 0.9


@pytest.mark.parametrize("cut", ["…", " …"])
def test_a_cut_text_is_still_the_same(cut: str) -> None:
    """A word that the cut tore is no other word, and what follows the cut is no objection."""
    whole = comparable("Retry a flaky test once, then open a ticket for the team that owns it, never twice.")
    assert repeated_share(whole[:58] + cut, whole) > 0.9


def test_titles_and_codes_tell_subjects_apart() -> None:
    """Two lines of one pattern; a bare number or word may be what was amended, so it does not tell."""
    one, two = "host db-03 is restored on mondays", "host db-01 is restored on request"
    assert differ_in_subject(one, two, titles=("", ""))
    assert not differ_in_subject("wait 3s, use v1.2", "wait 5s, use v1.3", titles=("", ""))
    staging, production = "at night the staging host sleeps", "at night the production host sleeps"
    assert not differ_in_subject(staging, production, titles=("", ""))
    assert differ_in_subject(staging, production, titles=("staging", "production"))
    assert not differ_in_subject(staging, production, titles=("hosts", "hosts"))
    assert differ_in_subject("เครื่องทดสอบปิดตอนดึก", "เครื่องจริงปิดตอนดึก", titles=("เครื่องทดสอบ", "เครื่องจริง"))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (
            "anna prefers reviews in the morning and hates calls.",
            "marek prefers reviews in the morning and hates calls.",
        ),
        ("the staging host sleeps at night", "the production host sleeps at night"),
        ("田中さんは朝の会議が苦手。", "佐藤さんは朝の会議が苦手。"),
        ("张伟喜欢上午做代码评审。", "李娜喜欢上午做代码评审。"),
    ],
)
def test_another_first_word_is_another_subject(one: str, two: str) -> None:
    """What a sentence begins with is what it is about; a "not" or a number there is not."""
    assert differ_in_subject(one, two, titles=("", ""))
    assert not differ_in_subject("always squash a branch", "never squash a branch", titles=("", ""))
    assert not differ_in_subject("一万円を超える返金", "五千円を超える返金", titles=("", ""))


def test_notes_of_two_days_are_two_notes() -> None:
    """Daily notes are written to one pattern; a year in a title may well be that of an edition."""
    text, other = "standup: all green, 3 tickets closed", "standup: all green, 4 tickets closed"
    assert differ_in_subject(text, other, titles=("2026-01-05", "2026-01-06"))
    assert not differ_in_subject(text, other, titles=("rules 2025", "rules 2026"))


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=4))
def test_the_sieve_lets_through_all_that_repeats(candidates: list[str], earlier: list[str]) -> None:
    """Looking at low bytes alone never loses a pair."""
    bound = most_in_common(candidates, earlier)
    passed = may_repeat(candidates, earlier, least=0.6)
    for row, one in enumerate(candidates):
        for column, two in enumerate(earlier):
            assert bound[row, column] >= in_common(one, two)
            assert passed[row, column] or repeated_share(one, two) < 0.6


@given(TEXTS, TEXTS)
def test_a_share_is_a_ratio(one: str, two: str) -> None:
    """Between 0 and 1, and never for less than the scorer asks."""
    share = repeated_share(one, two)
    assert 0 <= share <= 1
    if share and one != two and "…" not in one + two:
        assert fuzz.partial_ratio(one, two) >= SAME_PERCENT
