"""Hybrid index: rows, postings and vectors stay together through edits, restarts and damage."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recall_worker.config import Config
from recall_worker.errors import VaultError
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import load_language_space
from recall_worker.ledger import Ledger
from recall_worker.rebuild import embed_all, rebuild, remove_other_generations, serving_generation
from recall_worker.records import RecordId
from recall_worker.search import search
from toy_encoder import ToyEncoder
from vaults import config_of, rescan, write_note

TOY = ToyEncoder()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A vault of a dozen notes."""
    made = config_of(tmp_path)
    for number in range(12):
        write_note(
            made.vault,
            f"knowledge/n{number}.md",
            f"Note number{number} about topic{number}.",
            date="2026-01-01",
        )
    return made


@pytest.fixture
def ledger(config: Config) -> Iterator[Ledger]:
    """Its ledger, scanned."""
    with Ledger.open(config.state_dir / "ledger.sqlite3") as opened:
        rescan(config, opened)
        yield opened


def attach(index: HybridIndex, config: Config) -> None:
    """Give the index the toy encoder's vectors."""
    space = load_language_space(TOY, name=TOY.name, folder=config.state_dir / "models")
    index.attach(TOY.name, TOY.dimension, space)


def found(index: HybridIndex, ledger: Ledger, text: str) -> list[str]:
    """Paths of what a prompt finds, best first."""
    vector = TOY.encode_query(text, timeout_s=1) if index.view.meaning else None
    return [hit.record.path for hit in search(index.view, ledger, text, vector, project=None, top_k=5)]


def check_rows(index: HybridIndex, ledger: Ledger) -> None:
    """Every live row's vector is that of its own text, and every live passage of the ledger has a row."""
    view = index.view
    live = np.flatnonzero(view.corpus.live)
    passages = ledger.passages([view.corpus.passage_id(row) for row in live])
    assert len(passages) == len(live) == ledger.passage_count()
    assert view.meaning is not None
    for row in live.tolist():
        passage = passages[view.corpus.passage_id(row)]
        expected = TOY.encode_passages([f"{passage.title_path}\n{passage.text}"])[0]
        assert view.meaning.matrix.vectors_of(np.array([row]))[0] == pytest.approx(expected, abs=1e-6)


def test_edits_and_deletions_keep_rows_and_vectors_together(config: Config, ledger: Ledger) -> None:
    """After every change each row holds its own passage, dead ones are not found, compaction changes nothing."""
    with HybridIndex(config.state_dir / "g", ledger) as index:
        index.follow()
        attach(index, config)
        embed_all(index, TOY, progress=lambda *_: None)
        check_rows(index, ledger)
        assert found(index, ledger, "topic3")[0] == "knowledge/n3.md"

        write_note(config.vault, "knowledge/n3.md", "Entirely about zeppelins now.", date="2026-01-01")
        for number in range(4, 9):
            (config.vault / f"knowledge/n{number}.md").unlink()
        write_note(config.vault, "knowledge/new.md", "A fresh word: xylophone.", date="2026-01-01")
        rescan(config, ledger)
        index.follow()
        assert "knowledge/n5.md" not in found(index, ledger, "topic5")
        assert found(index, ledger, "zeppelins")[0] == "knowledge/n3.md"
        assert found(index, ledger, "xylophone")[0] == "knowledge/new.md"
        embed_all(index, TOY, progress=lambda *_: None)
        check_rows(index, ledger)
        before = found(index, ledger, "zeppelins xylophone")
        index.compact()
        check_rows(index, ledger)
        assert len(index.view.corpus) == ledger.passage_count()
        assert found(index, ledger, "zeppelins xylophone") == before


def test_a_profile_that_becomes_knowledge_gets_its_row(config: Config, ledger: Ledger) -> None:
    """A record that was not searchable before has an id in the middle of the others."""
    write_note(config.vault, "a.md", "Speaks about marmalade.", type="profile", date="2026-01-01")
    rescan(config, ledger)
    write_note(config.vault, "b.md", "Speaks about gooseberries.", date="2026-01-01")
    rescan(config, ledger)
    with HybridIndex(config.state_dir / "g", ledger) as index:
        index.follow()
        attach(index, config)
        embed_all(index, TOY, progress=lambda *_: None)
        assert found(index, ledger, "marmalade") == []
        write_note(config.vault, "a.md", "Speaks about marmalade.", type="knowledge", date="2026-01-01")
        rescan(config, ledger)
        index.follow()
        embed_all(index, TOY, progress=lambda *_: None)
        assert found(index, ledger, "marmalade") == ["a.md"]
        check_rows(index, ledger)


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_damaged_lexical_index_is_made_again(config: Config, ledger: Ledger, damage: str) -> None:
    """The ledger is the truth: whatever happens to the index's folder, the next start finds everything."""
    folder = config.state_dir / "g"
    with HybridIndex(folder, ledger) as index:
        index.follow()
    if damage == "gone":
        shutil.rmtree(folder / "lexical")
    else:
        for file in (folder / "lexical").iterdir():
            file.write_bytes(b"garbage")
    with HybridIndex(folder, ledger) as index:
        index.follow()
        assert found(index, ledger, "topic7")[0] == "knowledge/n7.md"


def test_a_reopened_index_needs_no_second_encoding(config: Config, ledger: Ledger) -> None:
    """Vectors live in the ledger."""
    with HybridIndex(config.state_dir / "g", ledger) as index:
        index.follow()
        attach(index, config)
        embed_all(index, TOY, progress=lambda *_: None)
    with HybridIndex(config.state_dir / "h", ledger) as index:
        index.follow()
        attach(index, config)
        assert index.missing() == 0
        check_rows(index, ledger)


def test_a_rebuild_swaps_generations_and_keeps_what_is_known(config: Config, ledger: Ledger) -> None:
    """New folder, same answers, windows untouched, nothing encoded again; an edit made meanwhile is in."""
    first = rebuild(config, ledger, encoder=TOY, progress=lambda *_: None)
    ledger.set_window("", (RecordId("knowledge/n1.md"),))
    first_seen = {
        record.path: record.first_seen for record in ledger.records([RecordId("knowledge/n1.md")]).values()
    }
    stages: list[str] = []

    def tell(stage: str, done: int, total: int) -> None:
        if stage == "index" and stage not in stages:
            write_note(config.vault, "knowledge/late.md", "Came late: quicksilver.", date="2026-01-02")
        stages.append(stage)

    second = rebuild(config, ledger, encoder=TOY, progress=tell)
    first.close()
    remove_other_generations(config.state_dir)
    assert serving_generation(config.state_dir) == second.folder != first.folder
    assert not first.folder.exists()
    assert found(second, ledger, "quicksilver") == ["knowledge/late.md"]
    assert "embed" not in stages
    assert {
        r.path: r.first_seen for r in ledger.records([RecordId("knowledge/n1.md")]).values()
    } == first_seen
    assert ledger.window("") == ("knowledge/n1.md",)
    second.close()


def test_a_failed_rebuild_leaves_the_old_generation(config: Config, ledger: Ledger) -> None:
    """The vault is gone: the error is clear, `current` and the old folder stay."""
    rebuild(config, ledger, encoder=None, progress=lambda *_: None).close()
    serving = serving_generation(config.state_dir)
    shutil.rmtree(config.vault)
    with pytest.raises(VaultError):
        rebuild(config, ledger, encoder=None, progress=lambda *_: None)
    assert serving_generation(config.state_dir) == serving
    assert list((config.state_dir / "generations").iterdir()) == [serving]


def columns(index: HybridIndex) -> list[tuple[object, ...]]:
    """What the index knows of each live row, by passage id; the row before is named by its passage."""
    corpus = index.view.corpus
    return [
        (
            int(corpus.ids[row]),
            corpus.record_id(row),
            int(corpus.ordinal[row]),
            int(corpus.ids[corpus.before[row]]) if corpus.before[row] >= 0 else None,
            int(corpus.script[row]),
            None if corpus.project[row] < 0 else corpus.projects[corpus.project[row]],
            int(corpus.date[row]),
            corpus.text_sha256[row],
        )
        for row in np.flatnonzero(corpus.live).tolist()
    ]


@pytest.mark.parametrize("seed", range(6))
def test_small_edits_lead_where_a_fresh_start_does(config: Config, ledger: Ledger, seed: int) -> None:
    """After any history of edits the rows say what an index that reads all facts at once would say."""
    rng = random.Random(seed)
    with HybridIndex(config.state_dir / "index", ledger) as index:
        index.follow()
        for step in range(25):
            path = config.vault / "knowledge" / f"n{rng.randrange(16)}.md"
            if path.exists() and rng.random() < 0.3:
                path.unlink()
            else:
                paragraphs = [f"Step {step} says {rng.random()}. " * 30 for _ in range(rng.randint(1, 4))]
                write_note(
                    config.vault,
                    f"knowledge/{path.name}",
                    "\n\n".join(paragraphs),
                    date=f"2026-01-{rng.randint(1, 28):02}",
                    type=rng.choice(["knowledge", "knowledge", "lesson", "profile"]),
                    project=rng.choice([None, "billing"]),
                )
            rescan(config, ledger)
            if rng.random() < 0.6:
                index.follow()
        index.follow()
        with HybridIndex(config.state_dir / "other", ledger) as other:
            other.follow()
            assert columns(index) == columns(other)
            assert found(index, ledger, "step says") == found(other, ledger, "step says")
