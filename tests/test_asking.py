"""Asking: short prompts stand on earlier ones, greetings on none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_worker.asking import NOTHING_ASKED, Query, make_query
from recall_worker.hybrid import HybridIndex, View
from recall_worker.ledger import Ledger
from recall_worker.turns import TurnSense
from vaults import config_of, rescan, write_note

LATER = "should we ping the office vpn to keep idle sessions?"
SOONER = "the invoices of november are late again, who sends them?"


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """One note is enough to have an index."""
    config = config_of(tmp_path)
    write_note(config.vault, "knowledge/vpn.md", "The office VPN drops idle sessions.")
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        rescan(config, ledger)
        index.follow()
        yield index.view


def axis_of(text: str) -> NDArray[np.float32]:
    """Another axis for each text that the tests know."""
    place = {"yes, do it": 0, LATER: 1, SOONER: 2, "vpn?": 3}[text]
    return np.eye(4, dtype=np.float32)[place]


def ask(view: View, prompt: str, *earlier: str, encoder: bool = False) -> Query:
    """Make the query of a prompt."""
    return make_query(prompt, earlier, view=view, encode=axis_of if encoder else lambda _: None, sense=None)


def test_a_full_prompt_is_searched_alone(view: View) -> None:
    """What came before does not colour it; later prompts may stand on it."""
    query = ask(view, LATER, SOONER)
    assert (query.text, query.own) == (LATER, LATER)


def test_going_on_is_searched_by_what_came_before(view: View) -> None:
    """Not by its own words, which say nothing; and nothing will stand on it."""
    query = ask(view, "yes, do it", LATER)
    assert (query.text, query.own) == (LATER, "")


def test_earlier_prompts_count_less(view: View) -> None:
    """Half as much for each step back in meaning; in words, only until enough was said."""
    query = ask(view, "yes, do it", LATER, SOONER, encoder=True)
    assert query.vector is not None
    assert query.vector[0] == 0
    assert query.vector[2] == pytest.approx(query.vector[1] / 2)
    assert np.linalg.norm(query.vector) == pytest.approx(1)
    assert query.text == f"{LATER}\n{SOONER}"


def test_a_few_words_are_searched_with_what_came_before(view: View) -> None:
    """Their own count most."""
    query = ask(view, "vpn?", SOONER, encoder=True)
    assert (query.text, query.own) == (f"vpn?\n{SOONER}", "vpn?")
    assert query.vector is not None
    assert query.vector[3] > query.vector[2] > 0


def test_a_topic_of_one_word_is_searched_first(view: View) -> None:
    """Where the encoder says that it is one; what came before stands in if nothing is close."""
    far = np.zeros((3, 4), np.float32)
    sense = TurnSense(continuing=far, social=far, topics=far, bar=0.5)
    query = make_query("vpn?", [SOONER], view=view, encode=axis_of, sense=sense)
    assert (query.text, query.own) == ("vpn?", "vpn?")
    assert query.instead is not None
    assert query.instead().text == f"vpn?\n{SOONER}"


@pytest.mark.parametrize(
    "prompt", ["hello", "thanks", "ok bye", "ขอบคุณ", "ありがとう", "谢谢", "danke", "", " \n"]
)
def test_a_greeting_asks_for_nothing(view: View, prompt: str) -> None:
    """Neither the last topic nor what happens to share a word."""
    assert ask(view, prompt, LATER) == NOTHING_ASKED


def test_going_on_from_nothing_asks_for_nothing(view: View) -> None:
    """A session's first prompt has nothing to stand on."""
    assert ask(view, "yes, do it").text == ""
