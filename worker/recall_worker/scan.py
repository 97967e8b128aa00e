"""Scan: find what changed in the vault since last time and bring the ledger up to date.

Flow:  vault → [scan] → ledger → indexes → snapshot → hook
In:    the vault's folder.   Out: the ledger as the vault is now, and a report of what that took.
Never: a file read whose size and time are as they were; one bad file costing another one.
Next:  worker/recall_worker/ledger.py
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from recall_worker.errors import NoteError, VaultError
from recall_worker.ledger import Applied, FileChange, FileState, Ledger
from recall_worker.ledger_losses import expects_notes, forget_loss, hold_back, remember_root
from recall_worker.ledger_moves import find_moves, same_stat, without_moved
from recall_worker.records import Problem
from recall_worker.secret_patterns import RULES
from recall_worker.vault import VaultFile, parse_note, read_note, walk_vault

log = logging.getLogger(__name__)

_RULES_KEY: Final = "secret_rules"
"""Meta key of the ledger: by which rules every note in it was searched for secrets."""

BATCH_FILES: Final = 500
"""Files in one transaction: what a crash costs at most, and how often progress shows."""

BATCH_BYTES: Final = 16 << 20
"""Bytes read for one transaction, so that a vault of huge notes does not fill the memory."""

GRACE_S: Final = 86_400.0
"""How long the notes of a vault that lost most of its files are kept, seconds."""

SETTLE_NS: Final = 2_000_000_000
"""Age from which a file's time tells that it has not changed; the coarsest clocks tick every two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What a scan found.

    Attributes:
        files: Files in the vault.
        read: Files whose content was read.
        added: Records that are new.
        changed: Records that say something else than before.
        renamed: Files that were recognised at another path.
        removed: Records that are gone.
        held: Files that are gone, so many at once that their records were kept for now.
        problems: Everything a person should mend, also from earlier scans.
        seq: Position of the ledger's change log afterwards.
        ms: Time taken, milliseconds.
    """

    files: int
    read: int
    added: int
    changed: int
    renamed: int
    removed: int
    held: int
    problems: tuple[Problem, ...]
    seq: int
    ms: int

    @property
    def touched(self) -> int:
        """Records and files that are not as they were."""
        return self.added + self.changed + self.renamed + self.removed


def scan(
    vault: Path,
    ledger: Ledger,
    *,
    today: dt.date,
    max_note_bytes: int,
    full: bool = False,
    confirm_empty: bool = False,
    grace_s: float = GRACE_S,
    now: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    """Bring the ledger up to date with the vault, one durable batch after the other.

    Args:
        vault: Folder of notes.
        today: The day that stands in for the date of undated records seen for the first time.
        max_note_bytes: Larger files are a problem and keep what was last read of them.
        full: Read and parse every file, whatever its size, time and sha256 say.
        confirm_empty: Forget what is gone, even if that is most of the vault or all of it.
        grace_s: How long a loss of most files is held back without that, seconds.
        now: Seconds since the epoch; defaults to the clock's.
        progress: Called after each batch with files done and files to do.

    Raises:
        VaultError: The folder cannot be read, or lost all its files at once; nothing was removed.
        LedgerError: A batch could not be stored; earlier ones are.
    """
    started = time.monotonic()
    is_outdated = ledger.get_meta(_RULES_KEY) != str(RULES)
    if is_outdated and not ledger.file_count():
        ledger.set_meta(_RULES_KEY, str(RULES))
        is_outdated = False
    full = full or is_outdated  # else a secret that is known now would stay
    reader = _Reader(ledger, today=today, max_note_bytes=max_note_bytes, full=full)
    unlisted: list[Problem] = []
    files = {file.path: file for file in walk_vault(vault, on_problem=unlisted.append)}
    known = ledger.files()
    files = without_moved(files, known)
    if not files and not confirm_empty:
        _refuse_emptied(vault, ledger)
    ledger.set_unlisted(unlisted)
    out_of_sight = tuple(problem.path for problem in unlisted if problem.fatal)
    known = {path: state for path, state in known.items() if path in files or not _is_in(path, out_of_sight)}
    moves = find_moves(files, known, sha256_of=reader.sha256_of)
    if moves:
        ledger.relocate(moves)
        known = {path: state for path, state in ledger.files().items() if path in files or path in known}
    due = [file for path, file in sorted(files.items()) if full or _is_due(file, known.get(path))]
    vanished = known.keys() - files
    held = False
    if confirm_empty:
        forget_loss(ledger)
    else:
        at = time.time() if now is None else now
        held = hold_back(ledger, gone=len(vanished), known=len(known), vault=vault, grace_s=grace_s, now=at)
    forgotten = set() if held else vanished
    applied = _apply_in_batches(ledger, reader, due, known, vanished=forgotten, progress=progress)
    if is_outdated:
        ledger.set_meta(_RULES_KEY, str(RULES))
    remember_root(ledger, vault)
    return ScanReport(
        files=len(files),
        read=reader.count,
        added=applied.added,
        changed=applied.changed,
        renamed=len(moves),
        removed=applied.removed,
        held=len(vanished) if held else 0,
        problems=tuple(ledger.problems()),
        seq=ledger.head_seq(),
        ms=round(1_000 * (time.monotonic() - started)),
    )


def _is_in(path: str, places: Sequence[str]) -> bool:
    """True if a path is one of these files or lies in one of these folders."""
    return any(path == place or path.startswith(place + "/") for place in places)


def _is_due(file: VaultFile, state: FileState | None) -> bool:
    return state is None or not state.settled or not same_stat(file, state)


def _refuse_emptied(vault: Path, ledger: Ledger) -> None:
    """An emptied folder is more often a disk that was not mounted than a person who gave up all notes."""
    count = ledger.record_count()
    if count or expects_notes(ledger):
        before = f"{count} records were" if count else "a ledger that was lost since had"
        raise VaultError(
            f"{vault}: no notes there any more, where {before} read before. Kept them all. "
            "Bring the folder back, or confirm that it is meant to be empty with `recall rebuild --confirm-empty`."
        )


def _apply_in_batches(
    ledger: Ledger,
    reader: _Reader,
    due: Sequence[VaultFile],
    known: Mapping[str, FileState],
    *,
    vanished: set[str],
    progress: Callable[[int, int], None] | None,
) -> Applied:
    """Read, parse and store; what waits for a file of a later batch goes into the last one."""
    applied = Applied()
    pending = {file.path for file in due} | vanished
    waiting: list[FileChange] = []
    done = 0
    for batch in _batches(due):
        changes = waiting + [
            change for file in batch if (change := reader.examine(file, known.get(file.path)))
        ]
        done += len(batch)
        pending -= {file.path for file in batch}
        now, waiting = _split(ledger, changes, pending) if done < len(due) or vanished else (changes, [])
        applied += ledger.apply(now, today=reader.today)
        if progress:
            progress(done, len(due))
        log.debug("scan batch files=%d stored=%d waiting=%d", len(batch), len(now), len(waiting))
    return applied + ledger.apply(waiting, vanished=vanished, today=reader.today)


def _split(
    ledger: Ledger, changes: Sequence[FileChange], pending: set[str]
) -> tuple[list[FileChange], list[FileChange]]:
    """Put off files that state an id which a file not looked at yet holds: it may have moved from there."""
    stated = {
        change.state.path: {draft.key for draft in change.drafts or () if draft.stated_id}
        for change in changes
    }
    holders = ledger.holders(set().union(*stated.values()))
    put_off: set[str] = set()
    while more := {
        path
        for path, ids in stated.items()
        if path not in put_off
        and any(holder != path and holder in pending | put_off for holder in map(holders.get, ids))
    }:
        put_off |= more
    now = [change for change in changes if change.state.path not in put_off]
    return now, [change for change in changes if change.state.path in put_off]


def _batches(files: Sequence[VaultFile]) -> Iterator[list[VaultFile]]:
    """Cut the work by number of files and by their bytes."""
    batch: list[VaultFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == BATCH_FILES or size + file.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


class _Reader:
    """Reads and parses single files."""

    def __init__(self, ledger: Ledger, *, today: dt.date, max_note_bytes: int, full: bool) -> None:
        self.today = today
        self.count = 0
        self._ledger = ledger
        self._max_note_bytes = max_note_bytes
        self._full = full
        self._started_ns = time.time_ns()

    def sha256_of(self, file: VaultFile) -> str | None:
        """Hash of a file's content now; None if it cannot be read."""
        try:
            return hashlib.sha256(read_note(file, max_bytes=self._max_note_bytes)).hexdigest()
        except NoteError:
            return None

    def examine(self, file: VaultFile, before: FileState | None) -> FileChange | None:
        """Look at one file.

        Returns:
            None if the ledger has nothing to learn from it.
        """
        try:
            data = read_note(file, max_bytes=self._max_note_bytes)
        except NoteError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None  # gone since the walk: the next scan sees that
            return self._unreadable(file, before, error)
        self.count += 1
        state = self._state(file, data)
        if before is not None and before.sha256 == state.sha256 and not self._full:
            return None if state == before else FileChange(state=state, drafts=None, problems=None)
        try:
            note = parse_note(file.path, data, max_bytes=self._max_note_bytes, today=self.today)
        except NoteError as error:
            return FileChange(state=state, drafts=None, problems=(_problem(error),))
        return FileChange(state=state, drafts=note.records, problems=note.problems)

    def _state(self, file: VaultFile, data: bytes) -> FileState:
        """The file as read; unsettled if it may have been written since without its time telling."""
        is_old = abs(self._started_ns - file.mtime_ns) >= SETTLE_NS
        is_whole = len(data) == min(file.size, self._max_note_bytes + 1)
        return FileState(
            path=file.path,
            size=file.size,
            mtime_ns=file.mtime_ns,
            sha256=hashlib.sha256(data).hexdigest(),
            settled=is_old and is_whole,
        )

    def _unreadable(self, file: VaultFile, before: FileState | None, error: NoteError) -> FileChange | None:
        """Report a file that cannot be opened, once; it is tried again at every scan."""
        state = FileState(path=file.path, size=file.size, mtime_ns=file.mtime_ns, sha256="", settled=False)
        if state == before and file.path in self._failing:
            return None
        return FileChange(state=state, drafts=None, problems=(_problem(error),))

    @cached_property
    def _failing(self) -> set[str]:
        return {problem.path for problem in self._ledger.problems() if problem.fatal}


def _problem(error: NoteError) -> Problem:
    return Problem(
        path=error.path,
        line=error.line,
        message=f"{error.problem}. Skipped this file, kept its last good version. {error.fix}",
        fatal=True,
    )
