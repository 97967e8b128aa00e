"""Verify copies: a ledger and a vault to render from, so that nothing the person uses is touched.

Flow:  state folder and vault → [copies] → verify_child
In:    the config.   Out: a copy of the ledger with what was published from it; copies of the vault.
Never: a write outside the folder given for it.
Next:  worker/recall_worker/verify_child.py
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random
from typing import Final

from recall_worker.config import Config
from recall_worker.errors import NoteError, VaultError
from recall_worker.ledger import Ledger
from recall_worker.publish import snapshot_name
from recall_worker.records import EVERYWHERE
from recall_worker.vault import VaultFile, read_note, walk_vault
from recall_worker.verify_child import Order

ATTEMPTS: Final = 5
"""Times that a ledger is copied again because the worker published meanwhile."""


def take_copy(config: Config, path: Path) -> tuple[dict[str, bytes], int]:
    """Copy the ledger, and read what was published from it.

    Returns:
        Scope to the bytes of its file, empty where there is none; files of the vault that the ledger has not read.
    """
    with Ledger.open(config.state_dir / "ledger.sqlite3", verify=False) as ledger:
        for _ in range(ATTEMPTS):
            scopes = [EVERYWHERE, *ledger.project_names()]
            published = {scope: _read(config, scope) for scope in scopes}
            path.unlink(missing_ok=True)
            ledger.copy_to(path)
            if published == {scope: _read(config, scope) for scope in scopes}:
                break
        with Ledger.open(path, verify=False) as copy:
            return published, _count_unread(config, copy)


def _read(config: Config, scope: str) -> bytes:
    try:
        return (config.state_dir / "snapshots" / snapshot_name(scope)).read_bytes()
    except OSError:
        return b""


def _count_unread(config: Config, ledger: Ledger) -> int:
    """Notes on disk that are not, byte for byte, what the ledger read; those it cannot read count as read."""
    known = ledger.files()
    found = {file.path: file for file in _walk(config)}
    unread = len(known.keys() ^ found.keys())
    for path in known.keys() & found.keys():
        data = _note(found[path], config.max_note_bytes)
        unread += known[path].sha256 not in ("", hashlib.sha256(data or b"").hexdigest())
    return unread


def copy_vault(config: Config, target: Path, *, order: Order, seed: int) -> None:
    """Copy the notes of a vault in some order, so that the copy has other inodes, times and directory order.

    A note that cannot be read is there as one that cannot be read.
    """
    files = _walk(config)
    if order == "reversed":
        files.reverse()
    elif order == "shuffled":
        Random(seed).shuffle(files)
    target.mkdir()
    for number, file in enumerate(files):
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        decoy = path.parent / f"{number}.decoy"  # takes the inode and directory entry the copy would have had
        if number % 3 == seed % 3:
            decoy.touch()
        data = _note(file, config.max_note_bytes)
        path.write_bytes(data or b"")
        if data is None:
            path.chmod(0)
        decoy.unlink(missing_ok=True)


def _walk(config: Config) -> list[VaultFile]:
    try:
        return walk_vault(config.vault)
    except VaultError:
        return []


def _note(file: VaultFile, max_bytes: int) -> bytes | None:
    """A note's bytes as a scan would read them; None if it cannot."""
    try:
        return read_note(file, max_bytes=max_bytes)
    except NoteError:
        return None
