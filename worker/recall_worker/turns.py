"""Turns: does a short prompt go on with the conversation, greet or thank, or have a topic of its own?

Flow:  data/turns.json → encoder → [turns] → asking → search
In:    a prompt, its vector if there is one.   Out: one of three kinds.
Never: a list of greetings that must name each: the examples lie near what they stand for, in other languages too.
Next:  worker/recall_worker/asking.py, docs/decisions/0011-long-prompts.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from recall_worker.analysis import expand, runs
from recall_worker.kept_vectors import load_vectors

Floats = NDArray[np.float32]

NEAREST: Final = 3
"""Examples that a prompt is held against: the mean of its nearest ones."""

BAR_SHARE: Final = 0.3
"""Where the bar lies between a topic's mean closeness to the examples and their own: nearer to the topics, because a
greeting that drags up the last topic is worse than a one-word prompt that finds nothing."""

SAME_LETTERS: Final = 65.0
"""rapidfuzz percent from which a prompt counts as one of the examples where there is no encoder."""


class Turn(Enum):
    """What a prompt does in its conversation."""

    TOPIC = "topic"
    CONTINUE = "continue"
    SOCIAL = "social"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSense:
    """The examples as one encoder sees them.

    Attributes:
        continuing: Unit vectors, shape (n_continuing, dimension).
        social: Unit vectors, shape (n_social, dimension).
        topics: Unit vectors of short prompts with a topic, shape (n_topics, dimension).
        bar: Cosine to the nearest examples of a kind without topic from which a prompt may be one of them.
    """

    continuing: Floats
    social: Floats
    topics: Floats
    bar: float

    def judge(self, vector: Floats) -> Turn:
        """Kind of a short prompt.

        Args:
            vector: Unit length, shape (dimension,).
        """
        going_on, social = _closeness(self.continuing, vector), _closeness(self.social, vector)
        if max(going_on, social) < max(self.bar, _closeness(self.topics, vector)):
            return Turn.TOPIC
        return Turn.SOCIAL if social > going_on else Turn.CONTINUE


def judge_by_letters(text: str) -> Turn:
    """Kind of a short prompt where no encoder is at hand: an example itself, or nearly so."""
    said = _letters(text)
    best, kind = SAME_LETTERS, Turn.TOPIC
    for turn in (Turn.CONTINUE, Turn.SOCIAL):
        found = process.extractOne(said, _spelled()[turn], scorer=fuzz.ratio, score_cutoff=best)
        if found is not None and (found[1] > best or kind is Turn.TOPIC):
            best, kind = found[1], turn
    return kind


def is_example(text: str) -> bool:
    """Tell whether a prompt is one of the examples that have no topic, but for case and punctuation."""
    said = _letters(text)
    return any(said in _spelled()[turn] for turn in (Turn.CONTINUE, Turn.SOCIAL))


@cache
def topicless_terms() -> frozenset[str]:
    """Terms of `analyze()` in the examples that have no topic: a vault that holds *hello* makes none of it."""
    examples = load_examples()
    said = (line for turn in (Turn.CONTINUE, Turn.SOCIAL) for line in examples[turn])
    return frozenset(term for line in said for run in runs(line) for term in expand(run).words)


def load_turn_sense(encode: Callable[[Sequence[str]], Floats], *, name: str, folder: Path) -> TurnSense:
    """Read the examples' vectors, or make and keep them (450 short texts, once for each model).

    Args:
        encode: Texts to vectors as prompts are encoded, shape (n, dimension); used only if they are not kept yet.
        name: The encoder's name.
        folder: Where they are kept.

    Raises:
        ModelError: The encoder is gone.
    """
    examples = load_examples()
    flat = [line for lines in examples.values() for line in lines]
    vectors = load_vectors("turns", flat, encode, name=name, folder=folder)
    ends = np.cumsum([len(lines) for lines in examples.values()])
    by_turn = dict(zip(examples, np.split(vectors, ends[:-1]), strict=True))
    return make_turn_sense(by_turn[Turn.CONTINUE], by_turn[Turn.SOCIAL], by_turn[Turn.TOPIC])


def make_turn_sense(continuing: Floats, social: Floats, topics: Floats) -> TurnSense:
    """Set the bar between what examples have to their own kind and what short prompts with a topic have to them."""
    inside = [
        _closeness(np.delete(group, row, axis=0), vector)
        for group in (continuing, social)
        for row, vector in enumerate(group)
    ]
    outside = [max(_closeness(continuing, vector), _closeness(social, vector)) for vector in topics]
    low, high = float(np.mean(outside)), float(np.mean(inside))
    return TurnSense(continuing=continuing, social=social, topics=topics, bar=low + BAR_SHARE * (high - low))


@cache
def load_examples() -> Mapping[Turn, tuple[str, ...]]:
    """Read the examples, once per process: those of all languages, by kind."""
    raw = resources.files("recall_worker").joinpath("data", "turns.json").read_text(encoding="utf-8")
    by_turn: dict[str, dict[str, list[str]]] = json.loads(raw)["turns"]
    return {turn: tuple(line for lines in by_turn[turn.value].values() for line in lines) for turn in Turn}


@cache
def _spelled() -> Mapping[Turn, tuple[str, ...]]:
    return {turn: tuple(map(_letters, lines)) for turn, lines in load_examples().items()}


def _letters(text: str) -> str:
    """Without case and punctuation."""
    return " ".join(runs(text)).casefold()


def _closeness(group: Floats, vector: Floats) -> float:
    """Mean cosine to the nearest of a group."""
    return float(np.sort(group @ vector)[-NEAREST:].mean())
