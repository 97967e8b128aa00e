"""Pending: the newest records as text of their own, while the snapshot waits to be chosen anew.

Flow:  vault → records → ledger → window → snapshot → [pending] → answer → hook → digest
In:    the snapshot that stands, the window that waits.   Out: text to stand right after the snapshot.
Never: a record that the standing snapshot shows; a pending record that moves when another one comes.
Next:  worker/recall_worker/refresh.py decides when there is any (docs/decisions/0013-waiting-strides.md)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recall_worker.config import Budget
from recall_worker.records import Record, RecordId
from recall_worker.snapshot import Shown, Snapshot, render
from recall_worker.text import units

PENDING_HEADING: Final = "## New since then"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What came since the standing snapshot and is not in it.

    Attributes:
        text: A blank line, a heading, a line for each record; empty if there is none.
        shown: What the lines show, in their order, all of slot 3.
    """

    text: str = ""
    shown: tuple[Shown, ...] = ()


NOTHING_PENDING: Final = Pending()


def render_pending(
    standing: Snapshot, waiting: Sequence[RecordId], records: Sequence[Record], budget: Budget
) -> Pending:
    """Render what a waiting window would show and the standing snapshot does not.

    The lines are slot 3's own, with its limits and its order of cutting, in the order first seen: until more
    than N are pending, another one only appends.

    Args:
        standing: The snapshot that stays for now.
        waiting: The window it would have if nothing waited.
        records: All records of the scope, in any order.
        budget: Limits of the digest.
    """
    seen = {record.id: record.first_seen for record in records}
    stands = {shown.record_id for shown in standing.shown}
    said = {shown.text for shown in standing.shown}
    due = sorted((record_id for record_id in waiting if record_id not in stands), key=seen.__getitem__)
    lines = [
        shown for shown in render(records, due, budget).shown if shown.slot == 3 and shown.text not in said
    ]
    if not lines:
        return NOTHING_PENDING
    days = {record.id: record.date.isoformat() for record in records}
    rows = [f"- ({days[shown.record_id]}) {shown.text}" for shown in lines]
    return Pending(text="\n".join(["\n\n" + PENDING_HEADING, *rows]), shown=tuple(lines))


def fits_beside(pending: Pending, standing: Snapshot, budget: Budget) -> bool:
    """True if both can be sent together; slot 4 gives up its room for them, slots 1 to 3 none of theirs."""
    return standing.units + units(pending.text) <= budget.hard_units
