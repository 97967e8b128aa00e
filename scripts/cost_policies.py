"""Cost policies: what the worker's own policies send in a conversation.

Flow:  cost sessions → [policies: delivery.py, blocks.py] → bench cost
In:    turns with their snapshot and hits.   Out: text for each turn.
Never: a policy written down a second time: the worker's own functions decide.
Next:  worker/recall_worker/delivery.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recall_worker.answer import passage_token
from recall_worker.blocks import split_digest
from recall_worker.delivery import Plan, after_turn, plan_news, plan_whole
from recall_worker.frames import Mode, pack_snapshot, unpack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.publish import Published
from recall_worker.records import EVERYWHERE
from recall_worker.sessions import Session
from recall_worker.snapshot import Snapshot
from recall_worker.text import escape_json

if TYPE_CHECKING:
    from cost_sessions import Turn


def once_per_session(turns: Sequence[Turn], *, ledger: Ledger, remind_every: int) -> list[str]:
    """What a hook prints in each turn under the policy of that name.

    Args:
        ledger: Where snapshots are remembered, as the worker remembers those that it published.
        remind_every: As in the config.
    """
    session, printed = Session(), list[str]()
    for turn in turns:
        session = session.next_turn()
        current = publish(turn.snapshot, ledger)
        plan = plan_news(
            current, current.sha256, session, ledger=ledger, remind_every=remind_every
        ) or plan_whole(current, current.sha256, ledger=ledger, on_other=lambda: None)
        fresh = [hit for hit in turn.hits if not session.has(passage_token(hit), within=remind_every)]
        relevant = turn.relevant(fresh, shown=plan.shown or (), shown_units=plan.units)
        tokens = [passage_token(fate.hit) for fate in relevant.fates if fate.verdict == "shown"]
        printed.append(_held_part(plan, turn.snapshot) + plan.prefix + relevant.text)
        session = after_turn(session, EVERYWHERE, plan, tokens)
    return printed


def kept_blocks(turns: Sequence[Turn], relevant: Sequence[str]) -> list[str]:
    """What stands ahead of each prompt when the first turn's blocks are kept, as docs/caching.md shows it."""
    held = split_digest(turns[0].snapshot)
    said = list[str]()
    for turn, close in zip(turns, relevant, strict=True):
        now = split_digest(turn.snapshot)
        said.append(now.since(held) + close)
        held = now
    return said


def publish(snapshot: Snapshot, ledger: Ledger) -> Published:
    """Remember a snapshot as the worker does before it writes the file."""
    sha256 = unpack_snapshot(pack_snapshot(snapshot.text)).sha256
    ledger.remember_manifest(EVERYWHERE, sha256, text=snapshot.text, shown=snapshot.shown)
    return Published(snapshot=snapshot, sha256=sha256, reason="", written=True)


def _held_part(plan: Plan, snapshot: Snapshot) -> str:
    """What the hook takes from its own copy."""
    payload = escape_json(snapshot.text)
    kept = {Mode.SNAPSHOT_AND_PAYLOAD: payload, Mode.APPENDED_AND_PAYLOAD: payload[plan.offset :]}
    text: str = json.loads(b'"' + kept.get(plan.mode, b"") + b'"')
    return text
