"""Delivery: a session is sent only what it lacks, and everything again once something no longer stands."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.answer import passage_token
from recall_worker.delivery import added_lines, after_turn, plan_news
from recall_worker.frames import NO_SHA256
from recall_worker.ledger import Ledger
from recall_worker.publish import Published
from recall_worker.records import EVERYWHERE, Hit, Passage, PassageId, Record, RecordId, RecordType
from recall_worker.sessions import Session
from recall_worker.snapshot import Shown, Snapshot
from recall_worker.text import units

OLD = "Head\n\n## Rules\n- one\n- two\n\n## Latest\n- six"


@pytest.mark.parametrize(
    ("now", "added"),
    [
        (OLD, []),
        (f"{OLD}\n- seven", ["", "## Latest", "- seven"]),
        (OLD.replace("- two", "- two\n- three"), ["", "## Rules", "- three"]),
        (
            OLD.replace("- two", "- two\n- three") + "\n- seven",
            ["", "## Rules", "- three", "", "## Latest", "- seven"],
        ),
        (f"{OLD}\n\n## Other\n- new", ["", "## Other", "- new"]),
        (OLD.replace("- one\n", ""), None),
        (OLD.replace("- six", "- six, corrected"), None),
        (OLD.replace("- one\n- two", "- two\n- one"), None),
        ("", None),
    ],
)
def test_what_is_new(now: str, added: list[str] | None) -> None:
    """Added lines come under their heading; a line that is gone, changed or moved calls for all of it."""
    assert added_lines(OLD, now) == added


@given(st.lists(st.text("ab", min_size=1), unique=True, min_size=1), st.lists(st.integers(0, 20)))
def test_additions_are_found_wherever_they_stand(lines: list[str], places: list[int]) -> None:
    """Whatever is put between the lines, exactly that is sent."""
    now = list(lines)
    fresh = [f"new {number}" for number in range(len(places))]
    for line, place in zip(fresh, places, strict=True):
        now.insert(min(place, len(now)), line)
    added = added_lines("\n".join(lines), "\n".join(now))
    assert added is not None
    assert sorted(added) == sorted(fresh)


def published(text: str) -> Published:
    """A scope whose snapshot says this."""
    snapshot = Snapshot(text=text, units=units(text), shown=(), left_out=(), notes=())
    return Published(
        snapshot=snapshot, sha256=hashlib.sha256(text.encode()).digest(), reason="", written=True
    )


def waiting(said: str) -> Published:
    """A scope with one record that waits beside its snapshot."""
    shown = (Shown(record_id=RecordId("x"), slot=3, text=said),)
    return replace(published(OLD), pending=f"\n\n## New\n- (2026-01-04) {said}", pending_shown=shown)


def test_a_waiting_line_that_was_undone_is_sent_again(tmp_path: Path) -> None:
    """Blue, green, blue: the last word about a record is the one that holds."""
    session = Session().next_turn().with_snapshot(EVERYWHERE, published(OLD).sha256, whole=True)
    with Ledger.open(tmp_path / "ledger.sqlite3") as ledger:
        for said in ("blue", "green", "blue"):
            session = session.next_turn()
            plan = plan_news(waiting(said), NO_SHA256, session, ledger=ledger, remind_every=20)
            assert plan is not None
            assert said in plan.prefix
            session = after_turn(session, EVERYWHERE, plan, ())
        again = plan_news(waiting("blue"), NO_SHA256, session, ledger=ledger, remind_every=20)
    assert again is not None
    assert again.prefix == ""


def test_what_another_scope_was_told_since_counts(tmp_path: Path) -> None:
    """Everywhere says blue, the project green, everywhere blue once more: it is sent whole."""
    blue, green = published(OLD), published(OLD.replace("six", "seven"))
    session = Session().next_turn().with_snapshot(EVERYWHERE, blue.sha256, whole=True).next_turn()
    session = session.with_snapshot("billing", green.sha256, whole=True).next_turn()
    with Ledger.open(tmp_path / "ledger.sqlite3") as ledger:
        assert plan_news(blue, NO_SHA256, session, ledger=ledger, remind_every=20) is None
        assert plan_news(green, NO_SHA256, session, ledger=ledger, remind_every=20) is not None


def test_a_passage_is_named_by_all_that_is_shown_of_it() -> None:
    """Another title or date is news as another text is."""
    name, day = RecordId("x"), date(2026, 1, 4)
    passage = Passage(
        id=PassageId(1), record_id=name, ordinal=0, title_path="Ports", text="5432", text_sha256=""
    )
    record = Record(
        id=name,
        type=RecordType.KNOWLEDGE,
        high=False,
        date=day,
        dated=True,
        first_seen=1,
        project=None,
        tags=(),
        title="Ports",
        text="5432",
        path="x.md",
        line=1,
    )
    hit = Hit(passage=passage, record=record, score=1.0, rank=1)
    seen = Session().with_received([passage_token(hit)])
    assert seen.has(passage_token(hit), within=1)
    for other in (
        replace(hit, passage=replace(passage, title_path="Old ports")),
        replace(hit, passage=replace(passage, text="6543")),
        replace(hit, record=replace(record, date=date(2026, 1, 5))),
    ):
        assert not seen.has(passage_token(other), within=1)
