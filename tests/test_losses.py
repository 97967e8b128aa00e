"""Losses: most of a vault gone at once is held back, everything else goes through at the next scan."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from recall_worker.config import Config
from recall_worker.errors import VaultError
from recall_worker.frames import unpack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.ledger_losses import read_loss
from recall_worker.ledger_recovery import open_ledger, read_set_aside
from recall_worker.projects import Projects
from recall_worker.publish import snapshot_name
from recall_worker.refresh import Publisher, read_vault
from recall_worker.scan import GRACE_S, ScanReport, scan
from recall_worker.status import read_status
from vaults import config_of, write_note

NOON = 1_800_000_000.0


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A vault of a hundred lessons in two folders."""
    made = config_of(tmp_path)
    for number in range(100):
        folder = "lessons/old" if number < 60 else "lessons/new"
        write_note(made.vault, f"{folder}/{number:02}.md", f"Lesson {number}.", date="2026-01-02")
    return made


@pytest.fixture
def ledger(config: Config) -> Iterator[Ledger]:
    """Its ledger, the vault read once."""
    with Ledger.open(config.state_dir / "ledger.sqlite3") as made:
        look(config, made)
        yield made


def look(
    config: Config, ledger: Ledger, *, at: float = NOON, vault: Path | None = None, confirm: bool = False
) -> ScanReport:
    """Scan at a time."""
    return scan(
        vault or config.vault,
        ledger,
        today=dt.date(2026, 6, 1),
        max_note_bytes=config.max_note_bytes,
        confirm_empty=confirm,
        now=at,
    )


def lose(config: Config, numbers: range) -> None:
    """Delete these notes."""
    for number in numbers:
        (path,) = config.vault.rglob(f"{number:02}.md")
        path.unlink()


@pytest.mark.parametrize("count", [1, 10, 50])
def test_ordinary_deletions_go_through_at_once(config: Config, ledger: Ledger, count: int) -> None:
    """One of a hundred, ten, or half of them are gone with the next scan."""
    lose(config, range(count))
    report = look(config, ledger)
    assert (report.removed, report.held, ledger.record_count()) == (count, 0, 100 - count)


def test_more_than_half_is_kept_for_a_day(config: Config, ledger: Ledger) -> None:
    """Nothing goes until the grace has passed; what is new meanwhile arrives; then it goes by itself."""
    lose(config, range(51))
    write_note(config.vault, "lessons/late.md", "Written meanwhile.", date="2026-01-02")
    for at in (NOON, NOON + GRACE_S - 1):
        report = look(config, ledger, at=at)
        assert (report.removed, report.held, ledger.record_count()) == (0, 51, 101)
    report = look(config, ledger, at=NOON + GRACE_S)
    assert (report.removed, report.held, ledger.record_count()) == (51, 0, 50)
    assert read_loss(ledger) is None


def test_a_person_may_confirm_it(config: Config, ledger: Ledger) -> None:
    """What `recall rebuild --confirm-empty` does."""
    lose(config, range(80))
    assert look(config, ledger).held == 80
    report = look(config, ledger, confirm=True)
    assert (report.removed, ledger.record_count(), read_loss(ledger)) == (80, 20, None)


def test_files_that_come_back_bit_by_bit_lose_nothing(config: Config, ledger: Ledger, tmp_path: Path) -> None:
    """A sync that brings half of them back has not ended: the rest is not taken for deleted."""
    kept = tmp_path / "elsewhere"
    shutil.move(config.vault / "lessons/old", kept)
    assert look(config, ledger).held == 60
    (config.vault / "lessons/old").mkdir()
    for number in range(40):
        shutil.move(kept / f"{number:02}.md", config.vault / "lessons/old")
    report = look(config, ledger, at=NOON + 60)
    assert (report.removed, report.held) == (0, 20)
    for number in range(40, 60):
        shutil.move(kept / f"{number:02}.md", config.vault / "lessons/old")
    report = look(config, ledger, at=NOON + 120)
    assert (report.added, report.removed, report.held, read_loss(ledger)) == (0, 0, 0, None)


def test_renamed_folders_are_no_loss(config: Config, ledger: Ledger) -> None:
    """Every file at another path is a hundred renames, done at once."""
    (config.vault / "lessons").rename(config.vault / "conclusions")
    report = look(config, ledger)
    assert (report.renamed, report.removed, report.held, ledger.record_count()) == (100, 0, 0, 100)


def test_another_vault_in_its_place_is_held(config: Config, ledger: Ledger) -> None:
    """Other notes under the same path join what is known, which is kept."""
    shutil.rmtree(config.vault)
    write_note(config.vault, "lessons/other.md", "Of another vault.")
    report = look(config, ledger)
    assert (report.added, report.removed, report.held) == (1, 0, 100)


def test_another_path_in_the_config_is_meant(config: Config, ledger: Ledger, tmp_path: Path) -> None:
    """Who sets `vault` anew wants that one, at once; but not if nothing is there."""
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(VaultError, match="confirm-empty"):
        look(config, ledger, vault=empty)
    write_note(tmp_path / "second", "lessons/other.md", "Of the second vault.")
    report = look(config, ledger, vault=tmp_path / "second")
    assert (report.added, report.removed, report.held) == (1, 100, 0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_small_vault_may_change_whole(tmp_path: Path, count: int) -> None:
    """Someone who tries Recall with a few notes and replaces them is not held up."""
    config = config_of(tmp_path)
    for number in range(count):
        write_note(config.vault, f"{number:02}.md", f"First {number}.")
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        look(config, ledger)
        lose(config, range(count))
        write_note(config.vault, "next.md", "Another one.")
        assert (look(config, ledger).removed, ledger.record_count()) == (count, 1)


def test_a_clock_that_was_set_back_does_not_lengthen_the_wait(config: Config, ledger: Ledger) -> None:
    """The wait begins anew at the earlier time."""
    lose(config, range(60))
    look(config, ledger, at=NOON)
    look(config, ledger, at=NOON - 10 * GRACE_S)
    assert look(config, ledger, at=NOON - 9 * GRACE_S).removed == 60


def test_notes_with_the_ids_of_held_ones_arrive(config: Config, tmp_path: Path) -> None:
    """Files that state ids which held files still own are read, not refused, and nothing is lost."""
    config = config_of(tmp_path / "stated")
    for number in range(30):
        write_note(config.vault, f"a/{number:02}.md", f"Stated {number}.", id=f"n{number}")
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        look(config, ledger)
        shutil.rmtree(config.vault / "a")
        for number in range(30):
            write_note(config.vault, f"b/{number:02}.md", f"Stated {number}, edited.", id=f"n{number}")
        for at in (NOON, NOON + 60, NOON + 2 * GRACE_S):
            look(config, ledger, at=at)
        assert ledger.record_count() == 30
        assert {record.text for record in ledger.records([f"n{n}" for n in range(30)]).values()} == {  # type: ignore[list-item]
            f"Stated {number}, edited." for number in range(30)
        }


def published(config: Config) -> str:
    """The snapshot's text on disk."""
    frame = unpack_snapshot((config.state_dir / "snapshots" / snapshot_name(None)).read_bytes())
    return frame.payload.decode()


def test_the_snapshot_stays_and_status_says_so(config: Config, ledger: Ledger) -> None:
    """A real refresh after the loss leaves every byte, and the status names numbers and the way out."""
    publisher = Publisher(config, ledger, Projects({}, ledger))
    read_vault(config, ledger)
    publisher.publish()
    before = published(config)
    lose(config, range(40, 100))
    read_vault(config, ledger)
    publisher.publish()
    assert published(config) == before
    status = read_status(config, ledger, worker={"failures": []}, encoder=None, view=None)
    (failure,) = status["failures"]
    assert not status["healthy"]
    assert "60 of 100 files" in failure["message"]
    assert "--confirm-empty" in failure["message"]


def test_an_empty_vault_does_not_follow_a_lost_ledger(config: Config, ledger: Ledger) -> None:
    """Ledger damaged and disk not mounted, both at once: a fresh ledger does not take the vault for a new one."""
    ledger.close()
    path = config.state_dir / "ledger.sqlite3"
    path.write_bytes(b"no ledger" * 1_000)
    away = config.vault.rename(config.vault.with_name("away"))
    config.vault.mkdir()
    with open_ledger(path) as fresh:
        with pytest.raises(VaultError, match="confirm-empty"):
            look(config, fresh)
        config.vault.rmdir()
        away.rename(config.vault)
        assert look(config, fresh).added == 100
    assert len(read_set_aside(config.state_dir)) == 1
