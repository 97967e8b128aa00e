"""Off-topic: how often slot 4 speaks up for a prompt about something else, and what silence costs.

Flow:  dataset → index → search, floor → [off-topic] → `recall eval --off-topic`
In:    judged questions, and prompts that no record answers.   Out: shares at the floor, and at bars around it.
Never: another floor than a prompt's own.
Next:  worker/recall_worker/floor.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from recall_worker.dataset import Dataset, Question, read_queries
from recall_worker.evaluate import EvalEncoder, document_ids
from recall_worker.hybrid import HybridIndex
from recall_worker.ledger import Ledger
from recall_worker.search import order, weigh

SHOWN: Final = 5
"""Passages that slot 4 has room for."""

CURVE: Final = tuple(step / 2 for step in range(-6, 7))
"""Bars that are tried, in standard deviations of cosine above the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What a floor lets through.

    Attributes:
        off_topic: For each off-topic prompt, how far above the floor its best passage lies.
        gold: For each relevant document among the first five without a floor, how far above the floor it lies.
    """

    off_topic: tuple[float, ...]
    gold: tuple[float, ...]

    def at(self, bar: float) -> dict[str, float | None]:
        """Shares at a bar: off-topic prompts that bring anything up, gold that survives; None of nothing."""
        return {"bar": bar, "injected": _share(self.off_topic, bar), "survived": _share(self.gold, bar)}

    def summary(self) -> dict[str, Any]:
        """The shares at the floor, and the curve."""
        return self.at(0) | {
            "queries": len(self.off_topic),
            "gold": len(self.gold),
            "curve": [self.at(bar) for bar in CURVE],
        }


def halve(dataset: Dataset) -> tuple[Dataset, list[str]]:
    """Keep every other document; the questions that only the others answer become off-topic ones.

    Returns:
        The half with its own questions, and the others' texts: near in topic, and nothing answers them.
    """
    kept = dataset.documents[::2]
    ids = {document.id for document in kept}
    ours, theirs = [], []
    for question in dataset.questions:
        gold = {name: grade for name, grade in question.gold.items() if name in ids}
        if gold:
            ours.append(Question(id=question.id, text=question.text, fields=question.fields, gold=gold))
        else:
            theirs.append(question.text)
    return Dataset(documents=kept, questions=tuple(ours)), theirs


def read_off_topic(path: Path) -> list[str]:
    """Prompts of a queries.jsonl.

    Raises:
        DatasetError: It cannot be read, or a row is malformed.
    """
    return [text for _, text, _ in read_queries(path)]


def listen(
    questions: Sequence[Question],
    off_topic: Sequence[str],
    index: HybridIndex,
    ledger: Ledger,
    encoder: EvalEncoder | None,
    *,
    dataset: Dataset | None,
    progress: Callable[[str, int, int], None],
) -> Silence:
    """Search everything once and keep how far above the floor it came.

    Args:
        questions: Judged ones; none for a plain vault.
        dataset: What the index holds, None for a plain vault.
    """
    view = index.view
    names = document_ids(dataset, view, ledger) if dataset else []
    above_gold: list[float] = []
    above_off: list[float] = []
    total = len(questions) + len(off_topic)
    for number, text in enumerate([*(item.text for item in questions), *off_topic]):
        vector = None if encoder is None else encoder.encode_queries([text])[0]
        evidence = weigh(view, text, vector)
        above = np.nan_to_num(evidence.rated.above, nan=-math.inf)
        if number < len(questions):
            gold = questions[number].gold
            rows = order(view, evidence.fused, view.corpus.live, top_k=SHOWN)
            above_gold += [float(above[row]) for row in rows if names[row] in gold]
        else:
            above_off.append(float(above.max(initial=-math.inf)))
        progress("floor", number + 1, total)
    return Silence(off_topic=tuple(above_off), gold=tuple(above_gold))


def _share(values: Sequence[float], bar: float) -> float | None:
    return sum(value >= bar for value in values) / len(values) if values else None
