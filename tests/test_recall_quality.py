"""Recall on the example vault: prompts in a colleague's words, in three languages, with the real encoder."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recall_worker.config import DEFAULT_MODEL
from recall_worker.encoder import Encoder, load_encoder
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import load_language_space
from recall_worker.ledger import Ledger
from recall_worker.rebuild import embed_all
from recall_worker.scan import scan
from recall_worker.search import search

ROOT = Path(__file__).parents[1]
PROMPTS = [
    json.loads(line) for line in (ROOT / "tests/example_queries.jsonl").read_text("utf-8").splitlines()
]

pytestmark = pytest.mark.model


@dataclass
class Finder:
    """The example vault, indexed."""

    index: HybridIndex
    ledger: Ledger
    encoder: Encoder

    def paths(self, prompt: str, project: str | None, *, top_k: int = 5) -> list[str]:
        """Paths of the records found, best first."""
        vector = self.encoder.encode_queries([prompt])[0]
        hits = search(self.index.view, self.ledger, prompt, vector, project=project, top_k=top_k)
        return [hit.record.path for hit in hits]


@pytest.fixture(scope="module")
def finder(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Iterator[Finder]:
    """Built once: scan, index, encode."""
    state = tmp_path_factory.mktemp("quality")
    encoder = load_encoder(DEFAULT_MODEL, models_dir=models_dir, allow_download=False)
    with Ledger.open(state / "ledger.sqlite3") as ledger:
        scan(ROOT / "docs/example-vault", ledger, today=dt.date(2026, 11, 30), max_note_bytes=2_000_000)
        with HybridIndex(state / "g", ledger) as index:
            index.follow()
            space = load_language_space(encoder, name=encoder.name, folder=models_dir)
            index.attach(encoder.name, encoder.dimension, space)
            embed_all(index, encoder, progress=lambda *_: None)
            yield Finder(index, ledger, encoder)


def by_language(prompts: list[dict[str, Any]], right: list[bool]) -> dict[str, float]:
    """Share of right ones for each language of the prompt."""
    total = Counter(prompt["lang"] for prompt in prompts)
    good = Counter(prompt["lang"] for prompt, is_right in zip(prompts, right, strict=True) if is_right)
    return {language: good[language] / count for language, count in total.items()}


def test_a_colleagues_words_find_the_note(finder: Finder) -> None:
    """Within the first five and above the floor, for most prompts of each language (docs/decisions/0009)."""
    prompts = [prompt for prompt in PROMPTS if prompt["gold"]]
    right = [
        prompt["gold"].split("#")[0] in finder.paths(prompt["prompt"], prompt.get("project"))
        for prompt in prompts
    ]
    shares = by_language(prompts, right)
    print("found", {language: round(share, 2) for language, share in shares.items()})
    assert shares["en"] >= 0.65
    assert shares["th"] >= 0.50
    assert shares["ja"] >= 0.50


def test_another_topic_finds_nothing(finder: Finder) -> None:
    """Poems, recipes and planets bring no note up; two slips of a dozen are the most."""
    prompts = [prompt for prompt in PROMPTS if not prompt["gold"]]
    slips = [prompt["id"] for prompt in prompts if finder.paths(prompt["prompt"], prompt.get("project"))]
    print("slips", slips)
    assert len(prompts) >= 12
    assert len(slips) <= 2
