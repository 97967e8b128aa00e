"""Ledger types: what goes into the ledger and what comes out of it.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
Never: SQL.
Next:  worker/recall_worker/ledger.py
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recall_worker.records import Passage, PassageId, Problem, RecordDraft, RecordId


class Kind(IntEnum):
    """What a row of the change log says of its passage."""

    REMOVED = -1
    TOUCHED = 0
    ADDED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file of the vault as it was when last read.

    Attributes:
        path: Vault-relative POSIX path.
        size: Bytes.
        mtime_ns: Time of last change, nanoseconds.
        sha256: Hex digest of its content; empty if it could not be read.
        settled: False if size and time do not suffice to tell whether it changes: read it again next time.
    """

    path: str
    size: int
    mtime_ns: int
    sha256: str
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What one scan found in one file.

    Attributes:
        state: The file now.
        drafts: Its records; None keeps those that the ledger has: nothing new, or nothing that can be read.
        problems: What is wrong with it; None keeps those that the ledger has.
    """

    state: FileState
    drafts: tuple[RecordDraft, ...] | None
    problems: tuple[Problem, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Records that a batch added, changed and removed."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __add__(self, other: Applied) -> Applied:
        """Sum of two batches."""
        return Applied(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            removed=self.removed + other.removed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What happened after a position of the change log. Replaying it twice does no harm.

    Attributes:
        added: Passages that came and are still there, ascending by id.
        removed: Passages that are gone, ascending; may name some that the follower never saw.
        touched: Passages that stayed while their ordinal or another fact of their record changed.
        seq: Position to go on from.
    """

    added: list[Passage]
    removed: list[PassageId]
    touched: list[PassageId]
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageFacts:
    """Live passages as columns, each of length n_passages, ascending by passage id; all of one commit.

    Attributes:
        ids: Passage ids, int64.
        record_ids: Record of each passage.
        ordinals: Place in the record, int32.
        types: Record type, as text.
        projects: Project, None for everywhere.
        dates: Effective date of the record as a proleptic ordinal, int32.
        text_sha256s: Key of each passage's vector.
        seq: Position of the change log that the columns stand for.
    """

    ids: NDArray[np.int64]
    record_ids: list[RecordId]
    ordinals: NDArray[np.int32]
    types: list[str]
    projects: list[str | None]
    dates: NDArray[np.int32]
    text_sha256s: list[str]
    seq: int


class ShownLike(Protocol):
    """One record as a snapshot shows it; the snapshot's own type has these attributes."""

    @property
    def record_id(self) -> RecordId:
        """The record."""

    @property
    def slot(self) -> int:
        """1 profile, 2 prohibitions, 3 recent."""

    @property
    def text(self) -> str:
        """The text as shown, unescaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """One record as a snapshot showed it: `ShownLike`, as the ledger remembers it."""

    record_id: RecordId
    slot: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot said that a hook may still hold.

    Attributes:
        text: The whole snapshot, unescaped.
        shown: Its records, in order.
    """

    text: str
    shown: tuple[ShownRecord, ...]


def passage_input(title_path: str, text: str) -> str:
    """What the encoder reads of a passage: its title path, a newline, its text."""
    return f"{title_path}\n{text}"


def sha256_hex(text: str) -> str:
    """Hex digest of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()
