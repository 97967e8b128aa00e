"""Vault: the folder of Markdown notes on disk, walked and read but never written.

Flow:  [vault] → notes → records → ledger → indexes → snapshot → hook → digest
In:    a folder.   Out: the notes in it, sorted; the bytes of one; the records in those (`parse_note`).
Never: a link followed, a hidden file opened, one unreadable folder in the way of the others.
Next:  worker/recall_worker/notes.py
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recall_worker.errors import NoteError, VaultError
from recall_worker.notes import ParsedNote, parse_note
from recall_worker.records import Problem

__all__ = ["ParsedNote", "VaultFile", "parse_note", "read_note", "walk_vault"]

_ENDINGS: Final = (".md", ".markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultFile:
    """One note on disk.

    Attributes:
        path: Vault-relative POSIX path, NFC: its name everywhere else.
        size: In bytes.
        mtime_ns: Time of its last change, nanoseconds since the epoch.
        location: Absolute path as the disk spells it, which need not be NFC.
    """

    path: str
    size: int
    mtime_ns: int
    location: str


def walk_vault(root: Path, *, on_problem: Callable[[Problem], None] | None = None) -> list[VaultFile]:
    """List the notes of a vault: `*.md` and `*.markdown`, whatever the size of the letters.

    Hidden files and folders (`.obsidian`, `.trash`, `.git`) are left out. No link is followed: what it
    leads to inside the vault is found at its own place, and what lies outside is not the vault's. So no
    loop can catch the walk. The root itself may be a link.

    Args:
        root: The vault.
        on_problem: Gets what could not be listed. A fatal problem names a folder or file of which nothing
            is known now: it may well be unchanged, so it must not count as deleted. Not fatal is a link.

    Returns:
        The notes, sorted by path.

    Raises:
        VaultError: There is no such folder, or it cannot be read.
    """
    walk = _Walk(root, on_problem or (lambda problem: None))
    while walk.folders:
        walk.enter(*walk.folders.pop())
    return [walk.found[path] for path in sorted(walk.found)]


def read_note(file: VaultFile, *, max_bytes: int) -> bytes:
    """Read a note, but not more of it than is allowed, and nothing that took its place since the walk.

    Args:
        file: What the walk found.
        max_bytes: Of a larger file one byte more than this is read, by which `parse_note` knows it.

    Returns:
        Its bytes.

    Raises:
        NoteError: It cannot be opened or read, or is no ordinary file any more.
    """
    try:
        descriptor = os.open(file.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NoteError(
                    file.path, None, "it is no ordinary file any more", "Put a note in its place."
                )
            return stream.read(max_bytes + 1)
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror})"
        raise NoteError(
            file.path, None, problem, "Give the user that runs the worker the right to."
        ) from error


class _Walk:
    """A walk under way."""

    def __init__(self, root: Path, report: Callable[[Problem], None]) -> None:
        self.root = root
        self.report = report
        self.base = os.path.realpath(root)
        self.folders = [(self.base, "")]
        self.found: dict[str, VaultFile] = {}

    def enter(self, folder: str, prefix: str) -> None:
        """List one folder."""
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not prefix:
                raise VaultError(
                    f"{self.root}: the vault cannot be read ({error.strerror}). Kept what was read before. "
                    "Create that folder, or set `vault` to another one."
                ) from error
            self.unknown(prefix.removesuffix("/"), f"the folder cannot be read ({error.strerror})", _ALLOW)
            return
        for entry in listed:
            if entry.name.startswith("."):
                continue
            path = prefix + unicodedata.normalize("NFC", entry.name)
            try:
                self.take(entry, path)
            except FileNotFoundError:
                continue  # deleted under our eyes
            except OSError as error:
                self.unknown(path, f"it cannot be looked at ({error.strerror})", _ALLOW)

    def take(self, entry: os.DirEntry[str], path: str) -> None:
        """Sort one entry in: a note, a folder to enter, or neither."""
        is_note = path.lower().endswith(_ENDINGS)
        if entry.is_symlink():
            self.take_link(entry.path, path, is_note=is_note)
        elif not (is_folder := entry.is_dir(follow_symlinks=False)) and not is_note:
            return
        elif not _is_text(path):
            self.unknown(path, "its name is not UTF-8", "Rename it.")
        elif is_folder:
            self.folders.append((entry.path, path + "/"))
        elif path in self.found:
            self.unknown(
                path, "another note has this name, but for how its accents are stored", "Rename one."
            )
        elif stat.S_ISREG((status := entry.stat(follow_symlinks=False)).st_mode):
            self.found[path] = VaultFile(
                path=path, size=status.st_size, mtime_ns=status.st_mtime_ns, location=entry.path
            )

    def take_link(self, location: str, path: str, *, is_note: bool) -> None:
        """Tell of a link that a person may have counted on: to a note or folder outside, or to nothing."""
        target = os.path.realpath(location)
        inside = target == self.base or target.startswith(self.base.rstrip("/") + "/")
        if not inside and (is_note or Path(target).is_dir()):
            wrong, cure = (
                "a link out of the vault",
                "Move what it leads to into the vault, or remove the link.",
            )
        elif is_note and not Path(target).exists():
            wrong, cure = "a link to nothing", "Remove it."
        else:
            return
        message = f"This is {wrong}. Did not follow it. {cure}"
        self.report(Problem(path=_printable(path), line=None, message=message, fatal=False))

    def unknown(self, path: str, problem: str, cure: str) -> None:
        """Tell of a place about which nothing is known now."""
        message = f"{problem[0].upper()}{problem[1:]}. Skipped it, kept what was read before. {cure}"
        self.report(Problem(path=_printable(path), line=None, message=message, fatal=True))


_ALLOW: Final = "Give the user that runs the worker the right to read it."


def _is_text(path: str) -> bool:
    return path.isascii() or _printable(path) == path


def _printable(path: str) -> str:
    """The path with `\\x..` for bytes of the file system that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
