"""Publish: put snapshots where the hook finds them, and touch no file whose bytes would stay the same.

Flow:  vault → records → ledger → snapshot → [publish] → snapshots/*.snap → hook → digest
In:    rendered snapshots, the directories of projects.   Out: frames, a readable copy of each, `scopes`.
Never: a file that another process can see half written; a new inode or time for old bytes.
Next:  hook/recall_hook/main.py, docs/snapshot-format.md
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recall_worker.frames import SnapshotFrame, pack_snapshot, unpack_snapshot
from recall_worker.snapshot import Shown, Snapshot
from recall_worker.text import units

log = logging.getLogger(__name__)

EVERYWHERE_NAME: Final = "everywhere.snap"
SCOPES_NAME: Final = "scopes"
_SLUG_LETTERS: Final = 40
_OURS: Final = re.compile(r"project-[a-z0-9-]*[0-9a-f]{8}\.(?:snap|md)|\.[\w.-]+\.tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One scope's snapshot as it stands on disk, and how it came to be so.

    Attributes:
        snapshot: What the hook reads.
        sha256: Names it in requests and answers, 32 bytes.
        reason: Why it is as it is, in the words of `decisions.Decision`.
        written: True if the last round wrote it: its bytes differed from those before.
        pending: Records that wait for the window to be chosen anew (docs/decisions/0013-waiting-strides.md), as text
            to stand right after the snapshot: a blank line, a heading, a line for each. Empty most of the time.
        pending_shown: What `pending` shows, in its order, all of slot 3: slot 4 must not repeat it.
    """

    snapshot: Snapshot
    sha256: bytes
    reason: str
    written: bool
    pending: str = ""
    pending_shown: tuple[Shown, ...] = ()

    @property
    def units(self) -> int:
        """UTF-16 units of the snapshot and what is pending beside it."""
        return self.snapshot.units + units(self.pending)


def snapshot_name(project: str | None) -> str:
    """File name of a scope's snapshot.

    Args:
        project: Its name; None or empty for the scope of everywhere.

    Returns:
        `everywhere.snap`, or `project-<slug>-<8 hex>.snap`: the slug is for people, the digits keep apart
        names that differ only in letters a file name had better not hold.
    """
    if not project:
        return EVERYWHERE_NAME
    plain = unicodedata.normalize("NFKD", project).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[-_SLUG_LETTERS:].strip("-")
    digits = hashlib.sha256(os.fsencode(project)).hexdigest()[:8]
    return f"project-{slug or 'unnamed'}-{digits}.snap"


def write_snapshot(folder: Path, name: str, snapshot: Snapshot) -> bool:
    """Write a snapshot's frame, and beside it its text for people to read.

    Args:
        folder: `snapshots/` of the state; made if it is not there.
        name: As `snapshot_name` gives it.
        snapshot: What the hook shall print.

    Returns:
        True if the frame's bytes differed and were written.

    Raises:
        OSError: The disk is full or the folder cannot be written; the file before stays whole.
    """
    written = _replace(folder / name, pack_snapshot(snapshot.text))
    _replace((folder / name).with_suffix(".md"), f"{snapshot.text}\n".encode("utf-8", "replace"))
    if written:
        log.info("snapshot name=%s units=%d shown=%d", name, snapshot.units, len(snapshot.shown))
    return written


def read_snapshot(folder: Path, name: str) -> SnapshotFrame | None:
    """Read a published snapshot back, None if there is none.

    Raises:
        FrameError: The file is not what `write_snapshot` writes.
    """
    try:
        return unpack_snapshot((folder / name).read_bytes())
    except FileNotFoundError:
        return None


def write_scopes(folder: Path, scopes: Iterable[tuple[str | Path, str]]) -> bool:
    """Write which directory reads which snapshot, longest directory first.

    Args:
        folder: `snapshots/` of the state; made if it is not there.
        scopes: Absolute directory and snapshot file name. Of one directory named twice the first name counts;
            a directory with a tab or newline in its name cannot be listed and reads `everywhere.snap`.

    Returns:
        True if the bytes differed and were written.
    """
    names: dict[bytes, str] = {}
    for directory, name in scopes:
        path = os.fsencode(directory)
        path = path.rstrip(b"/") or b"/"
        if path.startswith(b"/") and not re.search(rb"[\t\n]", path):
            names.setdefault(path, name)
        else:
            log.warning("scope skipped reason=unlistable-directory name=%s", name)
    longest_first = sorted(names.items(), key=lambda item: (-len(item[0]), item[0]))
    return _replace(
        folder / SCOPES_NAME, b"".join(b"%s\t%s\n" % (path, name.encode()) for path, name in longest_first)
    )


def remove_other_snapshots(folder: Path, *, keep: Collection[str]) -> tuple[str, ...]:
    """Remove snapshots of projects that have no records left, and what an interrupted write left behind.

    Args:
        folder: `snapshots/` of the state.
        keep: File names of the snapshots that stay. Call this after `write_scopes`, so that no line of it
            names a file that is gone.

    Returns:
        Names of the files removed, sorted.
    """
    if not folder.is_dir():
        return ()
    removed = []
    for path in sorted(folder.iterdir()):
        if _OURS.fullmatch(path.name) and path.with_suffix(".snap").name not in keep:
            path.unlink(missing_ok=True)
            removed.append(path.name)
    return tuple(removed)


def _replace(path: Path, data: bytes) -> bool:
    """Give a file these bytes in one step that a crash cannot halve; False if it has them."""
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
