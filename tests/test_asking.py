"""Asking: short prompts stand on earlier ones, greetings on none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_worker.asking import NOTHING_ASKED, Query, make_query
from recall_worker.config import DEFAULT_MODEL
from recall_worker.encoder import load_encoder
from recall_worker.hybrid import HybridIndex, View
from recall_worker.ledger import Ledger
from recall_worker.turns import TurnSense, load_turn_sense
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
    """If nothing is close to them alone; their own count most."""
    first = ask(view, "vpn?", SOONER, encoder=True)
    assert (first.text, first.own) == ("vpn?", "vpn?")
    assert first.instead is not None
    query = first.instead()
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


def nods(dimension: int = 4) -> TurnSense:
    """An encoder's sense that takes everything on the first axis for a nod."""
    near, far = np.eye(dimension, dtype=np.float32)[[0, 0, 0]], np.zeros((3, dimension), np.float32)
    return TurnSense(continuing=near, social=far, topics=far, bar=0.5)


def thanks() -> TurnSense:
    """The same for thanks."""
    sense = nods()
    return TurnSense(continuing=sense.social, social=sense.continuing, topics=sense.topics, bar=0.5)


def first_axis(_: str) -> NDArray[np.float32]:
    """The vector of any text, where only its words tell it from a nod."""
    return np.eye(4, dtype=np.float32)[0]


NAMES_SOMETHING = [
    "and nginx?",
    "nginx?",
    "no, the vpn",
    "yes, use rabbitmq",
    "ok, now rabbitmq",
    "แล้ว vpn ล่ะ",
    "แล้วสำรองข้อมูลล่ะ",
    "バックアップは？",
    "索引は？",
    "und ELSTER?",
    "nein, das vpn",
    "备份呢？",
]
NAMES_NOTHING = [
    "yes, do it",
    "ok go on",
    "and now?",
    "and kafka?",
    "ใช่ ทำเลย",
    "โอเคครับ ทำต่อเลย",
    "好的",
    "はい、やってください",
    "ja, mach das",
    "ok, 3",
]


@pytest.fixture
def vault_view(tmp_path: Path) -> Iterator[View]:
    """Notes that are named by a word, and one that happens to hold what people nod and greet with."""
    config = config_of(tmp_path)
    for name, text in {
        "vpn": "The office VPN drops idle sessions.",
        "nginx": "nginx holds uploads in memory.",
        "rabbitmq": "RabbitMQ queues are durable.",
        "elster": "ELSTER wird am Zehnten abgegeben.",
        "backup": "สำรองข้อมูลทุกคืน",
        "sicherung": "バックアップは毎晩取る。索引は後で作る。",
        "copy": "每天备份数据库。",
        "greeter": "It prints hello and thanks, then go, yes, ok. ทำเลย ขอบคุณ 好的 mach 3 やってください",
    }.items():
        write_note(config.vault, f"knowledge/{name}.md", text)
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        rescan(config, ledger)
        index.follow()
        yield index.view


@pytest.mark.parametrize("prompt", NAMES_SOMETHING)
def test_what_names_something_in_the_vault_is_no_nod(vault_view: View, prompt: str) -> None:
    """Whatever it sounds like, its own words are searched first; what came before stands in if they find nothing."""
    query = make_query(prompt, [SOONER], view=vault_view, encode=first_axis, sense=nods())
    assert (query.text, query.own) == (prompt, prompt)
    assert query.instead is not None
    assert query.instead().text == f"{prompt}\n{SOONER}"


@pytest.mark.parametrize("prompt", NAMES_NOTHING)
def test_a_nod_stays_one(vault_view: View, prompt: str) -> None:
    """Also in a vault that holds its words."""
    query = make_query(prompt, [SOONER], view=vault_view, encode=first_axis, sense=nods())
    assert (query.text, query.own) == (SOONER, "")


def test_thanks_that_name_something_stand_on_nothing(vault_view: View) -> None:
    """They are searched by what they name, and never by the last topic."""
    query = make_query("thanks, and nginx?", [SOONER], view=vault_view, encode=first_axis, sense=thanks())
    assert query.text == "thanks, and nginx?"
    assert query.instead is None


@pytest.mark.parametrize(
    "prompt", ["hello", "thanks!", "ありがとう", "ขอบคุณ", "谢谢", "danke", "hello, thanks"]
)
def test_a_greeting_stays_one(vault_view: View, prompt: str) -> None:
    """Also in a vault that holds its words."""
    query = make_query(prompt, [SOONER], view=vault_view, encode=first_axis, sense=thanks())
    assert query == NOTHING_ASKED


def test_without_an_encoder_a_name_tells_as_well(vault_view: View) -> None:
    """By its letters this one is nearly "no, the other one"."""
    query = make_query("no, the vpn one", [SOONER], view=vault_view, encode=lambda _: None, sense=None)
    assert query.text.startswith("no, the vpn one")


def test_a_word_of_many_notes_names_none_of_them(tmp_path: Path) -> None:
    """A nod with a word that is everywhere in the vault is still a nod."""
    config = config_of(tmp_path)
    for number in range(12):
        write_note(config.vault, f"knowledge/{number}.md", f"nginx serves site number {number} of ours.")
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        rescan(config, ledger)
        index.follow()
        query = make_query("and nginx?", [SOONER], view=index.view, encode=first_axis, sense=nods())
    assert query.text == SOONER


@pytest.mark.model
def test_the_encoder_takes_no_name_for_a_nod(vault_view: View, models_dir: Path) -> None:
    """With the real encoder's own sense: names are searched first, nods and greetings are what they were."""
    encoder = load_encoder(DEFAULT_MODEL, models_dir=models_dir, allow_download=False)
    sense = load_turn_sense(encoder.encode_queries, name=encoder.name, folder=models_dir)

    def own(prompt: str) -> str:
        return make_query(
            prompt,
            [SOONER],
            view=vault_view,
            encode=lambda text: encoder.encode_queries([text])[0],
            sense=sense,
        ).own

    assert [prompt for prompt in NAMES_SOMETHING if own(prompt) != prompt] == []
    assert own("thanks, and nginx?") == "thanks, and nginx?"
    for prompt in (
        "yes, do it",
        "thanks!",
        "hello",
        "ok go on",
        "ใช่ ทำเลย",
        "ありがとう",
        "好的",
        "ja, mach das",
    ):
        assert own(prompt) == ""
