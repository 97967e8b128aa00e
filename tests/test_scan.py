"""The scan sees what changed in a vault, and keeps every record's identity through it."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recall_worker.errors import VaultError
from recall_worker.ledger import FileChange, Ledger
from recall_worker.notes import parse_note
from recall_worker.records import Record, RecordDraft, RecordId, RecordType
from recall_worker.scan import BATCH_FILES, ScanReport, scan

DAY = dt.date(2026, 11, 2)
LATER = dt.date(2026, 11, 9)
MAX_BYTES = 10_000
VAULT_TIL = Path(__file__).parents[1] / "../shared/data/vault-til"


def may_read_everything() -> bool:
    """True if permissions do not hold this process, as with root."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        return os.access(file.name, os.R_OK)


held_by_permissions = pytest.mark.skipif(may_read_everything(), reason="this user may read everything")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.open(tmp_path / "state" / "ledger.sqlite3") as opened:
        yield opened


def write(vault: Path, path: str, text: str, *, age_s: float | None = 3_600) -> None:
    """Write a note that was last changed some time ago; None leaves its time at now."""
    file = vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if age_s is not None:
        then = time.time_ns() - int(age_s * 1e9)
        os.utime(file, ns=(then, then))


def look(
    vault: Path,
    ledger: Ledger,
    *,
    today: dt.date = DAY,
    full: bool = False,
    confirm_empty: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    """Scan, with a small limit of bytes."""
    return scan(
        vault,
        ledger,
        today=today,
        max_note_bytes=MAX_BYTES,
        full=full,
        confirm_empty=confirm_empty,
        progress=progress,
    )


def records(ledger: Ledger) -> dict[str, Record]:
    """Every record by its text."""
    seen = {passage.record_id for passage in ledger.all_passages()}
    found = sorted(ledger.records(seen).values(), key=lambda record: record.first_seen)
    return {record.text: record for record in found}


def places(ledger: Ledger) -> dict[str, tuple[str, str, int]]:
    """Text of every record: id, path, place in the order first seen."""
    return {text: (record.id, record.path, record.first_seen) for text, record in records(ledger).items()}


def fatal(ledger: Ledger) -> list[str]:
    """Paths of what could not be read."""
    return [problem.path for problem in ledger.problems() if problem.fatal]


@contextmanager
def commits(vault: Path) -> Iterator[Callable[[], int]]:
    """Counts from 0 the commits made to the ledger beside a vault, as SQLite tells another connection."""
    with closing(sqlite3.connect(vault.parent / "state" / "ledger.sqlite3")) as other:

        def version() -> int:
            return int(other.execute("PRAGMA data_version").fetchone()[0])

        start = version()
        yield lambda: version() - start


# What is read


def test_first_scan_goes_by_path(vault: Path, ledger: Ledger) -> None:
    """A first scan reads everything, in the order of paths, and reports what it found."""
    write(vault, "b.md", "second")
    write(vault, "a/z.md", "first")
    write(vault, "c.txt", "no note")
    report = look(vault, ledger)
    assert places(ledger) == {"first": ("a/z.md", "a/z.md", 1), "second": ("b.md", "b.md", 2)}
    assert (report.files, report.read, report.added, report.touched) == (2, 2, 2, 2)
    assert (report.changed, report.renamed, report.removed, report.problems) == (0, 0, 0, ())
    assert report.seq == ledger.head_seq()


def test_an_unchanged_vault_is_not_read(vault: Path, ledger: Ledger) -> None:
    """Size and time suffice to leave a file alone, and the disk too."""
    write(vault, "a.md", "one")
    look(vault, ledger)
    with commits(vault) as count_commits:
        report = look(vault, ledger)
        assert (report.files, report.read, report.touched, count_commits()) == (1, 0, 0, 0)


def test_new_rules_for_secrets_read_every_note_again(vault: Path, ledger: Ledger) -> None:
    """A note that has not changed is read once more when the rules have, and loses what they find."""
    write(vault, "a.md", "one")
    write(vault, "b.md", "Password: hunter2")
    assert look(vault, ledger).added == 1
    ledger.set_meta("secret_rules", "0")
    stale = FileChange(state=ledger.files()["b.md"], drafts=parsed("b.md", "Pass word: hunter2"), problems=())
    ledger.apply([stale], today=DAY)
    assert ledger.record_count() == 2
    report = look(vault, ledger)
    assert (report.read, report.removed, [problem.path for problem in report.problems]) == (2, 1, ["b.md"])
    assert look(vault, ledger).read == 0


def parsed(path: str, text: str) -> tuple[RecordDraft, ...]:
    """Records of a note that has no secret."""
    return parse_note(path, text.encode(), max_bytes=MAX_BYTES, today=DAY).records


def test_a_touched_file_changes_nothing(vault: Path, ledger: Ledger) -> None:
    """A new time over the old content costs one look and no entry in the change log."""
    write(vault, "a.md", "one")
    seq = look(vault, ledger).seq
    os.utime(vault / "a.md", (1, 1))
    report = look(vault, ledger)
    assert (report.read, report.touched, report.seq) == (1, 0, seq)
    assert look(vault, ledger).read == 0


def test_an_edit_within_the_clocks_tick_is_seen(vault: Path, ledger: Ledger) -> None:
    """A file edited right after it was read, to the same size in the same tick, is read again."""
    write(vault, "a.md", "one", age_s=0)
    stamp = (vault / "a.md").stat().st_mtime_ns
    look(vault, ledger)
    (vault / "a.md").write_text("two")
    os.utime(vault / "a.md", ns=(stamp, stamp))
    look(vault, ledger)
    assert list(records(ledger)) == ["two"]


@pytest.mark.parametrize("age_s", [60, -86_400], ids=["old", "from the future"])
def test_only_a_full_scan_mistrusts_size_and_time(vault: Path, ledger: Ledger, age_s: float) -> None:
    """A change that neither size nor time tells is found by reading everything again."""
    write(vault, "a.md", "one", age_s=age_s)
    stamp = (vault / "a.md").stat().st_mtime_ns
    look(vault, ledger)
    (vault / "a.md").write_text("two")
    os.utime(vault / "a.md", ns=(stamp, stamp))
    assert look(vault, ledger).read == 0
    report = look(vault, ledger, full=True)
    assert (report.read, report.changed) == (1, 1)
    assert list(records(ledger)) == ["two"]


def test_a_full_scan_of_the_same_logs_nothing(vault: Path, ledger: Ledger) -> None:
    """Reading everything again is no change in itself."""
    write(vault, "a.md", "---\nsplit: headings\nid: x\n---\n# A\none\n# B\ntwo\n")
    seq = look(vault, ledger).seq
    report = look(vault, ledger, full=True, today=LATER)
    assert (report.read, report.touched, report.seq) == (1, 0, seq)


def test_progress_counts_files(vault: Path, ledger: Ledger) -> None:
    """A first load reports each durable batch."""
    for number in range(BATCH_FILES + 3):
        write(vault, f"{number:04}.md", f"note {number}")
    seen: list[tuple[int, int, int]] = []
    look(vault, ledger, progress=lambda done, total: seen.append((done, total, ledger.record_count())))
    total = BATCH_FILES + 3
    assert seen == [(BATCH_FILES, total, BATCH_FILES), (total, total, total)]


# Renames


def test_a_rename_keeps_id_and_first_day(vault: Path, ledger: Ledger) -> None:
    """A file found elsewhere with its content is the same record; a new one at its old path is another."""
    write(vault, "a.md", "one")
    look(vault, ledger)
    (vault / "a.md").rename(vault / "b.md")
    report = look(vault, ledger, today=LATER)
    assert (report.renamed, report.added, report.removed) == (1, 0, 0)
    write(vault, "a.md", "two")
    look(vault, ledger, today=LATER)
    assert places(ledger) == {"one": ("a.md", "b.md", 1), "two": ("a.md~2", "a.md", 2)}
    assert (records(ledger)["one"].date, records(ledger)["two"].date) == (DAY, LATER)


def test_a_rename_rereads_what_the_path_says(vault: Path, ledger: Ledger) -> None:
    """Type and date that come from the path follow the file, also after a scan that was cut off."""
    write(vault, "lessons/a.md", "one")
    look(vault, ledger)
    (vault / "conclusions").mkdir()
    (vault / "lessons/a.md").rename(vault / "conclusions/2026-10-01 a.md")
    ledger.relocate({"lessons/a.md": "conclusions/2026-10-01 a.md"})  # and then the power went
    report = look(vault, ledger)
    record = records(ledger)["one"]
    assert (record.id, record.type, record.date) == (
        "lessons/a.md",
        RecordType.CONCLUSION,
        dt.date(2026, 10, 1),
    )
    assert report.changed == 1


def test_a_folder_is_renamed(vault: Path, ledger: Ledger) -> None:
    """All files of a renamed folder stay who they are, also those with the same content as others."""
    for name in ("a", "b", "c"):
        write(vault, f"old/{name}.md", "same")
        write(vault, f"old/deep/{name}.md", f"---\nproject: {name}\n---\nother")
    look(vault, ledger)
    before = {record.path: record.id for record in ledger.records(everything(ledger)).values()}
    (vault / "old").rename(vault / "new")
    report = look(vault, ledger, today=LATER)
    after = {record.path: record.id for record in ledger.records(everything(ledger)).values()}
    assert after == {path.replace("old/", "new/"): record_id for path, record_id in before.items()}
    assert (report.renamed, report.added, report.removed) == (6, 0, 0)


def everything(ledger: Ledger) -> set[RecordId]:
    """Ids of all records."""
    return {passage.record_id for passage in ledger.all_passages()}


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([("a", "x"), ("b", "a"), ("x", "b")], {"1": "b", "2": "a", "3": "c"}),
        ([("a", "x"), ("c", "a"), ("b", "c"), ("x", "b")], {"1": "b", "2": "c", "3": "a"}),
        ([("c", "d"), ("b", "c"), ("a", "b")], {"1": "b", "2": "c", "3": "d"}),
        ([("a", "b")], {"1": "b", "3": "c"}),
    ],
    ids=["swapped", "in a circle", "in a row", "over another"],
)
def test_files_that_trade_places(
    vault: Path, ledger: Ledger, moves: list[tuple[str, str]], expected: dict[str, str]
) -> None:
    """Several renames between two scans are told apart by content."""
    for text, name in zip("123", "abc", strict=True):
        write(vault, f"{name}.md", f"text {text}")
    look(vault, ledger)
    for old, new in moves:
        (vault / f"{old}.md").rename(vault / f"{new}.md")
    look(vault, ledger, today=LATER)
    assert {text[-1]: path.removesuffix(".md") for text, (_, path, _) in places(ledger).items()} == expected
    assert all(f"text {place}" == text for text, (_, _, place) in places(ledger).items())
    assert {record.date for record in records(ledger).values()} == {DAY}


def test_a_copy_is_another_record(vault: Path, ledger: Ledger) -> None:
    """A note saved under a new name and then edited leaves the old one where it is."""
    write(vault, "a.md", "one")
    look(vault, ledger)
    write(vault, "b.md", "one", age_s=60)
    write(vault, "a.md", "edited", age_s=60)
    look(vault, ledger)
    assert places(ledger) == {"edited": ("a.md", "a.md", 1), "one": ("b.md", "b.md", 2)}


def test_of_equal_files_one_is_renamed(vault: Path, ledger: Ledger) -> None:
    """Where several files have one content, the one that vanished is the one that moved."""
    for path in ("a.md", "b.md", "x/c.md"):
        write(vault, path, "same")
    look(vault, ledger)
    (vault / "b.md").rename(vault / "z.md")
    os.utime(vault / "a.md", (1, 1))
    look(vault, ledger)
    found = {record.path: record.id for record in ledger.records(everything(ledger)).values()}
    assert found == {"a.md": "a.md", "z.md": "b.md", "x/c.md": "x/c.md"}


def test_of_equal_files_the_name_tells(vault: Path, ledger: Ledger) -> None:
    """Files of one content that moved to other folders are told by their names."""
    write(vault, "x/a.md", "same")
    write(vault, "y/b.md", "same")
    look(vault, ledger)
    for old, new in (("y/b.md", "p"), ("x/a.md", "q")):
        (vault / new).mkdir()
        (vault / old).rename(vault / new / Path(old).name)
    look(vault, ledger)
    found = {record.path: record.id for record in ledger.records(everything(ledger)).values()}
    assert found == {"q/a.md": "x/a.md", "p/b.md": "y/b.md"}


def test_followers_hear_of_a_rename(vault: Path, ledger: Ledger) -> None:
    """A new path moves the change log, though no word of the note changed."""
    write(vault, "a.md", "# Dumps\none")
    seq = look(vault, ledger).seq
    (vault / "a.md").rename(vault / "b.md")
    report = look(vault, ledger)
    changes = ledger.changes_since(seq)
    assert changes is not None
    assert (report.renamed, report.changed) == (1, 0)
    assert (changes.added, changes.removed, len(changes.touched)) == ([], [], 1)


def test_only_the_case_of_a_name_changes(vault: Path, ledger: Ledger) -> None:
    """A name respelled in capitals is the same record, on file systems of either kind."""
    write(vault, "dumps.md", "one")
    look(vault, ledger)
    (vault / "dumps.md").rename(vault / "Dumps.md")
    look(vault, ledger)
    assert places(ledger) == {"one": ("dumps.md", "Dumps.md", 1)}


def test_a_note_that_comes_back_keeps_its_day(vault: Path, ledger: Ledger) -> None:
    """A note that was out of sight for one scan is not new."""
    write(vault, "a.md", "one")
    write(vault, "b.md", "two")
    look(vault, ledger)
    (vault / "a.md").rename(vault / "a.hidden")
    report = look(vault, ledger, today=LATER)
    assert report.removed == 1
    (vault / "a.hidden").rename(vault / "c.md")
    look(vault, ledger, today=LATER)
    assert places(ledger)["one"] == ("a.md", "c.md", 1)
    assert records(ledger)["one"].date == DAY


# Stated ids


@pytest.mark.parametrize("between", [0, BATCH_FILES + 5])
def test_a_stated_id_goes_to_another_file(vault: Path, ledger: Ledger, between: int) -> None:
    """An `id:` may move to a file that is read long before the one it came from."""
    for number in range(between):
        write(vault, f"m{number:04}.md", f"note {number}")
    write(vault, "z.md", "---\nid: dumps\n---\none")
    look(vault, ledger)
    first = places(ledger)["one"][2]
    for number in range(between):
        write(vault, f"m{number:04}.md", f"note {number}, edited")
    write(vault, "a.md", "---\nid: dumps\n---\none, edited")
    write(vault, "z.md", "something else")
    look(vault, ledger, today=LATER)
    assert places(ledger)["one, edited"] == ("dumps", "a.md", first)
    assert records(ledger)["one, edited"].date == DAY
    assert records(ledger)["something else"].first_seen > first
    assert ledger.problems() == []


def test_parts_of_a_stated_note_go_to_another_file(vault: Path, ledger: Ledger) -> None:
    """A note of several records that is renamed, edited and reordered at once is known by its `id:`."""
    head = "---\nid: x\nsplit: headings\n---\n"
    write(vault, "z.md", head + "# A\none\n# B\ntwo\n# C\nthree\n# D\nfour\n")
    look(vault, ledger)
    (vault / "z.md").unlink()
    write(vault, "a.md", head + "# D\nfour\n# New\nfive\n# B\ntwo, edited\n# Other\none\n")
    look(vault, ledger, today=LATER)
    assert {text: place for text, (_, _, place) in places(ledger).items()} == {
        "one": 1,
        "two, edited": 2,
        "four": 4,
        "five": 5,
    }


def test_stated_ids_trade_places_across_batches(vault: Path, ledger: Ledger) -> None:
    """Three files that pass their ids round, many files apart, are looked at together."""

    def fill(owners: dict[str, str], mood: str) -> None:
        for path, name in owners.items():
            write(vault, f"{path}.md", f"---\nid: {name}\n---\ntext of {name}{mood}")
        for number in range(BATCH_FILES + 5):
            write(vault, f"m{number:04}.md", f"note {number}{mood}")

    fill({"a": "x", "b": "y", "z": "last"}, "")
    look(vault, ledger)
    before = places(ledger)
    fill({"a": "y", "b": "last", "z": "x"}, ", edited")
    look(vault, ledger)
    after = places(ledger)
    for name, path in {"x": "z.md", "y": "a.md", "last": "b.md"}.items():
        assert after[f"text of {name}, edited"] == (name, path, before[f"text of {name}"][2])


def test_equal_ids_are_reported_until_one_goes(vault: Path, ledger: Ledger) -> None:
    """A copied note with its `id:` is named beside the first; when that is gone, the id is free again."""
    parts = "---\nid: parts\nsplit: headings\n---\n# P\n{0}\n# Q\nmore {0}"
    write(vault, "a.md", "---\nid: dumps\n---\none")
    write(vault, "b.md", "---\nid: dumps\n---\ntwo")
    write(vault, "c.md", "---\nid: dumps#c\n---\nthree")
    write(vault, "d.md", parts.format("four"))
    write(vault, "e.md", parts.format("five"))
    report = look(vault, ledger)
    assert [(problem.path, problem.fatal) for problem in report.problems] == [
        ("b.md", False),
        ("e.md", False),
    ]
    assert "'dumps' is also that of a.md:4" in report.problems[0].message
    assert "'parts#P' is also that of d.md:6" in report.problems[1].message
    assert places(ledger)["two"] == ("dumps~2", "b.md", 2)
    (vault / "a.md").unlink()
    (vault / "d.md").unlink()
    assert look(vault, ledger).problems == ()
    assert places(ledger)["two"] == ("dumps", "b.md", 2)


# Faults


BROKEN = {
    "not YAML": b"---\ntitle: [\n---\nwords",
    "not UTF-8": "na\u00efve".encode("latin-1"),
    "too large": b"x" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_keeps_its_last_good_version(vault: Path, ledger: Ledger, fault: str) -> None:
    """It costs no other file, is reported once, may be renamed, and its problem goes when it is mended."""
    write(vault, "a.md", "one")
    write(vault, "z.md", "other")
    look(vault, ledger)
    (vault / "a.md").write_bytes(BROKEN[fault])
    os.utime(vault / "a.md", (1, 1))
    write(vault, "z.md", "other, edited")
    report = look(vault, ledger)
    assert (report.changed, report.removed, fatal(ledger)) == (1, 0, ["a.md"])
    assert set(records(ledger)) == {"one", "other, edited"}
    assert "kept its last good version" in report.problems[0].message
    assert look(vault, ledger).read == 0
    (vault / "a.md").rename(vault / "b.md")
    assert (look(vault, ledger).renamed, fatal(ledger)) == (1, ["b.md"])
    assert places(ledger)["one"] == ("a.md", "b.md", 1)
    write(vault, "b.md", "mended")
    assert look(vault, ledger).problems == ()
    assert places(ledger)["mended"] == ("a.md", "b.md", 1)


def test_a_file_broken_from_the_start(vault: Path, ledger: Ledger) -> None:
    """A file that never was readable has a problem and no records, and goes like any other."""
    write(vault, "a.md", "one")
    (vault / "b.md").write_bytes(b"\xff\xff")
    look(vault, ledger)
    assert (fatal(ledger), ledger.file_count(), list(records(ledger))) == (["b.md"], 2, ["one"])
    (vault / "b.md").unlink()
    assert look(vault, ledger).problems == ()


@held_by_permissions
def test_a_file_without_permission(vault: Path, ledger: Ledger) -> None:
    """It is tried again at each scan, since giving permission does not change its time."""
    write(vault, "a.md", "one")
    look(vault, ledger)
    write(vault, "a.md", "two, longer")
    (vault / "a.md").chmod(0)
    seq = look(vault, ledger).seq
    assert (fatal(ledger), list(records(ledger))) == (["a.md"], ["one"])
    with commits(vault) as count_commits:
        look(vault, ledger)
        assert (fatal(ledger), ledger.head_seq(), count_commits()) == (["a.md"], seq, 0)
    (vault / "a.md").chmod(0o600)
    assert look(vault, ledger).problems == ()
    assert places(ledger) == {"two, longer": ("a.md", "a.md", 1)}


@held_by_permissions
def test_a_folder_out_of_sight_loses_nothing(vault: Path, ledger: Ledger) -> None:
    """Files of a folder that cannot be listed are not taken for deleted, and no rename is read into that."""
    write(vault, "locked/a.md", "one")
    write(vault, "b.md", "two")
    look(vault, ledger)
    (vault / "locked").chmod(0)
    write(vault, "c.md", "one")
    report = look(vault, ledger)
    (vault / "locked").chmod(0o700)
    assert (report.removed, report.renamed, [problem.path for problem in report.problems]) == (
        0,
        0,
        ["locked"],
    )
    assert {record.path for record in ledger.records(everything(ledger)).values()} == {
        "locked/a.md",
        "b.md",
        "c.md",
    }
    assert look(vault, ledger).problems == ()


@pytest.mark.skipif(sys.platform == "darwin", reason="APFS takes no such names")
def test_a_name_that_is_no_text_is_reported_once(vault: Path, ledger: Ledger) -> None:
    """A file whose name cannot be a record's path costs nothing but a word."""
    write(vault, "a.md", "one")
    odd = Path(os.fsdecode(os.fsencode(vault) + b"/caf\xe9.md"))
    odd.write_text("two")
    look(vault, ledger)
    look(vault, ledger)
    assert (fatal(ledger), list(records(ledger))) == (["caf\\xe9.md"], ["one"])
    odd.unlink()
    assert look(vault, ledger).problems == ()


def test_a_missing_vault_removes_nothing(vault: Path, ledger: Ledger) -> None:
    """A folder that is not there, or is a file, is an error, not a vault without notes."""
    write(vault, "a.md", "one")
    look(vault, ledger)
    shutil.rmtree(vault)
    with pytest.raises(VaultError):
        look(vault, ledger)
    vault.write_text("a file")
    with pytest.raises(VaultError):
        look(vault, ledger)
    assert list(records(ledger)) == ["one"]


def test_an_emptied_vault_needs_a_confirmation(vault: Path, ledger: Ledger) -> None:
    """All notes gone at once look like a disk that was not mounted; a vault empty from the start does not."""
    assert look(vault, ledger).files == 0
    write(vault, "a.md", "one")
    look(vault, ledger)
    (vault / "a.md").unlink()
    with pytest.raises(VaultError, match=r"1 records were read before. Kept them all. .* confirm"):
        look(vault, ledger)
    assert list(records(ledger)) == ["one"]
    report = look(vault, ledger, confirm_empty=True)
    assert (report.removed, records(ledger)) == (1, {})
    assert look(vault, ledger).files == 0


def test_what_was_stored_before_a_failure_stays(vault: Path, ledger: Ledger) -> None:
    """A first load cut off after a batch goes on from there, to the same records as in one go."""
    for number in range(BATCH_FILES * 2 + 1):
        write(vault, f"{number:04}.md", f"note {number}")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(vault, ledger, progress=stop)
    assert ledger.record_count() == BATCH_FILES
    report = look(vault, ledger)
    assert (report.read, report.added) == (BATCH_FILES + 1, BATCH_FILES + 1)
    assert [record.first_seen for record in records(ledger).values()] == list(range(1, BATCH_FILES * 2 + 2))


LOADER = """
import datetime as dt, sys
from pathlib import Path
from recall_worker.ledger import Ledger
from recall_worker.scan import scan

with Ledger.open(Path(sys.argv[2])) as ledger:
    scan(
        Path(sys.argv[1]), ledger, today=dt.date(2026, 11, 2), max_note_bytes=10_000,
        progress=lambda done, total: print(done, flush=True),
    )
"""


def test_kill_9_during_a_first_load(vault: Path, tmp_path: Path) -> None:
    """What was reported as done is there after a kill, and the next scan makes it whole."""
    for number in range(BATCH_FILES * 3):
        write(vault, f"{number:04}.md", f"note {number}")
    path = tmp_path / "state" / "ledger.sqlite3"
    command = [sys.executable, "-c", LOADER, str(vault), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout is not None
        acknowledged = int(loader.stdout.readline())
        loader.send_signal(signal.SIGKILL)
    with Ledger.open(path) as ledger, Ledger.open(tmp_path / "fresh" / "ledger.sqlite3") as fresh:
        assert acknowledged <= ledger.record_count() <= BATCH_FILES * 3
        look(vault, ledger)
        look(vault, fresh)
        assert records(ledger) == records(fresh)


@pytest.mark.shared
@pytest.mark.skipif(not VAULT_TIL.is_dir(), reason="needs the corpora in ../shared")
def test_a_real_vault_loads_whole_and_the_same_twice(tmp_path: Path) -> None:
    """1,862 notes without front matter give a record each, equal in two fresh ledgers; a secret costs one."""
    with Ledger.open(tmp_path / "1" / "l") as ledger, Ledger.open(tmp_path / "2" / "l") as other:
        report = scan(VAULT_TIL, ledger, today=DAY, max_note_bytes=2_000_000)
        scan(VAULT_TIL, other, today=DAY, max_note_bytes=2_000_000)
        assert (report.files, report.added) == (1_862, 1_861)
        assert {
            problem.path for problem in report.problems if "looks like a secret" not in problem.message
        } == set()
        assert list(ledger.all_passages()) == list(other.all_passages())
        assert ledger.records(everything(ledger)) == other.records(everything(other))


# Everything at once

PATHS = ("a.md", "b.md", "lessons/c.md", "lessons/d.md", "conclusions/e.md", "f g.md")


class EditedVault(RuleBasedStateMachine):
    """Any mix of edits between scans, against a model that knows which text is which record.

    Texts are unique, so a text that was seen once and is still there must be the same record: same id, same
    place in the order, same first day. The one mix left out is a new note at a path that a note left since
    the last scan: nothing tells it from a note that was copied and then edited.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.vault = self.root / "vault"
        self.vault.mkdir()
        self.ledger = Ledger.open(self.root / "state" / "ledger.sqlite3", verify=False)
        self.texts: dict[str, str | None] = {}  # path to text, None where broken
        self.known: dict[str, tuple[str, int, dt.date]] = {}  # text to what its record was
        self.lost: list[str] = []  # texts deleted, each after a scan had seen it
        self.dirty: set[str] = set()
        self.numbers = count(1)
        self.today = DAY
        self.held: dict[int, str] = {}
        self.seq = self.ledger.head_seq()

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.root)

    def put(self, path: str, text: str | None, *, is_old: bool) -> None:
        body = b"\xff broken %d" % next(self.numbers) if text is None else text.encode()
        file = self.vault / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(body)
        if is_old:
            os.utime(file, (next(self.numbers), next(self.numbers)))
        self.texts[path] = text
        self.dirty.add(path)

    @rule(path=st.sampled_from(PATHS), is_old=st.booleans(), is_long=st.booleans())
    def write(self, path: str, is_old: bool, is_long: bool) -> None:
        """Create or edit a note."""
        if path not in self.dirty:
            number = next(self.numbers)
            paragraphs = (
                [f"Paragraph {number} {letter} " + "word " * 200 for letter in "ab"] if is_long else []
            )
            self.put(path, "\n\n".join([f"text {number:05}", *paragraphs]).strip(), is_old=is_old)

    @rule(path=st.sampled_from(PATHS), is_old=st.booleans())
    def spoil(self, path: str, is_old: bool) -> None:
        """Put bytes that are no text into a note."""
        if path in self.texts and path not in self.dirty:
            self.put(path, None, is_old=is_old)

    @rule(path=st.sampled_from(PATHS))
    def delete(self, path: str) -> None:
        """Delete a note."""
        if path in self.texts and path not in self.dirty:
            text = self.texts.pop(path)
            (self.vault / path).unlink()
            self.dirty.add(path)
            if text in self.known:
                self.lost.append(text)

    @rule(data=st.data(), path=st.sampled_from(PATHS), is_old=st.booleans())
    def restore(self, data: st.DataObject, path: str, is_old: bool) -> None:
        """Bring a deleted text back, anywhere."""
        if self.lost and path not in self.texts and path not in self.dirty:
            text = data.draw(st.sampled_from(self.lost))
            self.lost.remove(text)
            self.put(path, text, is_old=is_old)

    @rule(old=st.sampled_from(PATHS), new=st.sampled_from(PATHS))
    def rename(self, old: str, new: str) -> None:
        """Rename a note, over another one if there is one.

        One that no scan has seen takes no path that was vacated since: nobody could tell that from a copy of what
        stood there, edited afterwards.
        """
        is_unseen = self.texts.get(old) not in self.known
        if old in self.texts and old != new and not (is_unseen and new in self.dirty):
            (self.vault / new).parent.mkdir(exist_ok=True)
            (self.vault / old).replace(self.vault / new)
            self.texts[new] = self.texts.pop(old)
            self.dirty |= {old, new}

    @rule(path=st.sampled_from(PATHS))
    def touch(self, path: str) -> None:
        """Give a note another time."""
        if path in self.texts:
            os.utime(self.vault / path, (next(self.numbers), next(self.numbers)))

    @precondition(lambda self: self.dirty)
    @rule(full=st.booleans())
    def scan(self, full: bool) -> None:
        """Scan on the next day, and compare."""
        self.today += dt.timedelta(days=1)
        look(self.vault, self.ledger, today=self.today, full=full, confirm_empty=True)
        self.dirty.clear()
        found = self.ledger.records(everything(self.ledger))
        assert {record.path for record in found.values()} <= set(self.texts)
        by_path: dict[str, list[Record]] = {}
        for record in found.values():
            by_path.setdefault(record.path, []).append(record)
        for path, text in self.texts.items():
            if text is not None:
                (record,) = by_path[path]
                assert record.text == text
                identity = (record.id, record.first_seen, record.date)
                assert self.known.setdefault(text, identity) == identity
        assert len({record.first_seen for record in found.values()}) == len(found)
        assert fatal(self.ledger) == sorted(path for path, text in self.texts.items() if text is None)

    @precondition(lambda self: not self.dirty)
    @rule()
    def follow(self) -> None:
        """A follower of the change log has exactly the live passages."""
        changes = self.ledger.changes_since(self.seq)
        assert changes is not None
        for passage_id in changes.removed:
            self.held.pop(passage_id, None)
        self.held |= {passage.id: passage.text for passage in changes.added}
        self.seq = changes.seq
        assert self.held == {passage.id: passage.text for passage in self.ledger.all_passages()}

    @precondition(lambda self: not self.dirty)
    @invariant()
    def nothing_left_to_do(self) -> None:
        """A scan after a scan finds nothing."""
        assert look(self.vault, self.ledger, today=self.today, confirm_empty=True).touched == 0


EditedVault.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestEditedVault = EditedVault.TestCase
