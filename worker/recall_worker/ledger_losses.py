"""Ledger losses: when most of a vault is gone at once, its notes are kept until a person or some time says so.

Flow:  vault → [scan] → ledger → indexes → snapshot → hook
In:    how many files are known and gone, what was held back before.   Out: whether to forget them now.
Never: an ordinary deletion held back; a disk that was not mounted, or a half-done sync, taken for one.
Next:  worker/recall_worker/scan.py
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from recall_worker.ledger import Ledger

MANY_FILES: Final = 20
"""Vaults from this size on are guarded against losing more than half of their files at once."""

SOME_FILES: Final = 5
"""Vaults from this size on are guarded against losing every file they had, others in their place."""

SETTLED_RATIO: Final = 0.1
"""Share of files still gone at which a loss that was held back counts as over: a sync brings them back bit by bit."""

_HELD: Final = "loss_held"
_EXPECTS_NOTES: Final = "expects_notes"
_ROOT: Final = "vault_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Files that are gone and held back.

    Attributes:
        files: How many are gone.
        known: Of how many.
        since: When that was first seen, seconds since the epoch.
        until: When they are forgotten, seconds since the epoch.
    """

    files: int
    known: int
    since: float
    until: float

    def message(self, vault: Path) -> str:
        """What a person should know of it."""
        since, until = (
            dt.datetime.fromtimestamp(at).isoformat(" ", "minutes") for at in (self.since, self.until)
        )
        return (
            f"{vault}: {self.files} of {self.known} files are gone since {since}. Their notes are kept and served "
            f"until {until}, then forgotten. Bring the files back (is the disk mounted, has the sync ended?), or "
            "forget them now with `recall rebuild --confirm-empty`."
        )


def hold_back(ledger: Ledger, *, gone: int, known: int, vault: Path, grace_s: float, now: float) -> bool:
    """Decide whether files that are gone shall be kept for now, and remember it.

    Args:
        gone: Files known and not there, renames taken out.
        known: Files known in all.
        vault: Its path; another one than last time means that a person changed the setting, and nothing is held.
        grace_s: How long a large loss is held back, seconds.
        now: Seconds since the epoch.
    """
    held = read_loss(ledger)
    is_large = _is_large(gone, known, was_held=held is not None) and read_root(ledger) in (None, str(vault))
    # A clock that was set back begins the wait anew rather than making it as long as the jump.
    since = min(held.since, now) if held else now
    if not is_large or now - since >= grace_s:
        if held is not None:
            ledger.set_meta(_HELD, "")
        return False
    loss = Loss(files=gone, known=known, since=since, until=since + grace_s)
    if loss != held:
        ledger.set_meta(_HELD, json.dumps(asdict(loss)))
    return True


def forget_loss(ledger: Ledger) -> None:
    """A person has confirmed what is gone."""
    if ledger.get_meta(_HELD):
        ledger.set_meta(_HELD, "")


def read_loss(ledger: Ledger) -> Loss | None:
    """What is held back now."""
    text = ledger.get_meta(_HELD)
    return Loss(**json.loads(text)) if text else None


def read_root(ledger: Ledger) -> str | None:
    """The vault that was last read from end to end; None if none was: the ledger may hold a part of one."""
    return ledger.get_meta(_ROOT)


def remember_root(ledger: Ledger, vault: Path) -> None:
    """Keep that a vault was read from end to end."""
    if read_root(ledger) != str(vault):
        ledger.set_meta(_ROOT, str(vault))
    if ledger.get_meta(_EXPECTS_NOTES):
        ledger.set_meta(_EXPECTS_NOTES, "")


def expect_notes(ledger: Ledger) -> None:
    """Keep that a ledger was begun anew: a vault without notes is then not simply a new one."""
    ledger.set_meta(_EXPECTS_NOTES, "1")


def expects_notes(ledger: Ledger) -> bool:
    """True if notes were read into a ledger that was lost, and none into this one yet."""
    return bool(ledger.get_meta(_EXPECTS_NOTES))


def _is_large(gone: int, known: int, *, was_held: bool) -> bool:
    """Half of a vault of some size, or all of a small one; one or two files never are."""
    if was_held:
        return gone > SETTLED_RATIO * known
    return (known >= MANY_FILES and gone * 2 > known) or (known >= SOME_FILES and gone == known)
