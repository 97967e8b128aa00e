"""Snapshot: render slots 1 to 3, the part of the digest that is the same at every prompt.

Flow:  vault → records → ledger → window → [snapshot] → publish → hook → digest
In:    a scope's records, the window, the limits.   Out: text, equal for equal input, and what it shows.
Never: clock, host, locale, hash seed, the order records are handed in; a size that depends on how full slot 3
       is, since then each new lesson would move the bytes before it (docs/decisions/0008-budget.md).
Next:  worker/recall_worker/publish.py
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

import regex
from rapidfuzz import fuzz

from recall_worker.config import Budget
from recall_worker.records import Record, RecordId, RecordType
from recall_worker.text import close_fence, cut, neutralise, one_line, units
from recall_worker.window import RECENT_HEADING, RecentRoom, age, narrow, recent_candidates, recent_room

FIRST_LINE: Final = "Recall: notes the user keeps, for context."
PROFILE_HEADING: Final = "## About the user"
RULES_HEADING: Final = "## Rules the user never wants broken"
LEFT_OUT_LINE: Final = "+{} more prohibitions did not fit: run `recall status`"

SAME_PERCENT: Final = 95.0  # rapidfuzz percent from which two records say the same
_COMPARED: Final = 1_000  # characters of a record; a longer look would cost more than it tells
_REMEMBERED: Final = 1_024  # results for records, since most of them are the same at each publication
_TELLING: Final = 24  # characters; two titles may well have a shorter text in common
_TITLE_UNITS: Final = 80
_MIN_PROFILE_UNITS: Final = 40  # less says nothing
_DATE_UNITS: Final = units("- (2026-11-02) ")
_MIN_LINE_UNITS: Final = _DATE_UNITS + 9  # the date and a word
_cut: Final = lru_cache(_REMEMBERED)(cut)
_HEADING_LINE: Final = regex.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*(?:\n|$)")
_SOUND: Final = regex.compile(r"[^\p{L}\p{M}\p{N}]+")
_LETTER: Final = regex.compile(r"\p{L}")
_NUMBERS: Final = regex.compile(r"\p{N}+")
_ENDS_CLOSED: Final = regex.compile(r"[\p{SB=STerm}.:：…]$")
_BLANK_RUN: Final = regex.compile(r"[ \t]+(?=\n)|\n(?=[ \t]*\n[ \t]*\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A record that the snapshot shows.

    Attributes:
        record_id: The record.
        slot: 1 profile, 2 prohibitions, 3 recent.
        text: As shown, unescaped, without the bullet and date; a substring of the snapshot's text.
    """

    record_id: RecordId
    slot: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Slots 1 to 3 of one scope.

    Attributes:
        text: NFC, `\\n`, no newline at the end; empty if there is nothing to show.
        units: UTF-16 code units of `text`.
        shown: What it shows, in its order.
        left_out: Prohibitions that do not fit, oldest first; `recall status` fails over them.
        notes: What had to give way, a sentence each, without any vault text.
    """

    text: str
    units: int
    shown: tuple[Shown, ...]
    left_out: tuple[RecordId, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How the budget is shared out."""

    profile_units: int  # slot 1's text
    rule_units: int  # one line of slot 2
    first_rule: int  # index of the oldest prohibition shown
    recent: RecentRoom
    notes: tuple[str, ...]


def render(records: Sequence[Record], window: Sequence[RecordId], budget: Budget) -> Snapshot:
    """Render the slots that do not depend on the prompt.

    Args:
        records: All records of the scope, in any order; types that no slot needs are passed over.
        window: What slot 3 shows, in this order; ids that are not there any more are passed over.
        budget: Limits of the digest.

    Returns:
        The snapshot, of at most `hard_units - relevant_reserved_units` units.
    """
    by_age = sorted(records, key=age)
    by_id = {record.id: record for record in by_age}
    high = _unlike(record for record in by_age if record.high)
    said_by_rules = {_key(record) for record in high}
    profile = [r for r in by_age if r.type is RecordType.PROFILE and _key(r) not in said_by_rules]
    candidates = recent_candidates(records)
    recent = _unlike(candidates[record_id] for record_id in window if record_id in candidates)
    rules = [_show(record, slot=2, limit=budget.prohibition_units) for record in high]
    lengths = [_DATE_UNITS + units(rule.text) for rule in rules]
    plan = _share_out(lengths, budget, has_profile=bool(profile), has_recent=bool(recent))

    left_out = tuple(rule.record_id for rule in rules[: plan.first_rule])
    rules = [replace(r, text=_cut(r.text, plan.rule_units - _DATE_UNITS)) for r in rules[plan.first_rule :]]
    profile_text, about = _profile(profile, plan.profile_units)
    above = [by_id[shown.record_id] for shown in (*about, *rules)]
    fresh = [record for record in recent if not any(_repeats(record, other) for other in above)]
    latest = _latest(fresh, window, plan.recent, most=budget.recent_record_units)

    def bullets(slot: Sequence[Shown]) -> list[str]:
        return [f"- ({by_id[shown.record_id].date.isoformat()}) {shown.text}" for shown in slot]

    slots = (
        (PROFILE_HEADING, [profile_text] * bool(about)),
        (RULES_HEADING, bullets(rules) + [LEFT_OUT_LINE.format(len(left_out))] * bool(left_out)),
        (RECENT_HEADING, bullets(latest)),
    )
    filled = ["\n".join([heading, *lines]) for heading, lines in slots if lines]
    text = "\n\n".join([FIRST_LINE, *filled]) if filled else ""
    return Snapshot(
        text=text, units=units(text), shown=(*about, *rules, *latest), left_out=left_out, notes=plan.notes
    )


def _share_out(rules: list[int], budget: Budget, *, has_profile: bool, has_recent: bool) -> _Plan:
    """Decide who gives way: the profile first, then slot 3, then each prohibition, then the oldest of them.

    Args:
        rules: Units of each prohibition's line, oldest first.
        budget: Limits of the digest.
        has_profile: True if slot 1 has something to show.
        has_recent: True if slot 3 has; its room is then kept for it whole, however full it is.
    """
    spent = budget.relevant_reserved_units + units(FIRST_LINE)
    recent, notes = recent_room(budget), []
    if has_recent and _slot(RULES_HEADING, rules) > budget.hard_units - spent - recent.slot_units:
        recent = narrow(recent)
        notes.append("Prohibitions take so much room that slot 3 shows little more than its newest three.")
    spent += recent.slot_units if has_recent else 0
    limit, first = _fit_rules(rules, budget, budget.hard_units - spent)
    if first:
        notes.append(f"{first} prohibitions do not fit and are left out.")
    elif limit < budget.prohibition_units:
        notes.append(f"Prohibitions are shortened to {limit} units each.")
    room = budget.target_units - spent - _rules_slot(rules, limit, first)
    if has_profile and room < budget.profile_units:
        notes.append(f"The profile has {max(0, room)} of its {budget.profile_units} units.")
    profile_units = min(budget.profile_units, room) - _slot(PROFILE_HEADING, [0])
    return _Plan(
        profile_units=profile_units, rule_units=limit, first_rule=first, recent=recent, notes=tuple(notes)
    )


def _fit_rules(rules: list[int], budget: Budget, room: int) -> tuple[int, int]:
    """Units that one line may take, and the index of the first prohibition that is shown."""
    least = max(budget.prohibition_min_units, _MIN_LINE_UNITS)
    most = max(budget.prohibition_units, least)
    if _rules_slot(rules, least) <= room:
        longer = bisect_right(range(least, most + 1), room, key=lambda limit: _rules_slot(rules, limit))
        return least + longer - 1, 0
    at_most_shown = room // min(least, *rules)
    for first in range(max(1, len(rules) - at_most_shown), len(rules)):
        if _rules_slot(rules, least, first) <= room:
            return least, first
    return least, len(rules)


def _rules_slot(rules: list[int], limit: int, first: int = 0) -> int:
    """Units of slot 2 with its lines shortened to a limit and the oldest left out."""
    last_line = [units(LEFT_OUT_LINE.format(first))] if first else []
    return _slot(RULES_HEADING, [min(length, limit) for length in rules[first:]] + last_line)


def _slot(heading: str, lines: Sequence[int]) -> int:
    """Units of a whole slot: the blank line before it, its heading, its lines with their newlines."""
    return 2 + units(heading) + sum(length + 1 for length in lines) if lines else 0


def _profile(records: Sequence[Record], limit: int) -> tuple[str, tuple[Shown, ...]]:
    """Slot 1: the profile's paragraphs as one text, cut as a whole."""
    if limit < _MIN_PROFILE_UNITS:
        return "", ()
    blocks = [(record, block) for record in records if (block := _block(record))]
    text = cut("\n\n".join(block for _, block in blocks), limit)
    shown, start = [], 0
    for record, block in blocks:
        part = block if text.startswith(block, start) else text[start:].strip()
        if part != block and not part.strip("…`~ \n"):
            break
        shown.append(Shown(record_id=record.id, slot=1, text=part))
        start += len(block) + 2
    return text, tuple(shown)


def _latest(records: list[Record], window: Sequence[RecordId], room: RecentRoom, *, most: int) -> list[Shown]:
    """Slot 3: each line gets its share and what earlier ones left of theirs, so later ones never move it."""
    standing = room.standing(window)
    rows = [record for record in records if record.id in standing]
    share, left, shown = room.units // room.places, room.units, list[Shown]()
    for places_after, record in zip(range(room.places - 1, -1, -1), rows, strict=False):
        limit = min(most, left - share * places_after - 1)
        if limit < _MIN_LINE_UNITS:
            break
        shown.append(_show(record, slot=3, limit=limit))
        left -= _DATE_UNITS + units(shown[-1].text) + 1
    return shown


@lru_cache(_REMEMBERED)
def _show(record: Record, *, slot: int, limit: int) -> Shown:
    """One line of at most `limit` units, its bullet and date included."""
    return Shown(record_id=record.id, slot=slot, text=cut(_said(record), limit - _DATE_UNITS))


@lru_cache(_REMEMBERED)
def _said(record: Record) -> str:
    """Title and text on one line, without a title that says nothing or that the text begins with."""
    title, body = one_line(neutralise(record.title)), one_line(neutralise(_body(record)))
    if not _LETTER.search(title) or _sound(body).startswith(_sound(title)):
        return body
    title = cut(title, _TITLE_UNITS)
    return f"{title} {body}" if _ENDS_CLOSED.search(title) else f"{title}: {body}"


def _body(record: Record) -> str:
    """The text without a heading that only repeats the title, and without the marks of any other."""
    heading = _HEADING_LINE.match(record.text)
    if heading is None:
        return record.text
    rest = record.text[heading.end() :]
    return rest if _sound(heading[1]) == _sound(record.title) and rest.strip() else f"{heading[1]}\n{rest}"


def _block(record: Record) -> str:
    """A profile record with its paragraphs; a heading it was split at leads, a file's name does not."""
    text = _BLANK_RUN.sub("", neutralise(record.text)).strip()
    if _named_by_file(record) or _sound(text).startswith(_sound(record.title)):
        return close_fence(text)
    lead = " " if _LETTER.match(text) else "\n"  # a list or fence is one only at the start of a line
    return close_fence(f"{one_line(neutralise(record.title))}:{lead}{text}")


def _named_by_file(record: Record) -> bool:
    return _sound(record.title) == _sound(PurePosixPath(record.path).stem)


def _key(record: Record) -> str:
    """Title and text as they are compared: letters, marks and digits."""
    title = "" if _named_by_file(record) else record.title
    return _sound(title) + _text_key(record)


@lru_cache(_REMEMBERED)
def _text_key(record: Record) -> str:
    """The text alone as it is compared."""
    body = _body(record)[: 2 * _COMPARED]
    return _sound(body)[:_COMPARED] or body


def _sound(text: str) -> str:
    return _SOUND.sub("", unicodedata.normalize("NFKC", text).casefold())


def _unlike(records: Iterable[Record]) -> list[Record]:
    """The first of each set of records that say exactly the same; none that says nothing visible.

    Inside a slot nothing is left out for mere likeness: two prohibitions may differ in one word.
    """
    first: dict[str, Record] = {}
    for record in records:
        if _said(record):
            first.setdefault(_key(record), record)
    return list(first.values())


def _repeats(record: Record, other: Record) -> bool:
    """Nearly the same text, down to the numbers in it; of short texts the titles must agree as well."""
    one, two = _text_key(record), _text_key(other)
    if len(one) < _TELLING:
        one, two = _key(record), _key(other)
    alike = fuzz.ratio(one, two, score_cutoff=SAME_PERCENT) > 0
    return alike and _NUMBERS.findall(one) == _NUMBERS.findall(two)
