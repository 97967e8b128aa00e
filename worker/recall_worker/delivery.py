"""Delivery: how slots 1 to 3 reach a prompt: by the hook's own copy, from here, in part, or not again.

Flow:  publish, sessions → [delivery] → answer → hook
In:    what is published, what the hook holds, what the session has.   Out: mode, text, what slot 4 must not repeat.
Never: part of a snapshot to a session that was told something which no longer stands: it gets all of it again.
Next:  worker/recall_worker/answer.py, docs/decisions/0012-once-per-session.md
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from recall_worker.frames import NO_SHA256, Mode
from recall_worker.ledger import Ledger
from recall_worker.ledger_types import ShownLike
from recall_worker.publish import Published
from recall_worker.sessions import Session, edition_token
from recall_worker.snapshot import FIRST_LINE
from recall_worker.text import escape_json, units

log = logging.getLogger(__name__)

_HEADING: Final = "## "


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How slots 1 to 3 reach the prompt, and what slot 4 must not repeat.

    Attributes:
        mode: What the hook prints.
        prefix: What the worker sends ahead of slot 4: of the snapshot, and of what is pending beside it.
        shown: What the session then knows of slots 1 to 3; None if the hook holds a snapshot that nobody remembers.
        units: UTF-16 units of slots 1 to 3 in this turn, pending records and the hook's own part included.
        pending_units: Of these, the ones of pending records beside a whole snapshot.
        offset: Mode 3: where the hook begins in its copy, bytes.
        whole: The snapshot is sent from its first line on.
        sha256: The snapshot that the session then has; None if it cannot be told.
        lines: Tokens of lines sent beside the whole snapshot, or in its place.
    """

    mode: Mode
    prefix: str
    shown: Sequence[ShownLike] | None
    units: int
    pending_units: int = 0
    offset: int = 0
    whole: bool = True
    sha256: bytes | None = None
    lines: tuple[str, ...] = ()


def plan_whole(
    current: Published | None, held: bytes, *, ledger: Ledger, on_other: Callable[[], None]
) -> Plan:
    """Let the hook print the snapshot it holds if it is the right one, else send the right one.

    A hook holds another if its directory was not known to belong to a project yet, if it read the file just
    before it changed, or if there was none. One that nobody here ever published is not ours to replace.

    Args:
        current: What the prompt's scope has; None if it has nothing.
        held: SHA-256 of the hook's snapshot, zeros if it has none.
        on_other: Called if the hook holds another one that we know, or none.
    """
    if current is not None and held == current.sha256:
        return _with_pending(current, mode=Mode.SNAPSHOT_AND_PAYLOAD)
    if held != NO_SHA256 and not ledger.manifests(held):
        log.warning("snapshot unknown sha256=%s: no slot 4 beside it", held.hex()[:12])
        return Plan(mode=Mode.SNAPSHOT_AND_PAYLOAD, prefix="", shown=None, units=0)
    on_other()
    if current is None:
        return Plan(mode=Mode.PAYLOAD, prefix="", shown=(), units=0)
    return _with_pending(current, mode=Mode.PAYLOAD)


def plan_news(
    current: Published | None, held: bytes, session: Session, *, ledger: Ledger, remind_every: int
) -> Plan | None:
    """Send a session only what is new since its last turn.

    Args:
        current: What the prompt's scope has.
        held: SHA-256 of the hook's snapshot, zeros if it has none.
        session: As it is in this turn.
        remind_every: Turns after which everything is sent again.

    Returns:
        None if it must be sent whole: it has none, it was told too long ago, or what it was told no longer stands.
    """
    # Not the one that this scope was sent last: another scope may have said since what does not stand any more.
    sent = next(reversed(session.sent.values()), None)
    if current is None or sent is None or session.turn - sent.turn >= remind_every:
        return None
    text, shown = current.snapshot.text, (*current.snapshot.shown, *current.pending_shown)
    if sent.sha256 != current.sha256:
        before = next(iter(ledger.manifests(sent.sha256).values()), None)
        if before is None or not before.text:
            return None
        grown = text.startswith(f"{before.text}\n")
        if grown and held == current.sha256 and not current.pending:
            return Plan(
                mode=Mode.APPENDED_AND_PAYLOAD,
                prefix="",
                shown=shown,
                units=units(text[len(before.text) :]),
                offset=len(escape_json(before.text)),
                whole=False,
                sha256=current.sha256,
            )
        if _still_told(current, session, before.text):
            news: list[str] | None = []
        else:
            news = added_lines(before.text, text)
        if news is None:
            return None
    else:
        news = []
    news += _lines_with_headings(current.pending)
    fresh = _without(news, lambda line: session.has(_line_token(line, shown), within=remind_every))
    prefix = "\n".join([FIRST_LINE, *fresh]) if fresh else ""
    return Plan(
        mode=Mode.PAYLOAD,
        prefix=prefix,
        shown=shown,
        units=units(prefix),
        whole=False,
        sha256=current.sha256,
        lines=tuple(_line_token(line, shown) for line in fresh if not _is_frame(line)),
    )


def _still_told(current: Published, session: Session, last: str) -> bool:
    """Back in a scope that has not changed, from one whose snapshot says all of it: nothing speaks against it."""
    known = any(sent.sha256 == current.sha256 for sent in session.sent.values())
    return known and added_lines(current.snapshot.text, last) is not None


def added_lines(before: str, now: str) -> list[str] | None:
    """What a snapshot says that an earlier one did not, each section's lines under its heading.

    Returns:
        None if a line of the earlier one is gone or moved: something that was said no longer stands.
    """
    told = before.split("\n")
    at = 0
    added: list[str] = []
    heading = ""
    for line in now.split("\n"):
        if line.startswith(_HEADING):
            heading = line
        if at < len(told) and line == told[at]:
            at += 1
        elif not _is_frame(line):
            if heading:
                added += ["", heading]
                heading = ""
            added.append(line)
    return added if at == len(told) else None


def _with_pending(current: Published, *, mode: Mode) -> Plan:
    """The whole snapshot, sent or held, and behind it what is pending."""
    snapshot = current.snapshot
    return Plan(
        mode=mode,
        prefix=(snapshot.text if mode is Mode.PAYLOAD else "") + current.pending,
        shown=(*snapshot.shown, *current.pending_shown),
        units=current.units,
        pending_units=current.units - snapshot.units,
        sha256=current.sha256,
        lines=tuple(
            _line_token(line, current.pending_shown)
            for line in current.pending.split("\n")
            if not _is_frame(line)
        ),
    )


def _line_token(line: str, shown: Sequence[ShownLike]) -> str:
    """Names a line as its record's word; one that no record shows stands for itself."""
    said = line.partition(") ")[2]
    place = next((item.record_id for item in shown if said and item.text == said), line)
    return edition_token(f"line {place}", line, line)


def _lines_with_headings(text: str) -> list[str]:
    """Lines of a text that begins with a blank line."""
    return text.split("\n")[1:] if text else []


def _without(lines: Sequence[str], known: Callable[[str], bool]) -> list[str]:
    """The lines that are not known, without headings that have none left."""
    kept: list[str] = []
    frame: list[str] = []
    for line in lines:
        if _is_frame(line):
            frame = [*frame, line] if not line.startswith(_HEADING) or not any(frame) else ["", line]
        elif not known(line):
            kept += [*frame, line]
            frame = []
    return kept


def _is_frame(line: str) -> bool:
    """A heading or a blank line: it says nothing by itself."""
    return not line or line.startswith(_HEADING)


def after_turn(session: Session, scope: str, plan: Plan, passages: Sequence[str]) -> Session:
    """What a session has when a turn's plan was carried out.

    Args:
        passages: Tokens of the passages that slot 4 shows.
    """
    noted = session.with_received([*plan.lines, *passages])
    if plan.sha256 is None:
        return noted
    return noted.with_snapshot(scope, plan.sha256, whole=plan.whole)
