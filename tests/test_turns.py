"""Turns: greetings, continuations and topics are told apart, in languages that no example is in too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_worker.config import DEFAULT_MODEL
from recall_worker.encoder import load_encoder
from recall_worker.turns import (
    Turn,
    TurnSense,
    judge_by_letters,
    load_examples,
    load_turn_sense,
    make_turn_sense,
)

CONTINUING = [
    "do it",
    "proceed",
    "sure, go",
    "d'accord, continue",
    "sí, hazlo",
    "продолжай",
    "続けてください",
    "ทำเลย",
]
SOCIAL = [
    "thanks a lot!",
    "good evening",
    "merci bien",
    "muchas gracias",
    "спасибо!",
    "晚上好",
    "děkuji",
    "ขอบคุณมากๆ",
]
TOPICS = ["rotate the api keys", "ledger tests fail", "Rechnung schreiben", "テーブルの索引", "ลบ branch เก่า"]


def test_the_examples_are_of_one_kind_each() -> None:
    """No phrase stands under two kinds."""
    examples = load_examples()
    assert set(examples) == set(Turn)
    assert sum(len(set(lines)) for lines in examples.values()) == len(set().union(*examples.values()))


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("Hello!", Turn.SOCIAL),
        ("thank you very much.", Turn.SOCIAL),
        ("ขอบคุณ", Turn.SOCIAL),
        ("ありがとう！", Turn.SOCIAL),
        ("谢谢", Turn.SOCIAL),
        ("vielen dank", Turn.SOCIAL),
        ("yes, do it", Turn.CONTINUE),
        ("mach weiter", Turn.CONTINUE),
        ("继续", Turn.CONTINUE),
        ("vpn?", Turn.TOPIC),
        ("🎉", Turn.TOPIC),
        ("", Turn.TOPIC),
    ],
)
def test_without_an_encoder_the_letters_decide(text: str, turn: Turn) -> None:
    """An example itself, whatever its case and punctuation."""
    assert judge_by_letters(text) is turn


def test_the_bar_lies_between_examples_and_topics() -> None:
    """Three bunches of vectors: each is told from the others, and what is far from all is a topic."""
    rng = np.random.default_rng(1)

    def bunch(axis: int) -> NDArray[np.float32]:
        vectors = np.eye(8)[axis] + 0.1 * rng.standard_normal((12, 8))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    sense = make_turn_sense(bunch(0), bunch(1), bunch(2))
    axes = np.eye(8, dtype=np.float32)
    assert [sense.judge(axes[axis]) for axis in (0, 1, 2, 5)] == [
        Turn.CONTINUE,
        Turn.SOCIAL,
        Turn.TOPIC,
        Turn.TOPIC,
    ]


def test_vectors_are_made_once(tmp_path: Path) -> None:
    """The second start reads them; another model's are others."""
    made: list[int] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        made.append(len(texts))
        return np.random.default_rng(len(texts)).standard_normal((len(texts), 8)).astype(np.float32)

    first = load_turn_sense(encode, name="a@1", folder=tmp_path)
    again = load_turn_sense(encode, name="a@1", folder=tmp_path)
    assert np.array_equal(first.social, again.social)
    load_turn_sense(encode, name="b@1", folder=tmp_path)
    assert len(made) == 2


@pytest.mark.model
def test_the_encoder_knows_what_no_example_says(models_dir: Path) -> None:
    """Of phrases that are no examples, most of each kind are told, and no topic is taken for a greeting."""
    encoder = load_encoder(DEFAULT_MODEL, models_dir=models_dir, allow_download=False)
    sense = load_turn_sense(encoder.encode_queries, name=encoder.name, folder=models_dir)

    def share(texts: Sequence[str], turn: Turn, judge: TurnSense = sense) -> float:
        return sum(judge.judge(encoder.encode_queries([text])[0]) is turn for text in texts) / len(texts)

    assert share(CONTINUING, Turn.CONTINUE) >= 0.7
    assert share(SOCIAL, Turn.SOCIAL) >= 0.85
    assert share(TOPICS, Turn.TOPIC) >= 0.8
    assert share(TOPICS, Turn.SOCIAL) == 0
