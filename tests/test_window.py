"""Window: what slot 3 shows moves only at its end, but for strides and removals."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.config import Budget
from recall_worker.records import Record, RecordId, RecordType
from recall_worker.window import advance, age, narrow, recent_room

BUDGET = Budget()
N = BUDGET.recent_n


def record(
    number: int, *, day: int | None = None, kind: RecordType = RecordType.LESSON, high: bool = False
) -> Record:
    """A record first seen as the `number`th, dated by its number unless a day is given."""
    return Record(
        id=RecordId(f"r{number:03}"),
        type=kind,
        high=high,
        date=dt.date(2026, 1, 1) + dt.timedelta(days=number if day is None else day),
        dated=True,
        first_seen=number,
        project=None,
        tags=(),
        title="",
        text=f"Lesson {number}.",
        path=f"lessons/{number}.md",
        line=1,
    )


def ids(*numbers: int) -> tuple[RecordId, ...]:
    """Record ids of these numbers."""
    return tuple(RecordId(f"r{number:03}") for number in numbers)


@pytest.mark.parametrize("count", [0, 1, 3, N, N + 1, 2 * N, 60])
def test_first_window_is_the_newest_oldest_first(count: int) -> None:
    """Out of nothing the newest N are chosen, or all there are."""
    step = advance((), [record(number) for number in range(count)], BUDGET)
    assert step.window == ids(*range(max(0, count - N), count))
    assert step.reason == ("fill" if count else "same")
    assert step.added == step.window


def test_newer_records_append_until_the_stride() -> None:
    """From N records, N - 1 additions append and the next one chooses anew; five of six keep the prefix."""
    known = [record(number) for number in range(N)]
    window = advance((), known, BUDGET).window
    reasons = []
    for number in range(N, 4 * N):
        known.append(record(number))
        step = advance(window, known, BUDGET)
        assert step.added == ids(number)
        assert (step.window[: len(window)] == window) is (step.reason == "append")
        window = step.window
        reasons.append(step.reason)
    assert reasons == (["append"] * (N - 1) + ["stride"]) * 3
    assert window == ids(*range(3 * N, 4 * N))


def test_bulk_of_new_records_strides_once() -> None:
    """Sixty lessons at once choose the window anew rather than pushing sixty in."""
    known = [record(number) for number in range(N + 60)]
    step = advance(ids(*range(N)), known, BUDGET)
    assert (step.reason, step.window) == ("stride", ids(*range(60, N + 60)))
    assert step.removed == ids(*range(N))


def test_edit_keeps_its_place() -> None:
    """A record whose text or date changes stays where it stands."""
    known = [record(number) for number in range(N)]
    window = ids(*range(N))
    edited = [replace(known[0], text="Other."), replace(known[1], date=dt.date(2026, 1, 4)), *known[2:]]
    assert advance(window, edited, BUDGET).window == window
    assert advance(window, edited, BUDGET).reason == "same"


def test_removal_only_removes() -> None:
    """A deleted record leaves; the free place goes to the newest older one, at the end."""
    known = [record(number) for number in range(20) if number != 16]
    step = advance(ids(13, 14, 15, 16, 17, 18, 19), known, BUDGET)
    assert (step.window, step.reason, step.removed) == (ids(13, 14, 15, 17, 18, 19), "remove", ids(16))
    step = advance(step.window, [r for r in known if r.first_seen != 19], BUDGET)
    assert (step.window, step.reason) == (ids(13, 14, 15, 17, 18, 12), "remove")
    assert (step.added, step.removed) == (ids(12), ids(19))


def test_back_dated_record_stays_out() -> None:
    """A new record older than the window's oldest is not recent."""
    known = [record(number) for number in range(20)] + [record(20, day=2)]
    step = advance(ids(*range(14, 20)), known, BUDGET)
    assert (step.window, step.reason) == (ids(*range(14, 20)), "same")


def test_back_dated_record_fills_a_short_window() -> None:
    """While there are fewer than N, an old record is welcome, at the end in the order first seen."""
    step = advance(ids(1, 2), [record(1), record(2), record(3, day=0)], BUDGET)
    assert (step.window, step.reason) == (ids(1, 2, 3), "fill")


def test_back_dated_but_newer_than_the_oldest_appends() -> None:
    """What counts is the window's oldest, not its newest; the new record stands at the end."""
    known = [record(number) for number in range(N)] + [record(N, day=2)]
    step = advance(ids(*range(N)), known, BUDGET)
    assert (step.window, step.reason) == (ids(*range(N + 1)), "append")


def test_new_records_append_in_the_order_first_seen() -> None:
    """Two that come at once stand as they were first seen, whatever their dates."""
    known = [record(number) for number in range(N)] + [record(N, day=50), record(N + 1, day=40)]
    assert advance(ids(*range(N)), known, BUDGET).window == ids(*range(N + 2))


def test_same_day_records_stand_in_the_order_first_seen() -> None:
    """Ten lessons of one day: the six seen last, in that order; an eleventh appends."""
    known = [record(number, day=0) for number in range(10)]
    window = advance((), known, BUDGET).window
    assert window == ids(*range(4, 10))
    step = advance(window, [*known, record(10, day=0)], BUDGET)
    assert (step.window, step.reason) == (ids(*range(4, 11)), "append")


def test_only_recent_types_that_are_no_prohibitions() -> None:
    """Knowledge, profile and high lessons have other slots; a lesson made high leaves the window."""
    known = [
        record(1, kind=RecordType.KNOWLEDGE),
        record(2, kind=RecordType.PROFILE),
        record(3, high=True),
        record(4, kind=RecordType.CONCLUSION),
        record(5),
    ]
    assert advance((), known, BUDGET).window == ids(4, 5)
    step = advance(ids(4, 5), [*known[:4], record(5, high=True)], BUDGET)
    assert (step.window, step.reason) == (ids(4), "remove")


def test_room_divides_the_slot() -> None:
    """The design's numbers hold: six records, eleven places, 2,000 units, three when narrow."""
    room = recent_room(BUDGET)
    assert (room.n, room.places, room.slot_units) == (6, 11, 2_000)
    assert room.units // room.places >= 177
    tight = narrow(room)
    assert (tight.n, tight.skipped, tight.places) == (3, 3, 8)
    assert tight.slot_units <= 1_020


@pytest.mark.parametrize("limit", [1, 60, 200, 500, 1_000])
def test_small_slot_has_fewer_places(limit: int) -> None:
    """A limit too small for 2N - 1 lines shrinks N and still leaves room to append."""
    room = recent_room(Budget(recent_units=limit, recent_n=20))
    assert 1 <= room.n <= room.places
    assert room.places <= 2 * room.n
    assert room.places == 1 or room.units // room.places > 80
    assert narrow(room).places >= 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(1, 8),
)
def test_window_stays_sound_through_any_history(events: list[tuple[int, int]], n: int) -> None:
    """Additions on any day, removals and edits in any order: no gap, no repeat, order of input ignored."""
    budget = Budget(recent_n=n)
    known: list[Record] = []
    window: tuple[RecordId, ...] = ()
    for number, (kind, day) in enumerate(events):
        if kind == 0 and known:
            known.pop(day % len(known))
        elif kind == 1 and known:
            known[day % len(known)] = replace(known[day % len(known)], text=f"Edited {number}.")
        else:
            known.append(record(number, day=day))
        step = advance(window, known, budget)
        assert step == advance(window, known[::-1], budget)
        assert len(set(step.window)) == len(step.window) == len(window) + len(step.added) - len(step.removed)
        assert min(n, len(known)) <= len(step.window) <= max(1, 2 * n - 1)
        if step.reason in ("append", "fill", "same"):
            assert step.window[: len(window)] == window
        standing = [r for r in known if r.id in step.window]
        newest = sorted(known, key=age)[-len(standing) :] if standing else []
        if step.reason in ("stride", "fill"):
            assert standing == [] or {r.id for r in newest} == set(step.window)
        assert advance(step.window, known, budget).reason == "same"
        window = step.window
