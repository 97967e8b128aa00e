"""Dates: the day a person meant, in the ways people write it.

Flow:  vault → [dates] → facts → notes → records → ledger
In:    a few words and today's date.   Out: a day that has come, or the reason why there is none.
Never: a guess between two days (05/06/2026), a clock, a locale.
Next:  worker/recall_worker/facts.py
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from typing import Final

_EARLIEST_YEAR: Final = 1900
_BUDDHIST_OFFSET: Final = 543
_BUDDHIST_YEARS: Final = range(2400, 2700)
_LONGEST: Final = 80

_MONTH_NAMES: Final = (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
    "มค กพ มีค เมย พค มิย กค สค กย ตค พย ธค",
)
_MONTHS: Final = {name: n for row in _MONTH_NAMES for n, name in enumerate(row.split(), 1)} | {"sept": 9}

_PLAIN: Final = r"\d{4}[-/._]\d{1,2}[-/._]\d{1,2}|\d{4}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日"
_NAME: Final = r"(?P<name>[^\W\d_][^\s\d,/-]*)"
_DAY: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?"
_WEEKDAY: Final = r"(?:[^\W\d_][^\s\d,]*,?\s+)?"
_YEAR: Final = r"(?:[พค]\.?\s?ศ\.?\s*)?(?P<y>\d{4})"
_AFTER: Final = r"(?:(?:\s*T|,?\s+)\d.*|,?\s*\(?[^\W\d_]+\.?)?"  # a time, or the day of the week
_FORMS: Final = tuple(
    re.compile(form + _AFTER, re.IGNORECASE)
    for form in (
        r"(?P<y>\d{4})(?P<mark>[-/._])(?P<m>\d{1,2})(?P=mark)(?P<d>\d{1,2})",
        r"(?P<y>\d{4})\s?[年년]\s?(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日일]",
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)",
        r"(?P<a>\d{1,2})(?P<mark>[-/.])(?P<b>\d{1,2})(?P=mark)(?P<y>\d{4})",
        rf"{_WEEKDAY}{_DAY}(?:\s+of)?[\s-]*{_NAME},?[\s-]*{_YEAR}",
        rf"{_WEEKDAY}{_NAME}\s+{_DAY},?\s+{_YEAR}",
        rf"(?P<y>\d{{4}})[\s-]{_NAME}[\s-](?P<d>\d{{1,2}})",
    )
)

_IN_NAME: Final = re.compile(
    r"(?<!\d)(?:\d{4}(?P<mark>[-_.])\d\d(?P=mark)\d\d|(?P<run>\d{8})(?:T?(?:\d{4}|\d{6}))?)(?!\d)"
)
_IN_HEADING: Final = re.compile(rf"(?<!\d)(?:{_PLAIN})(?!\d)")
_LEADING: Final = re.compile(
    rf"(?:\*\*|__|\[\[|\[|\()?(?P<date>{_PLAIN})(?:\*\*|__|\]\]|\]|\))?(?!\d|[-/.]\w)"
    r"\s*(?:[:：,、]|[-–—]+(?=\s))?(?:\*\*|__)?\s*"
)


def parse_date(text: str, *, today: dt.date) -> dt.date:
    """Read one date.

    ISO 8601 with or without a time (the day stands as written, whatever the time zone), `2026/11/2`,
    `20261102`, `2.11.2026`, `2 Nov 2026`, `November 2nd, 2026`, `2026年11月2日`, `2 พ.ย. 2569`. A year from
    2400 to 2699 is of the Buddhist era. Of `05/06/2026` nobody knows which day it is.

    Args:
        text: A date and nothing else, perhaps in quotes or link brackets.
        today: The last day that can be meant.

    Returns:
        The day.

    Raises:
        ValueError: Why it is none, in words that follow "the date …".
    """
    plain = unicodedata.normalize("NFKC", text[: _LONGEST + 1]).strip(" \t\n\"'“”‘’[]()")
    if len(plain) <= _LONGEST:
        for form in _FORMS:
            match = form.fullmatch(plain)
            if match and (parts := _parts(match.groupdict())):
                return _a_day(*parts, today)
    raise ValueError("is not one I can read")


def _parts(found: dict[str, str | None]) -> tuple[int, int, int] | None:
    """Year, month and day out of what a form found; None if it took another word for a month."""
    year, day = int(found["y"] or 0), int(found.get("d") or 0)
    if name := found.get("name"):
        month = _MONTHS.get(name.casefold().replace(".", ""))
        return (year, month, day) if month else None
    if not (found.get("a") and found.get("b")):
        return year, int(found.get("m") or 0), day
    first, second = int(found["a"] or 0), int(found["b"] or 0)
    if found["mark"] == "." or first > 12 or first == second:  # nobody writes the month first with dots
        return year, second, first
    if second > 12:
        return year, first, second
    raise ValueError("can mean two days")


def _a_day(year: int, month: int, day: int, today: dt.date) -> dt.date:
    """The day, if there is one and it has come."""
    if year in _BUDDHIST_YEARS:
        year -= _BUDDHIST_OFFSET
    try:
        date = dt.date(year, month, day)
    except ValueError:
        raise ValueError("is no day of the calendar") from None
    if date.year < _EARLIEST_YEAR:
        raise ValueError(f"lies before {_EARLIEST_YEAR}")
    if date > today:
        raise ValueError("lies in the future")
    return date


def split_name(stem: str, *, today: dt.date) -> tuple[dt.date | None, str]:
    """Take the date out of a file's name and make words of the rest.

    Args:
        stem: The name without its ending, like `2026-11-02-foo`, `20261102 foo` or `202611021030`.
        today: The last day that can be meant.

    Returns:
        The first date, or None (a number that is no day is part of the name, not a mistake); and the rest
        with hyphens and underscores between words as spaces, or the whole stem if the date is all there is.
    """
    for match in _IN_NAME.finditer(stem):
        if date := _or_none(match["run"] or match[0], today):
            return date, _words(f"{stem[: match.start()]} {stem[match.end() :]}") or stem
    return None, _words(stem) or stem


def _words(name: str) -> str:
    return " ".join(re.sub(r"(?<=\S)[-_]+(?=\S)", " ", name).strip(" -_").split())


def date_in_heading(heading: str, *, today: dt.date) -> dt.date | None:
    """The first date in a heading (`## 2026-11-02 Use Postgres`, `[1.2.0] - 2026-11-02`), or None."""
    for match in _IN_HEADING.finditer(heading):
        if date := _or_none(match[0], today):
            return date
    return None


def split_leading_date(text: str, *, today: dt.date) -> tuple[dt.date | None, str]:
    """Take the date off a list item like `2026-11-02: text`, `**2026-11-02** text` or `[[2026-11-02]] text`.

    Args:
        text: The item without its marker.
        today: The last day that can be meant.

    Returns:
        The day and the rest; None and the whole text where there is no date or nothing but a date.
    """
    match = _LEADING.match(text)
    date = _or_none(match["date"], today) if match else None
    return (date, text[match.end() :]) if match and date and text[match.end() :].strip() else (None, text)


def _or_none(text: str, today: dt.date) -> dt.date | None:
    try:
        return parse_date(text, today=today)
    except ValueError:
        return None
