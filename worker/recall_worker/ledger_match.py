"""Ledger match: which record of yesterday is which record of today.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    records known in some files, drafts parsed from these files now.   Out: pairs.
Never: a guess that depends on the order of the input's sets, or on anything but the two sides.
Next:  worker/recall_worker/ledger_apply.py

The steps, each for what the one before left over:

1. A note of a stated `id:`, in the same file; then in any file.
2. Within a file: the same heading and text; the same text (an item that moved, a heading that was reworded).
3. Within a file: the same heading (its text was edited).
4. Within a file: as many unknown records as there are missing ones between the same two neighbours, in order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from recall_worker.records import RecordDraft, RecordId

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRecord:
    """A record as the ledger holds it.

    Attributes:
        first_seen: Its primary key.
        stated_id: The `id:` of its note, or None.
        key: What tells it from other records of its note: "" for a whole note, "#Heading".
        place: 0-based place among the records of its file.
        stated_date: ISO date the vault states, or None.
        tags: JSON, as stored.
    """

    first_seen: int
    id: RecordId
    stated_id: str | None
    key: str
    path: str
    place: int
    type: str
    high: bool
    stated_date: str | None
    first_day: str
    project: str | None
    tags: str
    title: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDraft:
    """A draft with the file it stands in and its 0-based place there."""

    path: str
    place: int
    draft: RecordDraft

    @property
    def stated_id(self) -> str | None:
        """The `id:` of its note, or None."""
        return self.draft.key.partition("#")[0] if self.draft.stated_id else None

    @property
    def key(self) -> str:
        """What tells it from other records of its note."""
        return self.draft.key.removeprefix(self.stated_id or self.path)

    @property
    def text(self) -> str:
        """Its whole body."""
        return self.draft.text


def pair_records(known: Sequence[KnownRecord], drafts: Sequence[PlacedDraft]) -> list[KnownRecord | None]:
    """Find the known record of each draft.

    Args:
        known: Records of the files that the drafts come from and of files that vanished, by (path, place).
        drafts: By (path, place).

    Returns:
        One entry for each draft, None where the record is new. No record stands twice.
    """
    if not known:
        return [None] * len(drafts)
    pairing = _Pairing(known, drafts)
    pairing.by(lambda item: (item.path, item.stated_id) if _is_named(item) else None)
    pairing.by(lambda item: item.stated_id if _is_named(item) else None)
    pairing.by(lambda item: (item.path, item.key, item.text))
    pairing.by(lambda item: (item.path, item.text))
    pairing.by(lambda item: (item.path, item.stated_id, item.key))
    pairing.by_neighbours()
    return pairing.partners


def _is_named(item: KnownRecord | PlacedDraft) -> bool:
    """True if a stated `id:` is the record's own: it is a whole note."""
    return item.stated_id is not None and not item.key


class _Pairing:
    """Pairs found so far, and the steps that find more."""

    def __init__(self, known: Sequence[KnownRecord], drafts: Sequence[PlacedDraft]) -> None:
        self._known = known
        self._drafts = drafts
        self._taken: set[int] = set()
        self.partners: list[KnownRecord | None] = [None] * len(drafts)

    def by(self, likeness: Callable[[KnownRecord | PlacedDraft], Hashable | None]) -> None:
        """Pair what is alike, in order; None is like nothing."""
        waiting: defaultdict[Hashable, deque[KnownRecord]] = defaultdict(deque)
        for old in self._known:
            if old.first_seen not in self._taken and (mark := likeness(old)) is not None:
                waiting[mark].append(old)
        for index, new in enumerate(self._drafts):
            if self.partners[index] is None and (olds := waiting.get(likeness(new))):
                self._pair(index, olds.popleft())

    def by_neighbours(self) -> None:
        """Pair the gaps of each file that have the same neighbours and the same length on both sides."""
        known = _by_path(self._known, lambda old: old.path)
        drafts = _by_path(range(len(self._drafts)), lambda index: self._drafts[index].path)
        for path, indexes in drafts.items():
            missing = _gaps(known.get(path, ()), self._anchor_of)
            for ends, members in _gaps(indexes, self._partner_of).items():
                olds = missing.get(ends, [])
                if len(olds) == len(members):
                    for index, old in zip(members, olds, strict=True):
                        stated = {self._drafts[index].stated_id, old.stated_id} - {None}
                        if len(stated) < 2:  # two `id:`s are two records
                            self._pair(index, old)

    def _anchor_of(self, old: KnownRecord) -> int | None:
        return old.first_seen if old.first_seen in self._taken else None

    def _partner_of(self, index: int) -> int | None:
        partner = self.partners[index]
        return partner.first_seen if partner else None

    def _pair(self, index: int, old: KnownRecord) -> None:
        self.partners[index] = old
        self._taken.add(old.first_seen)


def _gaps(
    members: Sequence[K], anchor_of: Callable[[K], int | None]
) -> dict[tuple[int | None, int | None], list[K]]:
    """Runs of members without an anchor, by the anchors around them; None stands for the file's ends."""
    gaps: dict[tuple[int | None, int | None], list[K]] = {}
    left: int | None = None
    run: list[K] = []
    for member in members:
        anchor = anchor_of(member)
        if anchor is None:
            run.append(member)
            continue
        gaps[left, anchor] = run
        left, run = anchor, []
    gaps[left, None] = run
    return gaps


def _by_path(items: Iterable[K], path_of: Callable[[K], str]) -> dict[str, list[K]]:
    found: defaultdict[str, list[K]] = defaultdict(list)
    for item in items:
        found[path_of(item)].append(item)
    return found
