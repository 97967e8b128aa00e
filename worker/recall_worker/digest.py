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

import numpy as np

from recall_worker.alike import (
    comparable,
    differ_in_facts,
    differ_in_subject,
    in_common,
    may_repeat,
    most_in_common,
    repeated_share,
    says_nothing_new,
)
from recall_worker.config import Budget
from recall_worker.ledger_types import ShownLike
from recall_worker.records import Hit, Passage
from recall_worker.snapshot import FIRST_LINE
from recall_worker.text import cut, neutralise, one_line, units

HEADING: Final = "## Notes close to this prompt"
SHOWN_RATIO: Final = 0.6
"""A passage of which an earlier slot shows this share or more is a repetition."""

VERSION_RATIO: Final = 0.87
"""Share of the shorter of two texts that stands in the other, in order, from which they are versions of one text …"""

VERSION_GROWTH: Final = 1.6
"""… if the longer is at most so many times as long: a note that holds a short one whole is more than its version."""

COMPARED: Final = 400
"""Characters of a passage that are compared: what a slot may show of it, and a little more."""

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


def room_for_relevant(snapshot_units: int, budget: Budget, *, pending_units: int = 0) -> int:
    """UTF-16 units that slot 4 may take.

    What the target leaves, at least the reserve and at most the slot's own limit, never past the hard stop. Pending
    records stand in its room, and in nobody else's: a digest with them is no longer than the same one without them
    might have been, unless they alone take more than the reserve.

    Args:
        snapshot_units: What slots 1 to 3 take without pending records.
        pending_units: What pending records take beside them.
    """
    left = max(budget.target_units - snapshot_units, budget.relevant_reserved_units)
    hard = budget.hard_units - snapshot_units
    return max(0, min(left - pending_units, hard - pending_units, budget.relevant_units))


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
    lines, fates = _choose(hits, shown, budget=budget, left=room_units - units(head))
    text = "\n".join([head, *lines]) if lines else ""
    return Relevant(text=text, units=units(text), fates=tuple(fates))


def _choose(
    hits: Sequence[Hit], shown: Sequence[ShownLike], *, budget: Budget, left: int
) -> tuple[list[str], list[Fate]]:
    """Walk the hits best first until the room is used up; a line that half fits is cut to what is left."""
    lines: list[str] = []
    newest, fates = _newest_versions(hits)
    repetitions = _Repetitions(newest, shown, budget)
    for place, hit in enumerate(newest):
        fate = repetitions.of(place)
        if fate is None:
            line = _fitted(hit, left - 1, budget.relevant_record_units)
            fate = Fate(hit=hit, verdict="shown" if line else "no room")
            if line:
                lines.append(line)
                left -= 1 + units(line)  # its newline and itself
                repetitions.stand(place)
        fates.append(fate)
    return lines, fates


def _fitted(hit: Hit, room: int, limit: int) -> str:
    """The hit's line, cut to the limit or to what room is left; empty if that is too little to say something."""
    if room < MIN_LINE_UNITS:
        return ""
    said = one_line(neutralise(_join(hit.passage)))
    line = f"- ({hit.record.date.isoformat()}) {said}"
    wanted = min(units(line), limit)
    return cut(line, min(wanted, room)) if room >= wanted // 2 else ""


def _newest_versions(hits: Sequence[Hit]) -> tuple[list[Hit], list[Fate]]:
    """Of all versions of one text the newest stays, in the place of the best; the order of the hits decides nothing.

    A version's version is a version: the third wording of a lesson replaces the first also where little is left of it.
    """
    texts = [comparable(hit.passage.text) for hit in hits]
    heads = [text[:COMPARED] for text in texts]
    lengths = np.array([len(text) for text in heads], np.float32)
    least = VERSION_RATIO * np.minimum.outer(lengths, lengths)
    may_be_alike = (most_in_common(heads, heads) >= least) & ~np.eye(len(hits), dtype=bool)
    newer: dict[int, tuple[int, float]] = {}
    by_age = sorted(range(len(hits)), key=lambda place: _age(hits[place]), reverse=True)
    for old in by_age:
        for new in (new for new in by_age if may_be_alike[old, new]):
            share = in_common(heads[old], heads[new]) / max(min(len(heads[old]), len(heads[new])), 1)
            if share >= VERSION_RATIO and _replaces(hits[new], hits[old], texts[new], texts[old]):
                newer[old] = new, share
                break
    places: dict[int, int] = {}
    older: list[Fate] = []
    for place, hit in enumerate(hits):
        last = place
        while last in newer:
            last = newer[last][0]
        places.setdefault(last, place)
        if last != place:
            other = hits[last].record.id
            older.append(Fate(hit=hit, verdict="older version", other=other, ratio=newer[place][1]))
    return [hits[last] for last in sorted(places, key=places.__getitem__)], older


def _replaces(new: Hit, old: Hit, new_text: str, old_text: str) -> bool:
    """True if the second text, which is like the first, is an older version of it.

    Two statements that contradict each other are told apart by their dates alone. Of one day or from one file both
    stand, since nothing says which of them holds, or their author wanted both.
    """
    if new.record.id == old.record.id or _age(new) <= _age(old):
        return False
    if old.record.project not in (None, new.record.project):
        return False  # the rule of one project is not overruled by the general one
    if max(len(new_text), len(old_text)) > VERSION_GROWTH * min(len(new_text), len(old_text)):
        return False
    titles = (comparable(new.passage.title_path), comparable(old.passage.title_path))
    if differ_in_subject(new_text, old_text, titles=titles):
        return False
    certain = new.record.date > old.record.date and new.record.path != old.record.path
    return certain or not differ_in_facts(new_text, old_text)


def _age(hit: Hit) -> tuple[dt.date, int]:
    return hit.record.date, hit.record.first_seen


class _Repetitions:
    """Finds what already stands above a hit. Every text is made comparable once, every pair is sifted in one call."""

    def __init__(self, hits: Sequence[Hit], shown: Sequence[ShownLike], budget: Budget) -> None:
        """Compare what each hit would show with what earlier slots show."""
        limit = budget.relevant_record_units
        self._hits = hits
        self._shown = shown
        # Not disarmed: that takes longer than all comparing and changes next to nothing.
        self._titles = [comparable(hit.passage.title_path) for hit in hits]
        self._texts = [comparable(_head(one_line(hit.passage.text), limit)) for hit in hits]
        self._lines = [comparable(_head(_join(hit.passage), limit)) for hit in hits]
        self._above = self._lines + [comparable(item.text) for item in shown]
        # With its title as a slot above would show it, and without, since another note may say it under another one.
        self._sifted = may_repeat(self._texts, self._above, least=SHOWN_RATIO)
        earlier = self._above[len(hits) :]
        self._sifted[:, len(hits) :] |= may_repeat(self._lines, earlier, least=SHOWN_RATIO)
        self._standing: list[int] = []

    def stand(self, place: int) -> None:
        """Count a hit to what stands above the next ones."""
        self._standing.append(place)

    def of(self, place: int) -> Fate | None:
        """The fate of a hit that says what already stands above it, None for a new one."""
        hit, sifted = self._hits[place], self._sifted[place]
        for column in np.flatnonzero(sifted[len(self._hits) :]).tolist():
            if share := self._share(place, len(self._hits) + column):
                other = self._shown[column].record_id
                return Fate(hit=hit, verdict="repeats an earlier slot", other=other, ratio=share)
        for better in (better for better in self._standing if sifted[better]):
            if share := self._share(place, better):
                other = self._hits[better].record.id
                return Fate(hit=hit, verdict="repeats a better hit", other=other, ratio=share)
        if sum(self._hits[better].record.id == hit.record.id for better in self._standing) >= PER_RECORD:
            return Fate(hit=hit, verdict="enough of this record", other=hit.record.id)
        return None

    def _share(self, place: int, above: int) -> float:
        """How much of a hit stands there; 0 if not enough, or if its title says that it is about another thing."""
        text = self._above[above]
        share = repeated_share(self._lines[place], text)
        if share < SHOWN_RATIO and says_nothing_new(self._titles[place], text):
            share = repeated_share(self._texts[place], text)
        return share if share >= SHOWN_RATIO else 0.0


def _join(passage: Passage) -> str:
    """Title path and text on one line, without a title that the text begins with."""
    title, text = one_line(passage.title_path), one_line(passage.text)
    return f"{title}: {text}" if title and not text.casefold().startswith(title.casefold()) else text


def _head(text: str, length: int) -> str:
    """About what `cut` would leave, for comparing."""
    return text if len(text) <= length else text[:length] + "…"
