"""Window: which records slot 3 shows, so that between two strides a new one only appends.

Flow:  vault → records → ledger → [window] → snapshot → hook → digest
In:    the window so far and a scope's records.   Out: the window from now on, and why it moved.
Never: a clock; the order records are handed in; a record that stood in the window and moved within it.
Next:  worker/recall_worker/snapshot.py
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from recall_worker.config import Budget
from recall_worker.records import RECENT_TYPES, Record, RecordId
from recall_worker.text import units

RECENT_HEADING: Final = "## Latest lessons and conclusions"
MIN_LINE_UNITS: Final = 80  # a shorter line holds a date and little else
KEPT_WHEN_NARROW: Final = 3
_FRAME_UNITS: Final = 120  # the digest's first line and the other headings, rounded up

Reason = Literal["same", "append", "fill", "remove", "stride"]
Age = tuple[dt.date, int, RecordId]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRoom:
    """How slot 3 divides its room.

    Attributes:
        units: UTF-16 units for its lines, each with its newline; the heading is paid already.
        places: Most lines at once; each is sure of an equal share of `units`.
        n: Records it is chosen anew with.
        skipped: Records at the window's start that are not shown.
    """

    units: int
    places: int
    n: int
    skipped: int = 0

    @property
    def slot_units(self) -> int:
        """UTF-16 units of the whole slot when it is full: separator, heading, lines."""
        return self.units + _HEAD_UNITS

    def standing(self, window: Sequence[RecordId]) -> Sequence[RecordId]:
        """The part of a window that is shown; of a short one, the newest three whatever is skipped."""
        return window[min(self.skipped, max(0, len(window) - KEPT_WHEN_NARROW)) :][-self.places :]


_HEAD_UNITS: Final = units("\n\n" + RECENT_HEADING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What became of a window.

    Attributes:
        window: From now on, in the order shown.
        reason: `same`; `append`: newer records came; `fill`: it held fewer than N and older ones took the
            free places; `remove`: records went (others may have come too); `stride`: it was chosen anew.
        added: In the new window and not in the old one, in the new one's order.
        removed: In the old one and not in the new one, in the old one's order.
    """

    window: tuple[RecordId, ...]
    reason: Reason
    added: tuple[RecordId, ...]
    removed: tuple[RecordId, ...]


def age(record: Record) -> Age:
    """Sort key, oldest first; records of one day stand in the order first seen."""
    return record.date, record.first_seen, record.id


def recent_candidates(records: Sequence[Record]) -> dict[RecordId, Record]:
    """What slot 3 may show: lessons and conclusions, but for those that stand in slot 2."""
    return {record.id: record for record in records if record.type in RECENT_TYPES and not record.high}


def recent_room(budget: Budget) -> RecentRoom:
    """Divide slot 3's limit into `2N - 1` equal shares: as many lines as stand there before a stride.

    With a limit too small for that many lines of `MIN_LINE_UNITS`, there are fewer places and a smaller N.
    """
    most = budget.target_units - budget.relevant_reserved_units - _FRAME_UNITS
    room = max(0, min(budget.recent_units, most) - _HEAD_UNITS)
    places = max(1, min(2 * budget.recent_n - 1, room // (MIN_LINE_UNITS + 1)))
    return RecentRoom(units=room, places=places, n=min(budget.recent_n, (places + 1) // 2))


def narrow(room: RecentRoom) -> RecentRoom:
    """Slot 3 when prohibitions need its room: half of it, without the window's oldest `N - 3`.

    So its newest three are kept at the least, and a new record still only appends.
    """
    half = room.units // 2
    skipped = max(0, room.n - KEPT_WHEN_NARROW)
    places = max(1, min(room.places - skipped, half // (MIN_LINE_UNITS + 1)))
    return RecentRoom(units=half, places=places, n=room.n - skipped, skipped=skipped)


def advance(window: Sequence[RecordId], records: Sequence[Record], budget: Budget) -> Advance:
    """Move a window to what the records are now.

    Records newer than the window's oldest are appended in the order first seen; an edited one keeps its
    place; one that is gone, or has become a prohibition, leaves. While the window holds fewer than N, the
    newest of the older ones are appended too. Where it would outgrow its places it is chosen anew: the
    newest N by (date, first seen), oldest first.

    Args:
        window: Record ids in the order shown, as this function gave them last; empty at first.
        records: All records of the scope, in any order.
        budget: Limits of the digest.

    Returns:
        The window from now on.
    """
    candidates = recent_candidates(records)
    room = recent_room(budget)
    kept = [record_id for record_id in dict.fromkeys(window) if record_id in candidates]
    standing = set(kept)
    oldest = min((age(candidates[record_id]) for record_id in kept), default=None)
    others = sorted((record for record in candidates.values() if record.id not in standing), key=age)
    newer = [record for record in others if oldest is not None and age(record) > oldest]
    older = others[: len(others) - len(newer)]
    free = max(0, room.n - len(kept) - len(newer))
    filled = older[max(0, len(older) - free) :]
    moved = tuple(kept) + tuple(record.id for record in sorted(newer + filled, key=lambda r: r.first_seen))
    if not kept or len(moved) > room.places:
        moved = newest(records, budget)
        reason: Reason = "stride" if kept else "fill"
    else:
        reason = "fill" if filled else "append"
    return _explained(tuple(window), moved, reason)


def newest(records: Sequence[Record], budget: Budget) -> tuple[RecordId, ...]:
    """A window chosen anew: the newest N by (date, first seen), oldest first."""
    by_age = sorted(recent_candidates(records).values(), key=age)
    return tuple(record.id for record in by_age[-recent_room(budget).n :])


def stride(window: Sequence[RecordId], records: Sequence[Record], budget: Budget) -> Advance:
    """Choose a window anew before it must be."""
    return _explained(tuple(window), newest(records, budget), "stride")


def hold(window: Sequence[RecordId], records: Sequence[Record]) -> Advance:
    """Let a window stand though newer records are there; only what is gone leaves it."""
    candidates = recent_candidates(records)
    kept = tuple(record_id for record_id in dict.fromkeys(window) if record_id in candidates)
    return _explained(tuple(window), kept, "same")


def _explained(before: tuple[RecordId, ...], after: tuple[RecordId, ...], reason: Reason) -> Advance:
    """Name what came and went; a window that only lost records, or lost and gained, says so."""
    old, new = set(before), set(after)
    added = tuple(record_id for record_id in after if record_id not in old)
    removed = tuple(record_id for record_id in before if record_id not in new)
    if before == after:
        reason = "same"
    elif removed and reason != "stride":
        reason = "remove"
    return Advance(window=after, reason=reason, added=added, removed=removed)
