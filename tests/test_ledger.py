"""The ledger keeps what was read: whole, in order, and under one name for as long as it can."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.errors import LedgerError
from recall_worker.ledger import FileChange, FileState, Ledger
from recall_worker.ledger_db import Database
from recall_worker.ledger_schema import MIGRATIONS
from recall_worker.records import PassageDraft, Problem, RecordDraft, RecordId, RecordType

DAY = dt.date(2026, 11, 2)
LATER = dt.date(2026, 11, 9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test lies; its folder is not there yet."""
    return tmp_path / "state" / "ledger.sqlite3"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.open(path) as opened:
        yield opened


def draft(
    key: str,
    text: str = "Take a dump first.",
    *,
    stated: bool = False,
    passages: Sequence[str] | None = None,
    kind: RecordType = RecordType.LESSON,
    high: bool = False,
    date: dt.date | None = None,
    project: str | None = None,
    title: str = "",
    tags: tuple[str, ...] = (),
) -> RecordDraft:
    """A record as a file states it; one passage unless they are given."""
    words = [text] if passages is None else list(passages)
    return RecordDraft(
        key=key,
        stated_id=stated,
        type=kind,
        high=high,
        date=date,
        project=project,
        tags=tags,
        title=title,
        text=text if passages is None else "\n\n".join(words),
        line=1,
        passages=tuple(
            PassageDraft(ordinal=ordinal, title_path=title, text=word, line=1)
            for ordinal, word in enumerate(words)
        ),
    )


def change(path: str, *drafts: RecordDraft, problems: tuple[Problem, ...] = ()) -> FileChange:
    """A file that was parsed into these records."""
    return FileChange(
        state=FileState(path=path, size=1, mtime_ns=1, sha256="0" * 64, settled=True),
        drafts=drafts,
        problems=problems,
    )


def put(ledger: Ledger, path: str, *drafts: RecordDraft, today: dt.date = DAY) -> None:
    """Store one file."""
    ledger.apply([change(path, *drafts)], today=today)


def ids(ledger: Ledger) -> list[str]:
    """Every record's id in the order first seen."""
    return [record.id for record in ledger.snapshot_records()]


def first_seen(ledger: Ledger) -> dict[str, int]:
    """Each record's text and its place in the order first seen."""
    return {record.text: record.first_seen for record in ledger.snapshot_records()}


def passage_ids(ledger: Ledger) -> dict[str, int]:
    """Text of each live passage and its id."""
    return {passage.text: passage.id for passage in ledger.all_passages()}


# Opening


def test_files_are_private(path: Path, ledger: Ledger) -> None:
    """The ledger and what SQLite lays beside it are for their owner alone."""
    put(ledger, "a.md", draft("a.md"))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"ledger.sqlite3": 0o600, "ledger.sqlite3-wal": 0o600, "ledger.sqlite3-shm": 0o600}


def test_loose_mode_is_tightened(path: Path) -> None:
    """A ledger that others could read is made private when it is opened."""
    Ledger.open(path).close()
    path.chmod(0o644)
    Ledger.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_state_survives_reopening(path: Path) -> None:
    """What one process stored, the next one reads, and nothing lies beside a closed ledger."""
    with Ledger.open(path) as ledger:
        put(ledger, "a.md", draft("a.md", date=DAY, tags=("db", "ops"), project="billing", title="Dumps"))
        before = ledger.record(RecordId("a.md"))
    assert [file.name for file in path.parent.iterdir()] == ["ledger.sqlite3"]
    with Ledger.open(path) as ledger:
        assert ledger.record(RecordId("a.md")) == before
        assert before is not None
        assert (before.tags, before.project, before.dated, before.first_seen) == (
            ("db", "ops"),
            "billing",
            True,
            1,
        )


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_is_no_database_is_refused(path: Path, verify: bool) -> None:
    """Bytes of another kind are told apart and left as they are."""
    path.parent.mkdir()
    path.write_bytes(b"# Not a ledger\n" * 500)
    with pytest.raises(LedgerError, match=r"damaged \(file is not a database\).*recall rebuild"):
        Ledger.open(path, verify=verify)
    assert path.read_bytes() == b"# Not a ledger\n" * 500


def test_another_programs_database_is_refused(path: Path) -> None:
    """A database of another program gets no tables of ours."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


@pytest.mark.parametrize("harm", ["cut short", "overwritten"])
def test_damage_is_found_when_opening(path: Path, harm: str) -> None:
    """A ledger that lost its end, or had a page overwritten, is refused with a way out."""
    with Ledger.open(path) as ledger:
        for number in range(200):
            put(ledger, f"{number}.md", draft(f"{number}.md", "word " * 200 + str(number)))
    size = path.stat().st_size
    with path.open("r+b") as file:
        if harm == "cut short":
            file.truncate(size // 2)
        else:
            file.seek(size // 2 // 4096 * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(
        LedgerError, match=r"the ledger is damaged .*`recall rebuild`: either sets the file aside"
    ):
        Ledger.open(path)


def test_a_folder_without_access_is_an_error_of_ours(tmp_path: Path) -> None:
    """A place where no file can be made is reported as such."""
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger.open(tmp_path / "state" / "ledger.sqlite3")


# Versions


def test_a_newer_schema_step_is_applied_once(path: Path) -> None:
    """A ledger of an older version is brought up to date and keeps its rows."""
    with Ledger.open(path) as ledger:
        put(ledger, "a.md", draft("a.md"))
    steps = [*MIGRATIONS, lambda db: db.execute("ALTER TABLE records ADD COLUMN mood TEXT DEFAULT 'calm'")]
    for _ in range(2):
        database = Database(path, verify=True, migrations=steps)
        with database.read() as db:
            assert db.execute("SELECT id, mood FROM records").fetchall() == [("a.md", "calm")]
            assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
        database.close()


def test_an_unknown_version_is_refused(path: Path) -> None:
    """An older Recall does not write to a newer one's ledger."""
    Database(path, verify=True, migrations=[*MIGRATIONS, lambda db: None]).close()
    with pytest.raises(LedgerError, match="written by a newer Recall"):
        Ledger.open(path)


def test_a_failing_step_changes_nothing(path: Path) -> None:
    """A step that fails half-way leaves the ledger at its old version, still usable."""

    def fail(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (done)")
        db.execute("SELECT * FROM no_such_table")

    Ledger.open(path).close()
    with pytest.raises(LedgerError, match="no_such_table"):
        Database(path, verify=True, migrations=[*MIGRATIONS, fail])
    with Ledger.open(path) as ledger:
        put(ledger, "a.md", draft("a.md"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)


# Records and their identity


def test_order_and_day_first_seen(ledger: Ledger) -> None:
    """Records are numbered by path and place, whatever the order of the batch; undated ones get the day."""
    ledger.apply(
        [
            change("b.md", draft("b.md", "two")),
            change("a.md", draft("a.md#1", "one", date=DAY), draft("a.md#2", "three")),
        ],
        today=LATER,
    )
    records = ledger.snapshot_records()
    assert [(record.id, record.first_seen) for record in records] == [
        ("a.md#1", 1),
        ("a.md#2", 2),
        ("b.md", 3),
    ]
    assert [(record.date, record.dated) for record in records] == [
        (DAY, True),
        (LATER, False),
        (LATER, False),
    ]


def test_the_day_first_seen_survives_edits(ledger: Ledger) -> None:
    """An undated record keeps its first day when its text, its place or its date line change."""
    put(ledger, "a.md", draft("a.md", "old"))
    put(ledger, "a.md", draft("a.md", "new", date=LATER), today=LATER)
    put(ledger, "a.md", draft("a.md", "newest"), today=LATER)
    (record,) = ledger.snapshot_records()
    assert (record.text, record.date, record.dated, record.first_seen) == ("newest", DAY, False, 1)


def test_a_path_used_again_gets_another_id(ledger: Ledger) -> None:
    """A new file where a renamed one was does not take its name."""
    put(ledger, "a.md", draft("a.md", "first"))
    ledger.relocate({"a.md": "b.md"})
    put(ledger, "b.md", draft("b.md", "first"))
    put(ledger, "a.md", draft("a.md", "second"))
    put(ledger, "a.md#x.md", draft("a.md", "third"))
    records = ledger.snapshot_records()
    assert [(record.id, record.path) for record in records] == [
        ("a.md", "b.md"),
        ("a.md~2", "a.md"),
        ("a.md~3", "a.md#x.md"),
    ]


def test_equal_stated_ids_are_a_problem_until_mended(ledger: Ledger) -> None:
    """Two files of one `id:` are both kept, named with both places, and the word goes when one is gone."""
    ledger.apply(
        [
            change("a.md", draft("dumps", "one", stated=True)),
            change("b.md", draft("dumps", "two", stated=True)),
        ],
        today=DAY,
    )
    assert ids(ledger) == ["dumps", "dumps~2"]
    (problem,) = ledger.problems()
    assert (problem.path, problem.line, problem.fatal) == ("b.md", 1, False)
    assert "'dumps'" in problem.message
    assert "a.md:1" in problem.message
    ledger.apply([], vanished=["a.md"], today=DAY)
    assert ledger.problems() == []
    assert [(record.id, record.text) for record in ledger.snapshot_records()] == [("dumps", "two")]


def test_a_stated_id_moves_between_files(ledger: Ledger) -> None:
    """A record cut from one file and pasted into another one stays itself, edited on the way or not."""
    put(ledger, "a.md", draft("dumps", "one", stated=True, passages=["one", "more"]))
    put(ledger, "b.md", draft("b.md", "bystander"))
    before, seq = passage_ids(ledger), ledger.head_seq()
    ledger.apply(
        [
            change(
                "b.md", draft("b.md", "bystander"), draft("dumps", stated=True, passages=["one", "edited"])
            ),
            change("a.md"),
        ],
        today=LATER,
    )
    record = ledger.record(RecordId("dumps"))
    assert record is not None
    assert (record.path, record.first_seen, record.date) == ("b.md", 1, DAY)
    assert passage_ids(ledger)["one"] == before["one"]
    changes = ledger.changes_since(seq)
    assert changes is not None
    assert changes.touched == [before["one"]]


def test_two_files_swap_their_stated_ids(ledger: Ledger) -> None:
    """The `id:` says which record is which, not the file."""
    ledger.apply(
        [change("a.md", draft("x", "one", stated=True)), change("b.md", draft("y", "two", stated=True))],
        today=DAY,
    )
    ledger.apply(
        [change("a.md", draft("y", "two", stated=True)), change("b.md", draft("x", "one", stated=True))],
        today=LATER,
    )
    assert [(r.id, r.path, r.first_seen) for r in ledger.snapshot_records()] == [
        ("x", "b.md", 1),
        ("y", "a.md", 2),
    ]


def test_giving_an_id_keeps_the_record(ledger: Ledger) -> None:
    """A person who adds `id:` to a note renames its record, in the recent windows too."""
    put(ledger, "a.md", draft("a.md", "one"))
    ledger.set_window("", [RecordId("other"), RecordId("a.md")])
    seq = ledger.head_seq()
    put(ledger, "a.md", draft("dumps", "one", stated=True), today=LATER)
    (record,) = ledger.snapshot_records()
    assert (record.id, record.first_seen, record.date) == ("dumps", 1, DAY)
    assert ledger.window("") == ("other", "dumps")
    changes = ledger.changes_since(seq)
    assert changes is not None
    assert changes.touched == [passage.id for passage in ledger.all_passages()]


def test_of_two_stated_twins_one_gives_its_id_up(ledger: Ledger) -> None:
    """Each file's record stays its own, and the other one has the id for itself."""
    twins = [change(f"{name}.md", draft("x", name, stated=True)) for name in "ab"]
    ledger.apply(twins, today=DAY)
    ledger.apply(
        [change("a.md", draft("a.md", "a, edited")), change("b.md", draft("x", "b, edited", stated=True))],
        today=LATER,
    )
    assert [(record.id, record.text) for record in ledger.snapshot_records()] == [
        ("a.md", "a, edited"),
        ("x", "b, edited"),
    ]


def test_headings_tell_equal_texts_apart(ledger: Ledger) -> None:
    """Two parts that say the same are told by their headings."""
    put(ledger, "a.md", draft("a.md#A", "same"), draft("a.md#B", "same"))
    put(ledger, "a.md", draft("a.md#B", "same"), draft("a.md#A", "same, edited"))
    assert [(record.id, record.text) for record in ledger.snapshot_records()] == [
        ("a.md#A", "same, edited"),
        ("a.md#B", "same"),
    ]


def test_another_id_and_other_words_are_another_record(ledger: Ledger) -> None:
    """A file given over to another stated record does not hand its first day on."""
    put(ledger, "a.md", draft("x", "one", stated=True))
    put(ledger, "a.md", draft("y", "two", stated=True), today=LATER)
    (record,) = ledger.snapshot_records()
    assert (record.id, record.first_seen, record.date) == ("y", 2, LATER)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["A", "B", "C"], ["X", "A", "B", "C"], {"X": 4, "A": 1, "B": 2, "C": 3}),
        (["A", "B", "C"], ["X", "A", "B'", "C"], {"X": 4, "A": 1, "B'": 2, "C": 3}),
        (["A", "B", "C"], ["C", "A", "B"], {"A": 1, "B": 2, "C": 3}),
        (["A", "B", "C"], ["A", "C"], {"A": 1, "C": 3}),
        (["A", "B"], ["A", "B'", "C"], {"A": 1, "B'": 2, "C": 3}),
        (["A", "B"], ["A'", "B'"], {"A'": 1, "B'": 2}),
    ],
)
@pytest.mark.parametrize("name", [None, "list"])
def test_items_of_a_file(
    ledger: Ledger, before: list[str], after: list[str], expected: dict[str, int], name: str | None
) -> None:
    """Items keep their identity when others come before them, move, go or change, below an `id:` too."""

    def items(words: list[str]) -> list[RecordDraft]:
        return [
            draft(f"{name or 'a.md'}#{number}", word, stated=name is not None)
            for number, word in enumerate(words, 1)
        ]

    put(ledger, "a.md", *items(before))
    put(ledger, "a.md", *items(after), today=LATER)
    assert first_seen(ledger) == expected
    assert len(set(ids(ledger))) == len(after)
    assert ledger.problems() == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({"Dumps": "one", "Locks": "two"}, {"one": 1, "two": 2}),
        ({"Locks": "two", "Backups": "one"}, {"one": 1, "two": 2}),
        ({"New": "three", "Locks": "two", "Dumps": "one, edited"}, {"three": 3, "two": 2, "one, edited": 1}),
        ({"Backups": "one, edited", "Locks": "two"}, {"one, edited": 1, "two": 2}),
    ],
    ids=["same", "reworded and moved", "edited and moved", "reworded and edited"],
)
def test_headings_of_a_file(ledger: Ledger, after: dict[str, str], expected: dict[str, int]) -> None:
    """Records by heading keep their identity as long as heading, text or neighbours tell who they are."""

    def sections(texts: dict[str, str]) -> list[RecordDraft]:
        return [draft(f"a.md#{heading}", text, title=heading) for heading, text in texts.items()]

    put(ledger, "a.md", *sections({"Dumps": "one", "Locks": "two"}))
    put(ledger, "a.md", *sections(after))
    assert first_seen(ledger) == expected


def test_a_record_out_of_sight_for_a_while_is_the_same(ledger: Ledger) -> None:
    """A note that vanishes and comes back, even elsewhere, has its day, its number and its id again."""
    put(ledger, "a.md", draft("a.md", "one"))
    put(ledger, "b.md", draft("b.md", "two"))
    ledger.apply([], vanished=["a.md"], today=DAY)
    assert ids(ledger) == ["b.md"]
    put(ledger, "c.md", draft("c.md", "one"), today=LATER)
    records = ledger.snapshot_records()
    assert [(record.id, record.path, record.date) for record in records] == [
        ("a.md", "c.md", DAY),
        ("b.md", "b.md", DAY),
    ]


def test_a_stated_record_comes_back_edited(ledger: Ledger) -> None:
    """A record with an `id:` is known again by that alone."""
    put(ledger, "a.md", draft("dumps", "one", stated=True))
    put(ledger, "b.md", draft("b.md", "two"))
    ledger.apply([], vanished=["a.md"], today=DAY)
    put(ledger, "c.md", draft("dumps", "one, edited", stated=True), today=LATER)
    record = ledger.record(RecordId("dumps"))
    assert record is not None
    assert (record.text, record.first_seen, record.date) == ("one, edited", 1, DAY)


def test_a_record_gone_for_long_is_forgotten(ledger: Ledger) -> None:
    """After thirty days the same words are a new record."""
    put(ledger, "a.md", draft("a.md", "one"))
    ledger.apply([], vanished=["a.md"], today=DAY)
    ledger.prune(today=DAY + dt.timedelta(days=31))
    put(ledger, "a.md", draft("a.md", "one"), today=LATER)
    (record,) = ledger.snapshot_records()
    assert (record.first_seen, record.date) == (2, LATER)


def test_last_good_records_stay_beside_a_problem(ledger: Ledger) -> None:
    """A file that cannot be read any more costs nothing, and its problem goes when it is mended."""
    put(ledger, "a.md", draft("a.md", "good"))
    broken = Problem(path="a.md", line=3, message="not YAML.", fatal=True)
    state = FileState(path="a.md", size=9, mtime_ns=9, sha256="f" * 64, settled=True)
    applied = ledger.apply([FileChange(state=state, drafts=None, problems=(broken,))], today=LATER)
    assert (applied.added, applied.changed, applied.removed) == (0, 0, 0)
    assert ledger.problems() == [broken]
    assert ledger.files()["a.md"] == state
    put(ledger, "a.md", draft("a.md", "better"), today=LATER)
    assert ledger.problems() == []
    assert first_seen(ledger) == {"better": 1}


def test_a_batch_is_stored_whole_or_not_at_all(ledger: Ledger) -> None:
    """When one record of a batch cannot be stored, the batch changes nothing."""
    put(ledger, "a.md", draft("a.md", "good"))
    seq = ledger.head_seq()
    with pytest.raises(UnicodeEncodeError):
        ledger.apply(
            [change("a.md", draft("a.md", "edited")), change("b.md", draft("b.md", "lone \ud800"))], today=DAY
        )
    assert (ledger.head_seq(), first_seen(ledger), list(ledger.files())) == (seq, {"good": 1}, ["a.md"])


# Passages and the change log


def test_an_edit_keeps_the_passages_it_did_not_touch(ledger: Ledger) -> None:
    """Only what changed gets a new id; what moved keeps its id and is told as touched."""
    put(ledger, "a.md", draft("a.md", passages=["one", "two", "three"]))
    before, seq = passage_ids(ledger), ledger.head_seq()
    put(ledger, "a.md", draft("a.md", passages=["zero", "one", "two, edited", "three"]))
    after = passage_ids(ledger)
    changes = ledger.changes_since(seq)
    assert changes is not None
    assert {text: after[text] for text in ("one", "three")} == {
        text: before[text] for text in ("one", "three")
    }
    assert [passage.text for passage in changes.added] == ["zero", "two, edited"]
    assert changes.removed == [before["two"]]
    assert changes.touched == [before["one"], before["three"]]
    facts = ledger.passage_facts()
    assert dict(zip(facts.ids.tolist(), facts.ordinals.tolist(), strict=True)) == {
        after["zero"]: 0,
        after["one"]: 1,
        after["two, edited"]: 2,
        after["three"]: 3,
    }


def test_storing_the_same_again_logs_nothing(ledger: Ledger) -> None:
    """A file that says what it said leaves the change log alone."""
    put(ledger, "a.md", draft("a.md", passages=["one", "one", "two"]))
    seq = ledger.head_seq()
    applied = ledger.apply([change("a.md", draft("a.md", passages=["one", "one", "two"]))], today=LATER)
    assert (ledger.head_seq(), applied.changed) == (seq, 0)


@pytest.mark.parametrize(
    "edited",
    [
        {"kind": RecordType.CONCLUSION},
        {"high": True},
        {"date": LATER},
        {"project": "billing"},
        {"tags": ("db",)},
        {"passages": ["Take a dump", "first."]},
    ],
    ids=lambda edited: next(iter(edited)),
)
def test_every_change_moves_the_log(ledger: Ledger, edited: dict[str, object]) -> None:
    """Whatever a follower could show differently, it is told about."""
    put(ledger, "a.md", draft("a.md"))
    seq = ledger.head_seq()
    applied = ledger.apply([change("a.md", draft("a.md", **edited))], today=DAY)  # type: ignore[arg-type]
    changes = ledger.changes_since(seq)
    assert changes is not None
    assert changes.seq > seq
    assert changes.touched or changes.added
    assert applied.changed == 1


def test_white_space_between_passages_moves_the_log(ledger: Ledger) -> None:
    """A text that differs while its passages do not is still another text."""
    before = draft("a.md", passages=["one", "two"])
    put(ledger, "a.md", before)
    seq = ledger.head_seq()
    applied = ledger.apply([change("a.md", replace(before, text="one\n\n\ntwo"))], today=DAY)
    assert applied.changed == 1
    assert ledger.head_seq() > seq
    assert first_seen(ledger) == {"one\n\n\ntwo": 1}


def test_a_position_the_log_does_not_know_means_start_anew(path: Path, tmp_path: Path) -> None:
    """Followers of no ledger, of an earlier one, of a pruned stretch and of the future get None."""
    with Ledger.open(path) as old:
        put(old, "a.md", draft("a.md"))
        stale = old.head_seq()
    with Ledger.open(tmp_path / "fresh" / "ledger.sqlite3") as ledger:
        for number in range(5):
            put(ledger, "a.md", draft("a.md", f"edit {number}"))
        start = ledger.head_seq() - 9
        assert ledger.changes_since(0) is None
        assert ledger.changes_since(stale) is None
        assert ledger.changes_since(ledger.head_seq() + 1) is None
        assert ledger.changes_since(start) is not None
        ledger.prune(today=DAY, keep_changes=3)
        assert ledger.changes_since(start) is None
        assert ledger.changes_since(ledger.head_seq() - 3) is not None


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "c.md"]),
        st.none() | st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=1, max_size=4),
        st.sampled_from(RecordType),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(edits=EDITS, positions=st.lists(st.integers(0, 12), max_size=3))
def test_replaying_the_log_from_anywhere_gives_what_is_live(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[str, list[str] | None, RecordType]],
    positions: list[int],
) -> None:
    """A follower that looks now and then, and sees some stretches twice, holds exactly the live passages."""
    with Ledger.open(tmp_path_factory.mktemp("state") / "ledger.sqlite3", verify=False) as ledger:
        start = ledger.head_seq()
        held: dict[int, str] = {}
        seen = [start]
        for number, (name, words, kind) in enumerate(edits):
            if words is None:
                ledger.apply([], vanished=[name], today=DAY)
            else:
                put(ledger, name, draft(name, passages=words, kind=kind))
            if number in positions:
                held, position = follow(ledger, held, seen[-1])
                seen.append(position)
        for position in (seen[-1], start):  # the second time everything comes again
            held, _ = follow(ledger, held, position)
            assert held == {passage.id: passage.text for passage in ledger.all_passages()}
        facts = ledger.passage_facts()
        assert facts.ids.tolist() == sorted(held)
        assert facts.seq == ledger.head_seq()


def follow(ledger: Ledger, held: dict[int, str], seq: int) -> tuple[dict[int, str], int]:
    """What a follower holds after it has read the log from `seq`."""
    changes = ledger.changes_since(seq)
    assert changes is not None
    gone = set(changes.removed)
    kept = {passage_id: text for passage_id, text in held.items() if passage_id not in gone}
    return kept | {passage.id: passage.text for passage in changes.added}, changes.seq


def test_the_stream_overlaps_with_the_log_that_follows(ledger: Ledger) -> None:
    """What changes while all passages are read is named again from the stream's position."""
    put(ledger, "a.md", *[draft(f"a.md#{number}", f"item {number}") for number in range(2_500)])
    stream = ledger.all_passages()
    held = {next(stream).id}
    put(ledger, "b.md", draft("b.md", "late"))
    put(ledger, "a.md", *[draft(f"a.md#{number}", f"item {number}") for number in range(1, 2_499)])
    held |= {passage.id for passage in stream}
    changes = ledger.changes_since(stream.seq)
    assert changes is not None
    held = held - set(changes.removed) | {passage.id for passage in changes.added}
    assert held == set(ledger.passage_facts().ids.tolist())
    assert len(held) == 2_499


def test_reads_by_id_leave_out_what_is_gone(ledger: Ledger) -> None:
    """Asking for many ids at once gives those that live, more than SQLite takes in one statement."""
    put(ledger, "a.md", *[draft(f"a.md#{number}", f"item {number}") for number in range(1_200)])
    every = [RecordId(f"a.md#{number}") for number in range(1_201)]
    assert len(ledger.records(every)) == 1_200
    wanted = ledger.passage_facts().ids.tolist()
    assert list(ledger.passages([*wanted, 99_999])) == wanted
    assert (ledger.file_count(), ledger.record_count(), ledger.passage_count()) == (1, 1_200, 1_200)


def test_snapshot_records_and_projects(ledger: Ledger) -> None:
    """Knowledge stands in no snapshot, but its project is one that has records."""
    ledger.add_drafts(
        [draft(str(kind), str(kind), stated=True, kind=kind, project=f"p-{kind}") for kind in RecordType],
        today=DAY,
    )
    assert ids(ledger) == ["profile", "lesson", "conclusion"]
    assert ledger.project_names() == ["p-conclusion", "p-knowledge", "p-lesson", "p-profile"]


# Vectors


def test_vectors_come_back_as_they_were(ledger: Ledger) -> None:
    """Float32 vectors survive to the bit; unknown texts and models have none."""
    vectors = np.random.default_rng(7).standard_normal((3, 8)).astype(np.float32)
    ledger.put_vectors("e5", zip(["a", "b", "c"], vectors, strict=True))
    found = ledger.vectors("e5", ["c", "a", "nobody"])
    assert {sha: vector.tobytes() for sha, vector in found.items()} == {
        "a": vectors[0].tobytes(),
        "c": vectors[2].tobytes(),
    }
    assert ledger.vectors("minilm", ["a"]) == {}
    assert (ledger.vector_dimension("e5"), ledger.vector_dimension("minilm")) == (8, None)


def test_missing_vectors_follow_the_vault(ledger: Ledger) -> None:
    """Texts without a vector are offered once, profiles never, new or newly searchable ones later."""
    put(ledger, "a.md", draft("a.md", passages=["one", "two", "one"]))
    put(ledger, "me.md", draft("me.md", "me", kind=RecordType.PROFILE))
    missing = ledger.missing_vectors("e5", 10)
    assert [text for _, text in missing] == ["\none", "\ntwo"]
    assert {sha for sha, _ in missing} == {
        passage.text_sha256 for passage in ledger.all_passages() if passage.text != "me"
    }
    assert ledger.missing_vectors("e5", 1) == missing[:1]
    ledger.put_vectors("e5", [(sha, [1.0, 0.0]) for sha, _ in missing])
    assert ledger.missing_vectors("e5", 10) == []
    put(ledger, "b.md", draft("b.md", "three"))
    assert [text for _, text in ledger.missing_vectors("e5", 10)] == ["\nthree"]
    ledger.put_vectors("e5", [(sha, [1.0, 0.0]) for sha, _ in ledger.missing_vectors("e5", 10)])
    assert ledger.missing_vectors("e5", 10) == []
    put(ledger, "me.md", draft("me.md", "me", kind=RecordType.LESSON))
    assert [text for _, text in ledger.missing_vectors("e5", 10)] == ["\nme"]
    assert len(ledger.missing_vectors("minilm", 10)) == 4


def test_missing_vectors_after_the_log_was_pruned(ledger: Ledger) -> None:
    """A position below the pruned log is no reason to overlook a text that became searchable."""
    put(ledger, "me.md", draft("me.md", "me", kind=RecordType.PROFILE))
    assert ledger.missing_vectors("e5", 10) == []
    put(ledger, "me.md", draft("me.md", "me", kind=RecordType.LESSON))
    ledger.prune(today=DAY, keep_changes=0)
    assert [text for _, text in ledger.missing_vectors("e5", 10)] == ["\nme"]


@pytest.mark.parametrize("blob", [b"", b"\x00" * 5, b"\x00" * 12, np.array([1, np.nan], "<f4").tobytes()])
def test_a_broken_vector_counts_as_missing(path: Path, ledger: Ledger, blob: bytes) -> None:
    """A vector cut short, too long or not finite is never handed out, and made anew."""
    put(ledger, "a.md", draft("a.md", "one"))
    put(ledger, "b.md", draft("b.md", "two"))
    missing = ledger.missing_vectors("e5", 10)
    ledger.put_vectors("e5", [(sha, [0.6, 0.8]) for sha, _ in missing])
    (one, _), (two, _) = missing
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE vectors SET vector = ? WHERE text_sha256 = ?", (blob, one))
    assert list(ledger.vectors("e5", [one, two])) == [two]
    assert ledger.missing_vectors("e5", 10) == [missing[0]]
    ledger.put_vectors("e5", [(one, [0.6, 0.8])])
    assert ledger.missing_vectors("e5", 10) == []
    assert set(ledger.vectors("e5", [one, two])) == {one, two}


@pytest.mark.parametrize(
    "items", [[("a", [1.0]), ("b", [1.0, 2.0])], [("a", [1.0, float("inf")])], [("a", [])], [("a", [[1.0]])]]
)
def test_vectors_that_cannot_be_right_are_refused(ledger: Ledger, items: list[tuple[str, object]]) -> None:
    """An encoder that gives several lengths, nothing, or no numbers does not get into the ledger."""
    with pytest.raises(ValueError, match="wanted"):
        ledger.put_vectors("e5", items)  # type: ignore[arg-type]
    assert ledger.vectors("e5", ["a", "b"]) == {}


def test_a_model_that_changes_its_length_starts_afresh(ledger: Ledger) -> None:
    """Vectors of another length under a known name replace all that were there."""
    put(ledger, "a.md", draft("a.md", passages=["one", "two"]))
    (one, _), (two, _) = ledger.missing_vectors("mine", 10)
    ledger.put_vectors("mine", [(one, [1.0]), (two, [1.0])])
    assert ledger.missing_vectors("mine", 10) == []
    ledger.put_vectors("mine", [(one, [1.0, 0.0])])
    assert [sha for sha, _ in ledger.missing_vectors("mine", 10)] == [two]
    assert ledger.vector_dimension("mine") == 2


def test_vectors_outlive_their_text_by_thirty_days(ledger: Ledger) -> None:
    """A text that comes back in time is not embedded again."""
    put(ledger, "a.md", draft("a.md", "one"))
    ((sha, _),) = ledger.missing_vectors("e5", 10)
    ledger.put_vectors("e5", [(sha, [1.0])])
    ledger.apply([], vanished=["a.md"], today=DAY)
    ledger.prune(today=DAY)
    ledger.prune(today=DAY + dt.timedelta(days=30))
    put(ledger, "a.md", draft("a.md", "one"))
    ledger.prune(today=DAY + dt.timedelta(days=60))  # lives again: the count starts anew when it goes
    assert list(ledger.vectors("e5", [sha])) == [sha]
    ledger.apply([], vanished=["a.md"], today=DAY)
    ledger.prune(today=DAY + dt.timedelta(days=61))
    ledger.prune(today=DAY + dt.timedelta(days=92))
    assert ledger.vectors("e5", [sha]) == {}


# Scopes


def test_windows_are_kept_in_order(ledger: Ledger) -> None:
    """Each scope has its own window, and none before it was set."""
    assert ledger.window("") == ()
    ledger.set_window("", [RecordId("b"), RecordId("a"), RecordId("ก.md")])
    ledger.set_window("billing", [RecordId("c")])
    ledger.set_window("billing", [])
    assert (ledger.window(""), ledger.window("billing")) == (("b", "a", "ก.md"), ())


def test_the_last_sixteen_manifests_of_each_scope_are_known(ledger: Ledger) -> None:
    """Older snapshots are forgotten scope by scope; one published again is young again."""

    def publish(scope: str, number: int) -> None:
        shown = [SimpleNamespace(record_id=f"r{number}", slot=3, text=f"text {number}")]
        ledger.remember_manifest(scope, bytes([number]) * 32, text=f"snapshot {number}", shown=shown)

    publish("billing", 0)
    for number in range(16):
        publish("", number)
    publish("", 0)
    publish("", 16)
    known = [number for number in range(17) if ledger.manifest("", bytes([number]) * 32)]
    assert known == [0, *range(2, 17)]
    assert sorted(ledger.manifests(bytes([0]) * 32)) == ["", "billing"]
    manifest = ledger.manifest("", bytes([16]) * 32)
    assert manifest is not None
    assert manifest.text == "snapshot 16"
    assert [(item.record_id, item.slot, item.text) for item in manifest.shown] == [("r16", 3, "text 16")]


def test_the_same_snapshot_again_is_not_written(path: Path, ledger: Ledger) -> None:
    """Publishing every two seconds what was published before leaves the disk alone."""
    for _ in range(2):
        with closing(sqlite3.connect(path)) as other:
            before = other.execute("PRAGMA data_version").fetchone()
            ledger.remember_manifest("", b"1" * 32, text="snapshot", shown=[])
            written = other.execute("PRAGMA data_version").fetchone() != before
    assert not written


def test_projects_bind_any_directory(ledger: Ledger) -> None:
    """A directory's bytes come back as they were, also when they are not UTF-8."""
    directory = Path(os.fsdecode(b"/srv/caf\xe9"))
    ledger.bind_project("billing", Path("/elsewhere"))
    ledger.bind_project("billing", directory)
    assert ledger.project_directory("billing") == directory
    assert ledger.project_directory("other") is None


def test_meta(ledger: Ledger) -> None:
    """Small facts are kept under their names."""
    assert ledger.get_meta("vault") is None
    ledger.set_meta("vault", "one")
    ledger.set_meta("vault", "two")
    assert ledger.get_meta("vault") == "two"


# Several at once


def test_readers_see_whole_batches_while_one_writes(ledger: Ledger) -> None:
    """Two threads read what a third one writes, and never half of it."""
    size, rounds = 40, 25
    finished = threading.Event()
    faults: list[str] = []

    def read() -> None:
        while not finished.is_set():
            records = ledger.snapshot_records()
            facts = ledger.passage_facts()
            versions = {record.text.split()[0] for record in records}
            if len(records) not in (0, size) or len(versions) > 1 or len(facts.ids) not in (0, size):
                faults.append(f"records={len(records)} versions={versions} passages={len(facts.ids)}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for version in range(rounds):
        ledger.apply([change(f"{n}.md", draft(f"{n}.md", f"{version} {n}")) for n in range(size)], today=DAY)
    finished.set()
    for reader in readers:
        reader.join()
    assert not faults
    assert {record.text.split()[0] for record in ledger.snapshot_records()} == {str(rounds - 1)}


def test_a_read_does_not_wait_for_a_write(path: Path, ledger: Ledger) -> None:
    """While another connection is in the middle of a write, reads go on and a write waits its turn."""
    put(ledger, "a.md", draft("a.md", "one"))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE records SET text = 'half done'")
    assert first_seen(ledger) == {"one": 1}
    writer = threading.Thread(target=put, args=(ledger, "b.md", draft("b.md", "two")))
    writer.start()
    assert first_seen(ledger) == {"one": 1}
    assert writer.is_alive()
    other.execute("ROLLBACK")
    writer.join()
    other.close()
    assert first_seen(ledger) == {"one": 1, "two": 2}


def test_one_read_sees_one_commit(path: Path) -> None:
    """All queries of a read transaction see the same state, whatever is written meanwhile."""
    database = Database(path, verify=True)
    query = "SELECT value FROM meta WHERE key = 'mood'"
    with database.read() as reading:
        assert reading.execute(query).fetchone() is None
        with database.write() as writing:
            writing.execute("INSERT INTO meta VALUES ('mood', 'calm')")
        assert reading.execute(query).fetchone() is None
    with database.read() as reading:
        assert reading.execute(query).fetchone() == ("calm",)
    database.close()


def test_a_closed_ledger_says_so(path: Path) -> None:
    """Nothing is read or written after the end, and closing twice does no harm."""
    ledger = Ledger.open(path)
    stream = ledger.all_passages()
    ledger.close()
    ledger.close()
    for attempt in (ledger.head_seq, lambda: next(stream), lambda: put(ledger, "a.md", draft("a.md"))):
        with pytest.raises(LedgerError, match="closed already"):
            attempt()


WRITER = """
import datetime as dt, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from recall_worker.ledger import Ledger
from test_ledger import change, draft

with Ledger.open(Path({path!r})) as ledger:
    for batch in range(10_000):
        names = [f"{{batch:05}}-{{number}}.md" for number in range(5)]
        ledger.apply([change(name, draft(name, name)) for name in names], today=dt.date(2026, 11, 2))
        print(batch, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 7, 60])
def test_kill_9_loses_nothing_acknowledged(path: Path, acknowledged: int) -> None:
    """After the writer was killed, every batch it reported is there, and none in part."""
    code = WRITER.format(paths=[str(Path(__file__).parent)], path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    with Ledger.open(path) as ledger:
        batches: dict[str, int] = {}
        for record in ledger.snapshot_records():
            batches[record.text[:5]] = batches.get(record.text[:5], 0) + 1
        assert set(batches.values()) == {5}
        assert last + 1 <= len(batches) <= last + 2
        assert ledger.passage_count() == 5 * len(batches)


FULL_DISK = """
import resource, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from recall_worker.errors import LedgerError
from recall_worker.ledger import Ledger
from test_ledger import draft, put

with Ledger.open(Path({path!r})) as ledger:
    put(ledger, "a.md", draft("a.md", "one"))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, most))
    try:
        put(ledger, "b.md", draft("b.md", "x" * 1_000_000))
    except LedgerError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    put(ledger, "c.md", draft("c.md", "three"))
"""


def test_a_full_disk_undoes_the_batch(path: Path) -> None:
    """A write that the disk refuses is undone and reported, and the next one works."""
    code = FULL_DISK.format(paths=[str(Path(__file__).parent)], path=str(path))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "The last change was undone." in run.stdout
    with Ledger.open(path) as ledger:
        assert first_seen(ledger) == {"one": 1, "three": 2}
