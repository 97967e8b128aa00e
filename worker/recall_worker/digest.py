"""Digest: turn ranked passages into slot 4, leaving out what an earlier slot shows and what does not fit.

Flow:  vault → records → ledger → indexes → snapshot, search → [slot 4] → hook → digest
In:    hits, what the snapshot shows, room in UTF-16 units.   Out: text of slot 4 and each hit's fate.
Never: anything that changes the order the search gave, but for near-duplicates, of which the newer stays.
Next:  worker/recall_worker/answer.py
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz import fuzz

from recall_worker.config import Budget
from recall_worker.ledger_types import ShownLike
from recall_worker.records import Hit
from recall_worker.snapshot import FIRST_LINE
from recall_worker.text import cut, neutralise, one_line, units

HEADING: Final = "## Notes close to this prompt"
SHOWN_RATIO: Final = 0.6
"""A passage of which an earlier slot shows this share or more is a repetition."""

SAME_RATIO: Final = 85.0
"""rapidfuzz percent from which two stretches of text say the same."""

PER_RECORD: Final = 2
"""Passages of one record that may stand in slot 4."""

MIN_LINE_UNITS: Final = 60
"""A passage cut shorter than this says nothing: better none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one hit.

    Attributes:
        hit: The hit.
        verdict: `shown`, `repeats an earlier slot`, `repeats a better hit`, `older version`, `enough of this record`
            or `no room`.
        other: Record id of what it repeats, else empty.
        ratio: How much of it that shows, 0 to 1; 0 where it does not apply.
    """

    hit: Hit
    verdict: str
    other: str = ""
    ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevant:
    """Slot 4, ready to be escaped.

    Attributes:
        text: Separator, heading and lines; empty when nothing is shown.
        units: UTF-16 units of `text`.
        fates: One for each hit.
    """

    text: str
    units: int
    fates: tuple[Fate, ...]


def room_for_relevant(snapshot_units: int, budget: Budget) -> int:
    """UTF-16 units that slot 4 may take beside a snapshot of `snapshot_units`.

    What the target leaves, at least the reserve and at most the slot's own limit, never past the hard stop.
    """
    left = max(budget.target_units - snapshot_units, budget.relevant_reserved_units)
    return max(0, min(left, budget.relevant_units, budget.hard_units - snapshot_units))


def compose_relevant(
    hits: Sequence[Hit], shown: Sequence[ShownLike], *, room_units: int, budget: Budget, first: bool
) -> Relevant:
    """Choose and render the passages of slot 4.

    Args:
        hits: Best first.
        shown: What slots 1 to 3 of the snapshot in the hook's hand show.
        room_units: UTF-16 units left for the slot, its separator and heading included.
        budget: Limits of the digest.
        first: True if nothing stands before the slot: it then opens the digest itself.

    Returns:
        The slot and every hit's fate.
    """
    head = (FIRST_LINE if first else "") + "\n\n" + HEADING
    left = room_units - units(head)
    chosen, fates = _choose(hits, shown, budget=budget, left=left)
    lines = [_line(fate.hit, budget.relevant_record_units) for fate in chosen]
    text = ""
    if lines:
        text = "\n".join([head, *lines])
        if units(text) > room_units:
            last = cut(lines[-1], units(lines[-1]) - (units(text) - room_units))
            text = "\n".join([head, *lines[:-1], last])
    return Relevant(text=text, units=units(text), fates=tuple(fates))


def _choose(
    hits: Sequence[Hit], shown: Sequence[ShownLike], *, budget: Budget, left: int
) -> tuple[list[Fate], list[Fate]]:
    """Walk the hits best first until the room is used up."""
    chosen: list[Fate] = []
    newest, fates = _newest_versions(hits)
    full = False
    for hit in newest:
        line = _line(hit, budget.relevant_record_units)
        fate = _repetition(hit, line, shown, chosen)
        if fate is None and not full:
            need = units(line) + 1
            if need <= left or left - 1 >= max(MIN_LINE_UNITS, need // 2):
                fate = Fate(hit=hit, verdict="shown")
                chosen.append(fate)
                left -= need
                full = left <= MIN_LINE_UNITS
        fates.append(fate or Fate(hit=hit, verdict="no room"))
    return chosen, fates


def _newest_versions(hits: Sequence[Hit]) -> tuple[list[Hit], list[Fate]]:
    """Of two versions of one text in different records the newer stays, in the place of the better."""
    newest: list[Hit] = []
    texts: list[str] = []
    older: list[Fate] = []
    for hit in hits:
        text = _comparable(hit.passage.text)
        for place, (other, said) in enumerate(zip(newest, texts, strict=True)):
            alike = fuzz.ratio(text, said, score_cutoff=SAME_RATIO)
            if alike and other.record.id != hit.record.id:
                if _age(hit) > _age(other):
                    newest[place], texts[place] = hit, text
                    hit, other = other, hit
                older.append(Fate(hit=hit, verdict="older version", other=other.record.id, ratio=alike / 100))
                break
        else:
            newest.append(hit)
            texts.append(text)
    return newest, older


def _age(hit: Hit) -> tuple[dt.date, int]:
    return hit.record.date, hit.record.first_seen


def _repetition(hit: Hit, line: str, shown: Sequence[ShownLike], chosen: Sequence[Fate]) -> Fate | None:
    """The fate of a hit that says what already stands above it, None for a new one."""
    body = _comparable(line)
    for earlier in shown:
        share = shown_share(body, _comparable(earlier.text))
        if share >= SHOWN_RATIO:
            return Fate(hit=hit, verdict="repeats an earlier slot", other=earlier.record_id, ratio=share)
    of_record = 0
    for better in chosen:
        of_record += better.hit.record.id == hit.record.id
        share = shown_share(body, _comparable(_line(better.hit, 10_000)))
        if share >= SHOWN_RATIO:
            return Fate(hit=hit, verdict="repeats a better hit", other=better.hit.record.id, ratio=share)
    if of_record >= PER_RECORD:
        return Fate(hit=hit, verdict="enough of this record", other=hit.record.id)
    return None


def shown_share(candidate: str, earlier: str) -> float:
    """How much of `candidate` stands in `earlier`, ratio 0 to 1.

    The shorter of the two is slid along the longer; a match counts for as much of the candidate as it covers, so a
    short earlier line inside a long candidate does not hide the rest of it.

    Source: rapidfuzz documentation, fuzz.partial_ratio.
    """
    if not candidate or not earlier:
        return 0.0
    alike = fuzz.partial_ratio(candidate, earlier, score_cutoff=SAME_RATIO)
    return float(alike) / 100 * min(1.0, len(earlier) / len(candidate))


def _comparable(text: str) -> str:
    """What is compared: case and white space do not make a text another."""
    return one_line(text).casefold()


def _line(hit: Hit, limit: int) -> str:
    """One line of the slot: date, title path, text; at most `limit` UTF-16 units."""
    title = one_line(neutralise(hit.passage.title_path))
    text = one_line(neutralise(hit.passage.text))
    said = f"{title}: {text}" if title and not text.casefold().startswith(title.casefold()) else text
    return cut(f"- ({hit.record.date.isoformat()}) {said}", limit)
