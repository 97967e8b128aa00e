"""Errors: what can go wrong, each with the exit code that a script can rely on.

    RecallError                1  anything else
    ├── UsageError             2  a flag or argument is off
    ├── ConfigError            3  recall.toml, an environment variable or a flag has a bad value
    ├── VaultError             4  the vault as a whole cannot be read
    │   └── NoteError          4  one file of it cannot be read: costs no other file
    ├── LedgerError            5  the SQLite ledger cannot be opened
    │   └── LedgerDamaged      5  it is damaged: the worker sets it aside and reads the vault anew
    ├── LexicalIndexError      6  the Whoosh index cannot be opened or is damaged
    ├── ModelError             7  the encoder is missing, damaged or does not load
    ├── WorkerError            8  the worker is not there or does not answer
    │   └── AlreadyRunning     9  a second worker on one state folder
    ├── FrameError            10  bytes that are not a frame of our formats
    ├── DatasetError          11  a BEIR folder for `recall eval` is incomplete or malformed
    └── SnapshotsDiffer       12  `recall verify` rendered something else than what is published

Each constructor takes facts and builds the message: where, what was wrong, what was done about it, what to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class RecallError(Exception):
    """Root of every error that Recall raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(RecallError):
    """A flag or argument is off."""

    exit_code = 2


class ConfigError(RecallError):
    """A setting has a bad value.

    Args:
        where: The file with its key, the variable or the flag that was read.
        wanted: What the setting accepts.
        got: What it was given.
    """

    exit_code = 3

    def __init__(self, where: str, *, wanted: str, got: object) -> None:
        super().__init__(
            f"{where}: wanted {wanted}, got {got!r}. Nothing was changed. Correct it there and try again."
        )


class VaultError(RecallError):
    """The vault as a whole cannot be read."""

    exit_code = 4


class NoteError(VaultError):
    """One file of the vault cannot be read; it costs no other file.

    Args:
        path: Vault-relative POSIX path.
        line: 1-based line, or None where the fault has no line.
        problem: What was wrong, in a few words.
        fix: What the person can do.
    """

    def __init__(self, path: str, line: int | None, problem: str, fix: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        self.fix = fix
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {problem}. Skipped this file, kept its last good version. {fix}")


class LedgerError(RecallError):
    """The SQLite ledger cannot be opened or is damaged."""

    exit_code = 5


class LedgerDamaged(LedgerError):  # noqa: N818 - the state of a file, as SnapshotsDiffer
    """The SQLite ledger is damaged.

    Args:
        path: The ledger.
        detail: What was found, in SQLite's words.
    """

    def __init__(self, path: Path, detail: str) -> None:
        self.path = path
        self.detail = detail
        super().__init__(
            f"{path}: the ledger is damaged ({detail}). Nothing was changed. Run `recall start` or "
            "`recall rebuild`: either sets the file aside and reads the vault anew."
        )


class LexicalIndexError(RecallError):
    """The Whoosh index cannot be opened or is damaged."""

    exit_code = 6


class ModelError(RecallError):
    """The encoder is missing, damaged or does not load."""

    exit_code = 7


class WorkerError(RecallError):
    """The worker is not there or does not answer."""

    exit_code = 8


class AlreadyRunning(WorkerError):  # noqa: N818 - the state of the world, not a fault
    """A second worker or rebuild was started on one state folder.

    Args:
        state: The state folder whose lock is held.
        holder: Who holds it, in words.
    """

    exit_code = 9

    def __init__(self, state: Path, holder: str) -> None:
        super().__init__(
            f"{state}: in use already by {holder}. `recall stop` ends a worker; wait for a rebuild."
        )


class FrameError(RecallError):
    """Bytes that are not a frame of our formats."""

    exit_code = 10


class DatasetError(RecallError):
    """A BEIR folder is incomplete or malformed.

    Args:
        path: The file.
        line: 1-based line, or None.
        problem: What was wrong.
    """

    exit_code = 11

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(
            f"{place}: {problem}. Wanted corpus.jsonl, queries.jsonl and qrels.tsv in BEIR layout."
        )


class SnapshotsDiffer(RecallError):  # noqa: N818 - a verdict, not a fault of the program
    """A rendering is not, byte for byte, what is published.

    Args:
        place: File, line and column where they part first.
        environment: What surrounded the rendering, in words.
        count: Renderings that differ.
    """

    exit_code = 12

    def __init__(self, place: str, environment: str, count: int) -> None:
        super().__init__(
            f"{place}: differs in {environment}. Renderings that differ: {count}. Nothing was changed. If settings, "
            "Recall or a note's future date came in between, `recall rebuild` publishes anew; if it differs again, "
            "please report it."
        )
