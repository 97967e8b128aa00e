"""What the tests of the lexical half share: passages of nothing but text, and an index of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from recall_worker.lexical import LexicalIndex
from recall_worker.records import Passage, PassageId, RecordId

PLAIN = [a + b + c for a in "bdkmnpt" for b in "aio" for c in ("", "b", "k", "m", "t")]
"""Words that are one term each and have no n-grams."""

LIVELY = [
    *("postgres", "migration", "Datenbanksicherung", "Sicherung", "größe", "src/app/db.py", "camelCase"),
    *("データベース", "復元した", "ฐานข้อมูล", "สำรองข้อมูล", "миграции", "المدرسة", "한국어", "विद्यालय", "año"),
]


def passage(number: int, text: str, title: str = "") -> Passage:
    """A passage with nothing of interest but its text."""
    return Passage(
        id=PassageId(number),
        record_id=RecordId(f"r{number}"),
        ordinal=0,
        title_path=title,
        text=text,
        text_sha256=f"{number:064x}",
    )


def passages(texts: Iterable[str], start: int = 1) -> list[Passage]:
    """Passages numbered from `start`."""
    return [passage(number, text) for number, text in enumerate(texts, start)]


def ids(count: int) -> np.ndarray:
    """Passage ids 1 to `count`."""
    return np.arange(1, count + 1, dtype=np.int64)


def filled(folder: Path, texts: Sequence[str], **options: object) -> LexicalIndex:
    """An index of these texts, numbered from 1."""
    opened = LexicalIndex.open(folder, **options)  # type: ignore[arg-type]
    opened.update(added=passages(texts), removed=[], seq=len(texts))
    return opened


def best(opened: LexicalIndex, query: str, count: int) -> int:
    """Id of the best passage, 0 if nothing was found."""
    values = opened.scores(query, ids(count)).values
    return int(values.argmax()) + 1 if values.max() > 0 else 0
