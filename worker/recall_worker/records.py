"""Records: the types that everything else passes around.

Flow:  vault → [records] → ledger → indexes → snapshot → hook → digest
Never: behaviour that touches disk, clock or network.
Next:  worker/recall_worker/vault.py makes them, ledger.py keeps them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

RecordId = NewType("RecordId", str)
PassageId = NewType("PassageId", int)

EVERYWHERE: Final = ""
"""Scope of the snapshot that holds no project's records; a project's scope is its name."""


class RecordType(StrEnum):
    """What a record is; only lessons can be prohibitions, the profile is never searched."""

    PROFILE = "profile"
    LESSON = "lesson"
    CONCLUSION = "conclusion"
    KNOWLEDGE = "knowledge"


RECENT_TYPES = (RecordType.LESSON, RecordType.CONCLUSION)
SEARCHED_TYPES = (RecordType.LESSON, RecordType.CONCLUSION, RecordType.KNOWLEDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageDraft:
    """A part of a record small enough to be searched and shown on its own.

    Attributes:
        ordinal: 0-based place in its record.
        title_path: Headings above it, outermost first, joined by " › "; empty where there are none.
        text: NFC, `\\n` newlines, no outer white space, never empty.
        line: 1-based line of the file where it starts.
    """

    ordinal: int
    title_path: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """A record as its file states it, before the ledger fills what the file leaves open.

    Attributes:
        key: `id:` of the front matter if given, else vault path, plus "#" and heading or item number in a split file.
        stated_id: True if `key` came from `id:`.
        type: What kind of record it is.
        high: True for a lesson with `priority: high`: a prohibition.
        date: Stated in the front matter or in the file's name; None if the day first seen shall stand in.
        project: Only recalled inside this project; None means everywhere.
        tags: In the order written, without "#", no repeats.
        title: The record's own heading or file title, may be empty.
        text: Whole body: NFC, `\\n`, private blocks left out, no outer white space.
        line: 1-based line of the file where the body starts.
        passages: At least one, in order; together they cover the text.
    """

    key: str
    stated_id: bool
    type: RecordType
    high: bool
    date: dt.date | None
    project: str | None
    tags: tuple[str, ...]
    title: str
    text: str
    line: int
    passages: tuple[PassageDraft, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as the ledger knows it.

    Attributes:
        id: Stable name; survives a rename of its file.
        date: Effective date: stated, else the day first seen.
        dated: True if the vault states the date.
        first_seen: Place in the order in which records were first seen, ascending, never reused.
        path: Vault-relative POSIX path of its file now.
        line: 1-based line of the file where the body starts.
    """

    id: RecordId
    type: RecordType
    high: bool
    date: dt.date
    dated: bool
    first_seen: int
    project: str | None
    tags: tuple[str, ...]
    title: str
    text: str
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage as the ledger knows it. Immutable: an edit makes a new passage with a new id.

    Attributes:
        id: Ascending, never reused.
        record_id: The record it belongs to.
        ordinal: 0-based place in its record.
        text_sha256: Hex digest of what the encoder reads (`title_path`, a newline, `text`); key of its vector.
    """

    id: PassageId
    record_id: RecordId
    ordinal: int
    title_path: str
    text: str
    text_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in the vault that a person should mend; shown by `recall status`.

    Attributes:
        path: Vault-relative POSIX path.
        line: 1-based, or None.
        message: What was wrong, what was done about it, what to do; a full sentence.
        fatal: True if the file was skipped, False if it was read with a sensible guess.
    """

    path: str
    line: int | None
    message: str
    fatal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One passage found for a prompt.

    Attributes:
        passage: The passage.
        record: The record it belongs to.
        score: Fused, higher is better.
        rank: 1-based.
    """

    passage: Passage
    record: Record
    score: float
    rank: int
