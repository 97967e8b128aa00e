"""Ledger recovery: whatever stands in the ledger's file, a worker gets a sound one and a person is told."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from recall_worker.config import Config
from recall_worker.errors import LedgerDamaged, LedgerError
from recall_worker.ledger import Ledger
from recall_worker.ledger_db import Database
from recall_worker.ledger_recovery import KEPT_FILES, begin_anew, open_ledger, read_set_aside
from recall_worker.ledger_schema import MIGRATIONS
from vaults import config_of, rescan, write_note

FLIPS = 60
"""Damaged copies tried; each has eight bytes flipped in one page."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A vault of forty notes, read once into a ledger that was closed in good order."""
    made = config_of(tmp_path)
    for number in range(40):
        write_note(made.vault, f"lessons/{number}.md", f"Lesson {number}. " + "word " * 150)
    with open_ledger(path_of(made)) as ledger:
        rescan(made, ledger)
    return made


def path_of(config: Config) -> Path:
    """The ledger's file."""
    return config.state_dir / "ledger.sqlite3"


def texts(ledger: Ledger) -> dict[str, str]:
    """Every record's text by its id."""
    return {str(record.id): record.text for record in ledger.snapshot_records()}


def recover(config: Config) -> dict[str, str]:
    """What a worker does: open, read the vault, begin anew where damage shows only then."""
    path = path_of(config)
    ledger = open_ledger(path)
    try:
        with ledger:
            rescan(config, ledger)
            return texts(ledger)
    except LedgerDamaged as damage:
        with begin_anew(path, damage) as fresh:
            rescan(config, fresh)
            return texts(fresh)


def cut_short(path: Path) -> None:
    """Lose the second half."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def be_empty(path: Path) -> None:
    """Lose everything, in a state folder that has published before."""
    path.write_bytes(b"")
    (path.parent / "snapshots").mkdir()
    (path.parent / "snapshots" / "everywhere.snap").write_bytes(b"x")


def be_text(path: Path) -> None:
    """Become another kind of file."""
    path.write_text("# Not a ledger\n" * 500)


def lose_version(path: Path) -> None:
    """Lose the schema's version: to zero, though the tables are there."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 0")


def forbid_writing(path: Path) -> None:
    """A header that says: written by a later SQLite, only to be read."""
    with path.open("r+b") as file:
        file.seek(18)
        file.write(b"\x09")


@pytest.mark.parametrize("harm", [cut_short, be_empty, be_text, lose_version, forbid_writing])
def test_a_damaged_ledger_is_kept_aside_and_read_anew(config: Config, harm: object) -> None:
    """The worker serves what the vault says; the bytes that were there are kept under a name with the time."""
    path = path_of(config)
    with Ledger.open(path) as ledger:
        wanted = texts(ledger)
    assert callable(harm)
    harm(path)
    bytes_before = path.read_bytes()
    assert recover(config) == wanted
    (kept,) = read_set_aside(config.state_dir)
    assert kept.path.read_bytes() == bytes_before
    assert kept.path.stat().st_mode & 0o077 == 0
    for said in (str(kept.path), "first seen", "window", "sessions", "vectors", "delete it"):
        assert said in kept.message()


def test_bytes_flipped_anywhere_cost_no_record(config: Config, tmp_path: Path) -> None:
    """Wherever eight bytes are flipped, a start that reads the vault whole ends with the vault's records."""
    path = path_of(config)
    with Ledger.open(path) as ledger:
        wanted = texts(ledger)
    sound = tmp_path / "sound.sqlite3"
    shutil.copy(path, sound)
    size, chance = sound.stat().st_size, random.Random(20261201)
    set_aside = 0
    for attempt in range(FLIPS):
        for file in config.state_dir.iterdir():
            file.unlink()
        # The header and the schema's page are where damage is oddest: a third of the attempts.
        place = chance.randrange(100 if attempt % 3 == 0 else size - 8)
        data = bytearray(sound.read_bytes())
        data[place : place + 8] = bytes(byte ^ 0xFF for byte in data[place : place + 8])
        path.write_bytes(data)
        assert recover(config) == wanted, f"flipped at {place}"
        set_aside += len(read_set_aside(config.state_dir))
    assert set_aside > FLIPS / 3


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_a_lost_side_file_costs_no_record(config: Config, tmp_path: Path, ending: str) -> None:
    """Without its write-ahead log a ledger is an older one: the next reading of the vault brings it up to date."""
    write_note(config.vault, "lessons/new.md", "Written while the log was open.")
    with Ledger.open(path_of(config)) as ledger:
        rescan(config, ledger)
        wanted = texts(ledger)
        crashed = config_of(tmp_path / "crashed")
        crashed.state_dir.mkdir(parents=True)
        shutil.copytree(config.vault, crashed.vault)
        for name in ("", "-wal", "-shm"):
            if name != ending:
                shutil.copy(path_of(config).with_name(f"ledger.sqlite3{name}"), crashed.state_dir)
    assert recover(crashed) == wanted
    assert read_set_aside(crashed.state_dir) == []


@pytest.mark.parametrize("kind", ["newer", "foreign"])
def test_what_is_not_damaged_stays_where_it_is(config: Config, kind: str) -> None:
    """A newer Recall's ledger and another program's file are refused, named and left alone."""
    path = path_of(config)
    if kind == "newer":
        Database(path, verify=True, migrations=[*MIGRATIONS, lambda db: None]).close()
    else:
        path.unlink()
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="newer Recall" if kind == "newer" else "not a ledger") as raised:
        open_ledger(path)
    assert not isinstance(raised.value, LedgerDamaged)
    assert path.read_bytes() == before
    assert read_set_aside(config.state_dir) == []


def test_only_a_few_are_kept(config: Config) -> None:
    """A disk that keeps failing does not fill itself with damaged ledgers."""
    for _ in range(KEPT_FILES + 2):
        be_text(path_of(config))
        open_ledger(path_of(config)).close()
    assert len(read_set_aside(config.state_dir)) == KEPT_FILES
    assert len(list(config.state_dir.glob("ledger-damaged-*"))) == KEPT_FILES


def test_an_empty_file_without_a_past_is_a_first_start(tmp_path: Path) -> None:
    """A crash between making the file and its first page is no damage."""
    path = tmp_path / "state" / "ledger.sqlite3"
    path.parent.mkdir()
    path.touch()
    open_ledger(path).close()
    assert read_set_aside(path.parent) == []
