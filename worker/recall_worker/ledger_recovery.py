"""Ledger recovery: a damaged ledger is kept under another name, and a fresh one takes its place.

Flow:  vault → scan → [ledger] → indexes → snapshot → hook
In:    the ledger's path.   Out: an open ledger, whatever was in the file; what was set aside, for `recall status`.
Never: a ledger deleted that might still be read; a newer Recall's, or another program's, moved; a silent beginning.
Next:  worker/recall_worker/ledger.py
"""

from __future__ import annotations

import datetime as dt
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recall_worker.errors import LedgerDamaged, LedgerError
from recall_worker.ledger import Ledger
from recall_worker.ledger_losses import expect_notes

log = logging.getLogger(__name__)

KEPT_FILES: Final = 3
"""Damaged ledgers that are kept; the oldest goes first."""

_PREFIX: Final = "ledger-damaged-"
_SIDE_FILES: Final = ("-wal", "-shm")

LOST: Final = (
    "the days on which undated notes were first seen, the order of the latest lessons, the recent window, what running "
    "sessions were sent, and vectors (they are encoded again)"
)
"""What no vault tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A damaged ledger that was kept.

    Attributes:
        path: Where it is now.
        at: When that was, to the second.
    """

    path: Path
    at: dt.datetime

    def message(self) -> str:
        """What a person should know of it."""
        return (
            f"{self.path}: the ledger was damaged and was set aside here on {self.at}; everything was read from the "
            f"vault anew. Not to be had from there: {LOST}. Check the disk, restore the file from a backup if those "
            "matter to you, then delete it: this message goes with it."
        )


def open_ledger(path: Path) -> Ledger:
    """Open the ledger; a damaged one is set aside and a fresh one opened. Only under the state folder's lock.

    Args:
        path: The SQLite file.

    Raises:
        LedgerError: It cannot be opened, is another program's or a newer Recall's; or no fresh one can be made.
    """
    try:
        if _was_emptied(path):
            raise LedgerDamaged(path, "the file is empty")
        return Ledger.open(path)
    except LedgerDamaged as error:
        return begin_anew(path, error)


def begin_anew(path: Path, damage: LedgerDamaged) -> Ledger:
    """Set a damaged ledger aside and open a fresh one.

    Args:
        path: The SQLite file; nobody has it open any more.
        damage: What was found.

    Raises:
        LedgerError: The file cannot be moved, or no fresh one can be made.
    """
    kept = _set_aside(path)
    log.error(
        "ledger damaged detail=%r kept=%s: reading the vault anew. Lost: %s", damage.detail, kept.name, LOST
    )
    ledger = Ledger.open(path)
    expect_notes(ledger)
    return ledger


def read_set_aside(state_dir: Path) -> list[SetAside]:
    """Damaged ledgers that are still there, oldest first."""
    found = []
    for path in sorted(state_dir.glob(f"{_PREFIX}*.sqlite3")):
        try:
            stamp = dt.datetime.strptime(path.stem.removeprefix(_PREFIX)[:15], "%Y%m%dT%H%M%S")
        except ValueError:
            continue
        found.append(SetAside(path=path, at=stamp))
    return found


def _was_emptied(path: Path) -> bool:
    """True for a file without a byte where there was a ledger once: a crash while making the first leaves one too."""
    try:
        return path.stat().st_size == 0 and any((path.parent / "snapshots").iterdir())
    except OSError:
        return False


def _set_aside(path: Path) -> Path:
    """Rename ledger and side files; these first, for a fresh ledger must never meet an old log."""
    target = _free_name(path.parent)
    try:
        for ending in (*_SIDE_FILES, ""):
            source = path.with_name(path.name + ending)
            if source.exists():
                source.rename(target.with_name(target.name + ending))
        _sync(path.parent)
        for old in read_set_aside(path.parent)[:-KEPT_FILES]:
            for ending in (*_SIDE_FILES, ""):
                old.path.with_name(old.path.name + ending).unlink(missing_ok=True)
    except OSError as error:
        raise LedgerError(
            f"{path}: the ledger is damaged and cannot be set aside ({error.strerror}). Nothing was read anew. "
            "Move it away, or give yourself the right to write that folder."
        ) from error
    return target


def _free_name(folder: Path) -> Path:
    """A name that tells the time and that no file has."""
    stamp = dt.datetime.now().strftime("%Y%m%dT%H%M%S")
    names = (f"{_PREFIX}{stamp}{mark}.sqlite3" for mark in ("", *(f"-{n}" for n in range(2, 1_000))))
    return next(path for name in names if not (path := folder / name).exists())


def _sync(folder: Path) -> None:
    """Make renames last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
