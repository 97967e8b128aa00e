"""Dates: what people write, in English, Thai and Japanese, and what nobody can read."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.dates import date_in_heading, parse_date, split_leading_date, split_name

TODAY = dt.date(2026, 11, 30)
DAY = dt.date(2026, 11, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-02", "2026-11-2", "2026/11/02", "2026.11.02", "2026_11_02", "20261102"),
        *(
            "2026-11-02T23:59:00-11:00",
            "2026-11-02 10:00:00 +07:00",
            "20261102T1030",
            "2026-11-02T00:00:00.000Z",
        ),
        *("2026-11-02 (Mon)", "2026-11-02, Monday"),
        *("2 Nov 2026", "02-Nov-2026", "2 november 2026", "2nd of November 2026", "2. Nov. 2026"),
        *(
            "November 2, 2026",
            "Nov 2nd, 2026",
            "Mon, 02 Nov 2026 10:00:00 GMT",
            "Mon Nov 02 2026 10:00:00 GMT+0700",
        ),
        *("2026-Nov-02", "02.11.2026", "2026年11月2日", "2026 年 11 月 2 日", "2026년 11월 2일"),
        *("2 พ.ย. 2569", "๒ พฤศจิกายน พ.ศ. ๒๕๖๙", "วันจันทร์ที่ 2 พฤศจิกายน 2569", "2569-11-02"),
        *('"2026-11-02"', "“2026-11-02”", "[[2026-11-02]]", "２０２６－１１－０２"),
    ],
)
def test_reads_what_people_write(text: str) -> None:
    """Every form in use names the day that a person would say it names."""
    assert parse_date(text, today=TODAY) == DAY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-13-45", "is no day of the calendar"),
        ("2026-02-30", "is no day of the calendar"),
        ("2026-12-01", "lies in the future"),
        ("2570-01-01", "lies in the future"),
        ("0001-01-01", "lies before 1900"),
        ("05/06/2026", "can mean two days"),
        *(
            (text, "is not one I can read")
            for text in ("", "soon", "2026-11", "26-11-02", "1793577600", "{{date}}")
        ),
        *((text, "is not one I can read") for text in ("<% tp.date.now() %>", "2 Foo 2026", "9" * 500)),
    ],
)
def test_says_why_there_is_no_day(text: str, reason: str) -> None:
    """A date that cannot be believed comes with its reason, never with a guess."""
    with pytest.raises(ValueError, match=reason):
        parse_date(text, today=TODAY)


def test_buddhist_leap_day() -> None:
    """A leap day of the Buddhist era is one, though that year of the common era has none."""
    assert parse_date("2567-02-29", today=TODAY) == dt.date(2024, 2, 29)


@pytest.mark.parametrize(("text", "day"), [("13/11/2026", 13), ("11/13/2026", 13), ("11/11/2026", 11)])
def test_slashes_that_can_mean_one_day_only(text: str, day: int) -> None:
    """A slashed date is read where only one reading is a date."""
    assert parse_date(text, today=TODAY) == dt.date(2026, 11, day)


@given(st.dates(min_value=dt.date(1900, 1, 1), max_value=TODAY))
def test_iso_dates_come_back(day: dt.date) -> None:
    """Whatever day has come, its ISO form is read as that day."""
    assert parse_date(day.isoformat(), today=TODAY) == day


@given(st.text(max_size=60))
def test_reading_never_fails_otherwise(text: str) -> None:
    """Any text is a day that has come, or a ValueError."""
    with suppress(ValueError):
        assert parse_date(text, today=TODAY) <= TODAY


@pytest.mark.parametrize(
    ("stem", "date", "words"),
    [
        ("2026-11-02-foo", DAY, "foo"),
        ("20261102 foo", DAY, "foo"),
        ("202611021030", DAY, "202611021030"),
        ("meeting_2026-11-02", DAY, "meeting"),
        ("2569-11-02 ประชุม", DAY, "ประชุม"),
        ("2026-11-02", DAY, "2026-11-02"),
        ("accessing-a-lost-commit", None, "accessing a lost commit"),
        ("ticket-20991231", None, "ticket 20991231"),
        ("ticket-12345678901", None, "ticket 12345678901"),
        ("2026-13-01-plan", None, "2026 13 01 plan"),
        ("2027-01-01-plan", None, "2027 01 01 plan"),
        ("---", None, "---"),
    ],
)
def test_name_of_a_file(stem: str, date: dt.date | None, words: str) -> None:
    """A day in a file's name is its date and no part of its title; another number is part of the title."""
    assert split_name(stem, today=TODAY) == (date, words)


@pytest.mark.parametrize(
    ("heading", "date"),
    [
        ("2026-11-02 Use Postgres", DAY),
        ("[1.2.0] - 2026-11-02", DAY),
        ("Use Postgres (2026/11/2)", DAY),
        ("2026年11月2日 会議", DAY),
        ("Valid until 2027-01-01", None),
        ("Port 20261102", None),
    ],
)
def test_date_in_a_heading(heading: str, date: dt.date | None) -> None:
    """A heading's date is its record's, as long as that day has come."""
    assert date_in_heading(heading, today=TODAY) == date


@pytest.mark.parametrize(
    ("item", "date", "rest"),
    [
        ("2026-11-02: text", DAY, "text"),
        ("2026-11-02 — text", DAY, "text"),
        ("**2026-11-02:** text", DAY, "text"),
        ("[[2026-11-02]] text", DAY, "text"),
        ("(2026-11-02) text", DAY, "text"),
        ("2026年11月2日 テスト", DAY, "テスト"),
        ("2026-11-02", None, "2026-11-02"),
        ("2026-11-02-foo.sql failed", None, "2026-11-02-foo.sql failed"),
        ("2027-11-02: licence ends", None, "2027-11-02: licence ends"),
        ("text of 2026-11-02", None, "text of 2026-11-02"),
    ],
)
def test_date_ahead_of_an_item(item: str, date: dt.date | None, rest: str) -> None:
    """A list item may start with its own date; it is taken off only if it is one."""
    assert split_leading_date(item, today=TODAY) == (date, rest)
