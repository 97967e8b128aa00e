"""Decisions: why each snapshot was published as it was, kept so that `recall status` can tell.

Flow:  refresh → [decisions] → ledger → status
In:    what was published before and what is now.   Out: a reason in a few fixed words; the last decisions; since
       when a stride has been waiting.
Never: a record's text.
Next:  worker/recall_worker/status.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from recall_worker.ledger import Ledger
from recall_worker.ledger_types import Manifest, ShownLike
from recall_worker.snapshot import Snapshot
from recall_worker.window import RECENT_HEADING, Advance

KEPT: Final = 20
_META_KEY: Final = "publishing"

FIRST: Final = "first"
UNCHANGED: Final = "unchanged"
WAITS: Final = "stride waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one round decided for one scope.

    Attributes:
        at: Seconds since the epoch.
        scope: A project's name, empty for everywhere.
        reason: Some of `first`, `profile`, `prohibition`, `appended`, `edited`, `removed`, `stride` and
            `stride waits`, joined by ", "; or `unchanged`.
        written: True if the snapshot's file was written.
        until: Seconds since the epoch until which the stride waits at most; None if none waits.
    """

    at: float
    scope: str
    reason: str
    written: bool
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingLog:
    """What the ledger keeps about publishing.

    Attributes:
        waiting: Scope to the time since when its stride has been waiting, seconds since the epoch.
        decisions: The last ones, oldest first.
    """

    waiting: Mapping[str, float]
    decisions: tuple[Decision, ...]


def opening(text: str) -> str:
    """The part of a snapshot's text that stands before slot 3."""
    return text.rpartition(f"\n\n{RECENT_HEADING}\n")[0] or text


def explain(before: Manifest | None, after: Snapshot, step: Advance) -> str:
    """Say in fixed words how a snapshot differs from the one before it.

    Args:
        before: What the scope published last; None if nothing.
        after: What it publishes now.
        step: What its window did.
    """
    if before is None:
        return FIRST
    if before.text == after.text:
        return UNCHANGED
    old, new = _texts(before.shown), _texts(after.shown)
    words = [word for slot, word in ((1, "profile"), (2, "prohibition")) if old[slot] != new[slot]]
    if step.reason == "stride":
        words.append("stride")
    elif after.text.startswith(before.text):
        words.append("appended")
    elif old[3] != new[3] or not words:
        came, went = new[3].keys() - old[3].keys(), old[3].keys() - new[3].keys()
        both = old[3].keys() & new[3].keys()
        words += ["removed"] * bool(went)
        words += ["edited"] * (any(old[3][name] != new[3][name] for name in both) or not (came or went))
        words += ["appended"] * bool(came)
    return ", ".join(words)


def read_log(ledger: Ledger) -> PublishingLog:
    """What the ledger keeps; empty if nothing was published yet."""
    kept = json.loads(ledger.get_meta(_META_KEY) or "{}")
    return PublishingLog(
        waiting=dict(kept.get("waiting", {})),
        decisions=tuple(Decision(**item) for item in kept.get("decisions", ())),
    )


def write_log(ledger: Ledger, log: PublishingLog) -> None:
    """Keep this in place of what the ledger has, if it differs."""
    if log != read_log(ledger):
        kept = {"waiting": dict(log.waiting), "decisions": [asdict(item) for item in log.decisions]}
        ledger.set_meta(_META_KEY, json.dumps(kept, ensure_ascii=False))


def remember(past: Sequence[Decision], round_: Iterable[Decision]) -> tuple[Decision, ...]:
    """Add a round's decisions to the past ones.

    Scopes that stayed as they were are passed over; a round in which all did is one line, and a run of such
    rounds the line of its last.
    """
    decided = list(round_)
    telling = [item for item in decided if item.reason != UNCHANGED or item.written]
    if telling:
        return (*past, *telling)[-KEPT:]
    if not decided:
        return tuple(past)
    rest = past[:-1] if past and past[-1].reason == UNCHANGED and not past[-1].written else past
    return (*rest, replace(decided[0], scope="", until=None))[-KEPT:]


def _texts(shown: Iterable[ShownLike]) -> dict[int, dict[str, str]]:
    """Slot to record id to what is shown of it, in order."""
    found: dict[int, dict[str, str]] = {1: {}, 2: {}, 3: {}}
    for item in shown:
        found[item.slot][item.record_id] = item.text
    return found
