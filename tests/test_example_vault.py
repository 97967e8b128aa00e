"""The example vault: believable, readable by our own rules, and found by what a colleague would type."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from rapidfuzz import fuzz

from recall_worker.config import Budget, Config
from recall_worker.hybrid import HybridIndex
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.records import RecordDraft, RecordId, RecordType
from recall_worker.refresh import Publisher, read_vault
from recall_worker.search import order, weigh
from recall_worker.vault import parse_note, walk_vault

VAULT = Path(__file__).parents[1] / "docs" / "example-vault"
TODAY = dt.date(2026, 11, 30)
"""The vault's own present; tests that parse without a ledger do not depend on the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One line of example_queries.jsonl.

    Attributes:
        gold: Vault path, with `#` and how heading or item begin in a split file; None for no answer.
        project: Where it is typed; None for no project.
        cross: True if the gold record is in another language.
    """

    id: str
    lang: str
    prompt: str
    gold: str | None
    project: str | None = None
    cross: bool = False


EXAMPLES = [
    Example(**json.loads(line))
    for line in (Path(__file__).parent / "example_queries.jsonl").read_text(encoding="utf-8").splitlines()
]
ON_TOPIC = [example for example in EXAMPLES if example.gold]


@cache
def records() -> dict[str, RecordDraft]:
    """Every record of the vault by path and part, as the prompts name them."""
    found: dict[str, RecordDraft] = {}
    for file in walk_vault(VAULT):
        note = parse_note(file.path, (VAULT / file.path).read_bytes(), max_bytes=100_000, today=TODAY)
        assert not note.problems
        for draft in note.records:
            found[file.path if draft.stated_id else draft.key] = draft
    return found


def gold_of(example: Example) -> RecordDraft:
    """The record that a prompt should find."""
    assert example.gold
    (found,) = (draft for name, draft in records().items() if name.startswith(example.gold))
    return found


def language(draft: RecordDraft) -> str:
    """Language by script: Thai letters, kana, else English."""
    thai = len(re.findall(r"[\u0e01-\u0e5b]", draft.text))
    kana = len(re.findall(r"[\u3041-\u30ff]", draft.text))
    return "th" if thai > 20 else "ja" if kana > 20 else "en"


def test_it_is_about_sixty_records_half_english() -> None:
    """Sixty-odd records: half English, a quarter Thai, a quarter Japanese."""
    share = Counter(language(draft) for draft in records().values())
    total = share.total()
    assert 55 <= total <= 70
    assert 0.45 <= share["en"] / total <= 0.6
    assert min(share["th"], share["ja"]) / total >= 0.2


def test_every_kind_of_record_is_there() -> None:
    """All four types, two projects, and prohibitions in each language."""
    drafts = records().values()
    assert {draft.type for draft in drafts} == set(RecordType)
    assert {draft.project for draft in drafts} == {None, "billing", "field-notes"}
    prohibitions = [draft for draft in drafts if draft.high]
    assert 4 <= len(prohibitions) <= 6
    assert {language(draft) for draft in prohibitions} == {"en", "th", "ja"}


def test_every_record_is_dated_in_the_past() -> None:
    """No record's date depends on the day it is first seen."""
    dates = [draft.date for draft in records().values()]
    assert all(date and dt.date(2025, 6, 1) <= date < TODAY for date in dates)


def test_obsidian_habits_are_there() -> None:
    """Notes split by headings and by items, without front matter, long, with code, with tags in the text."""
    texts = {file.path: (VAULT / file.path).read_text(encoding="utf-8") for file in walk_vault(VAULT)}
    assert sum("\nsplit: headings\n" in text for text in texts.values()) == 1
    assert sum("\nsplit: items\n" in text for text in texts.values()) == 1
    assert [path for path, text in texts.items() if not text.startswith("---\n")] == ["daily/2026-03-02.md"]
    assert sum("<private>" in text for text in texts.values()) == 1
    assert sum("```" in text for text in texts.values()) >= 3
    assert max(len(draft.passages) for draft in records().values()) >= 4
    assert {"privacy", "onboarding"} <= {tag for draft in records().values() for tag in draft.tags}


def test_links_lead_somewhere() -> None:
    """Every [[link]] names a note of the vault, as Obsidian would find it."""
    paths = [VAULT / file.path for file in walk_vault(VAULT)]
    notes = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    links = {link for text in notes.values() for link in re.findall(r"\[\[([^\]|#]+)", text)}
    assert len(links) >= 6
    assert links <= set(notes)


def test_the_private_number_stays_in_its_file() -> None:
    """What stands between <private> tags is in no record, and what stands around it is."""
    note = (VAULT / "knowledge" / "ติดต่อใครเมื่อไร.md").read_text(encoding="utf-8")
    assert "053-555-0142" in note
    assert not [draft.key for draft in records().values() if "053-555-0142" in draft.text + draft.title]
    assert "แหลมฉบัง" in records()["knowledge/ติดต่อใครเมื่อไร.md"].text


def test_the_prompts_are_as_they_should_be() -> None:
    """About sixty with an answer in three languages, a dozen without, each with a name of its own."""
    for names in ([example.id for example in EXAMPLES], [example.prompt for example in EXAMPLES]):
        assert len(set(names)) == len(names)
    assert 50 <= len(ON_TOPIC) <= 65
    assert Counter(example.lang for example in EXAMPLES if not example.gold) == {"en": 4, "th": 4, "ja": 4}
    assert min(Counter(example.lang for example in ON_TOPIC).values()) >= 12


@pytest.mark.parametrize("example", ON_TOPIC, ids=lambda example: example.id)
def test_prompt_asks_for_a_record_in_other_words(example: Example) -> None:
    """The gold record exists, can be recalled where the prompt is typed, and its title is not the prompt."""
    draft = gold_of(example)
    assert draft.project in (None, example.project)
    assert draft.type is not RecordType.PROFILE
    assert (language(draft) != example.lang) == example.cross
    assert fuzz.ratio(example.prompt.casefold(), draft.title.casefold()) < 65


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """The example vault with a fresh state and a directory for each project."""
    places = {name: (tmp_path / "src" / name,) for name in ("billing", "field-notes")}
    return Config(state_dir=tmp_path / "state", vault=VAULT, model="none", projects=places)


def publish(config: Config) -> dict[str, bytes]:
    """Build everything afresh and read the snapshot files."""
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        read_vault(config, ledger)
        Publisher(config, ledger, Projects(config.projects, ledger)).publish()
    return {file.name: file.read_bytes() for file in (config.state_dir / "snapshots").glob("*.snap")}


def test_two_fresh_builds_give_the_same_bytes(config: Config, tmp_path: Path) -> None:
    """The same notes, copied in another order and touched on another day, give the same snapshots."""
    copy = tmp_path / "copy"
    for file in reversed(walk_vault(VAULT)):
        target = copy / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(VAULT / file.path, target)
        os.utime(target, (1_000_000_000, 1_000_000_000))
    first = publish(config)
    assert len(first) == 3
    assert first == publish(replace(config, vault=copy, state_dir=tmp_path / "other state"))


def test_everything_fits_the_budget(config: Config) -> None:
    """No prohibition is shortened, nothing is left out, and slot 4 keeps its reserve, in every scope."""
    budget = Budget()
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        read_vault(config, ledger)
        publisher = Publisher(config, ledger, Projects(config.projects, ledger))
        publisher.publish()
        for snapshot in (item.snapshot for item in publisher.published.values()):
            assert {shown.slot for shown in snapshot.shown} == {1, 2, 3}
            assert not snapshot.left_out
            assert not [shown.text for shown in snapshot.shown if shown.slot == 2 and "…" in shown.text]
            assert snapshot.units <= budget.target_units - budget.relevant_reserved_units


def ranks(config: Config, examples: list[Example]) -> list[int]:
    """Place of each prompt's gold record in the order of BM25 alone, before any floor."""
    places: list[int] = []
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        read_vault(config, ledger)
        with HybridIndex(config.state_dir / "generations" / "0001", ledger) as index:
            index.follow()
            for example in examples:
                scores = weigh(index.view, example.prompt, None).lexical
                corpus = index.view.corpus
                rows = order(index.view, scores, corpus.within(example.project), top_k=len(corpus))
                found = list(dict.fromkeys(corpus.record_id(row) for row in rows))
                places.append(found.index(RecordId(gold_of(example).key)) + 1)
    return places


def test_bm25_alone_finds_most(config: Config) -> None:
    """Without the encoder, two of three prompts find their record first, and nearly all in the first ten."""
    plain = [example for example in ON_TOPIC if not example.cross]
    places = ranks(config, plain)
    assert sum(place == 1 for place in places) / len(places) >= 0.66
    assert sum(place <= 10 for place in places) / len(places) >= 0.95
