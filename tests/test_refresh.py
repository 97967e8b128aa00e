"""Refresh: what changes is published at once, but for a stride, which waits; nothing recent is missing meanwhile."""

from __future__ import annotations

import datetime as dt
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.config import Budget, Config
from recall_worker.decisions import read_log
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.publish import Published, snapshot_name
from recall_worker.refresh import Publisher, read_vault
from recall_worker.snapshot import render
from recall_worker.text import units
from recall_worker.window import newest
from vaults import config_of, write_note

DAY_ONE = dt.date(2026, 1, 1)
N = Budget().recent_n
FULL = 2 * N - 1


@dataclass
class Desk:
    """A vault, its ledger and a publisher, with a clock and a session that the test moves."""

    config: Config
    ledger: Ledger
    now: float = 1_000_000.0
    idle_s: float = 0.0
    count: int = 0
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new worker on the same state."""
        projects = Projects(self.config.projects, self.ledger)
        self.publisher = Publisher(
            self.config, self.ledger, projects, idle_s=lambda: self.idle_s, clock=lambda: self.now
        )

    def lesson(self, text: str = "", **front: object) -> Path:
        """Write one more lesson, dated a day after the last."""
        self.count += 1
        day = DAY_ONE + dt.timedelta(days=self.count)
        path = f"lessons/{self.count:03}.md"
        return write_note(self.config.vault, path, text or f"Lesson {self.count}.", **{"date": day, **front})

    def refresh(self) -> str:
        """What a scan of the worker does; the snapshot of everywhere as it then stands on disk."""
        read_vault(self.config, self.ledger)
        self.publisher.publish()
        return self.text()

    def text(self, scope: str = "") -> str:
        """What a scope's readable copy says."""
        name = snapshot_name(scope or None).replace(".snap", ".md")
        return (self.config.state_dir / "snapshots" / name).read_text(encoding="utf-8").rstrip("\n")

    def served(self, scope: str = "") -> Published:
        """What the worker answers with."""
        return self.publisher.published[scope]

    def digest(self, scope: str = "") -> str:
        """What slots 1 to 3 say, pending records included."""
        return self.text(scope) + self.served(scope).pending

    def reasons(self) -> list[str]:
        """Every decision that is remembered, oldest first."""
        return [item.reason for item in read_log(self.ledger).decisions]

    def fill(self, lessons: int = FULL) -> str:
        """Publish lesson after lesson."""
        text = ""
        for _ in range(lessons):
            self.lesson()
            text = self.refresh()
        return text

    def state_of_files(self) -> dict[str, tuple[int, int]]:
        """Inode and time of every published file."""
        folder = self.config.state_dir / "snapshots"
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk with an empty vault and a session that was seen just now."""
    config = config_of(tmp_path)
    config.vault.mkdir()
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        yield Desk(config=config, ledger=ledger)


def test_a_stride_waits_and_its_record_is_pending(desk: Desk) -> None:
    """With a session there, the twelfth lesson leaves every byte and stands beside the snapshot."""
    full = desk.fill()
    desk.lesson("The twelfth.")
    assert desk.refresh() == full
    served = desk.served()
    assert served.pending == "\n\n## New since then\n- (2026-01-13) The twelfth."
    assert [(shown.slot, shown.text) for shown in served.pending_shown] == [(3, "The twelfth.")]
    assert served.units == units(desk.digest())
    assert desk.reasons()[-1] == "stride waits"
    assert not desk.publisher.is_due()


def test_pending_records_only_append(desk: Desk) -> None:
    """Until more than N wait, another one leaves those before it in place, whatever its date."""
    desk.fill()
    before = ""
    for number in range(N):
        desk.lesson(f"Waiting {number}. " + "Words. " * 60, date=DAY_ONE + dt.timedelta(days=60 - number))
        desk.refresh()
        assert desk.served().pending.startswith(before)
        assert len(desk.served().pending_shown) == number + 1
        before = desk.served().pending
    desk.lesson("One more.", date="2026-05-01")
    desk.refresh()
    assert len(desk.served().pending_shown) == N


@pytest.mark.parametrize("end", ["quiet", "old"])
def test_the_wait_ends_without_any_change(desk: Desk, end: str) -> None:
    """When the cache's life has passed since the last session, or the wait grew too long, it is chosen anew."""
    full = desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    if end == "quiet":
        desk.idle_s = desk.config.cache_ttl_s
    else:
        desk.now += desk.config.max_stale_s
    assert desk.publisher.is_due()
    desk.publisher.publish()
    assert not desk.publisher.is_due()
    assert desk.served().pending == ""
    assert desk.served().pending_shown == ()
    assert desk.text() != full
    assert desk.text().endswith("The twelfth.")
    assert desk.text().count("Lesson") == N - 1
    assert desk.reasons()[-2:] == ["stride waits", "stride"]


def test_a_wait_survives_a_restart(desk: Desk) -> None:
    """A new worker goes on waiting, and not longer than the old one would have."""
    full = desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    pending = desk.served().pending
    desk.now += desk.config.max_stale_s - 1
    desk.restart()
    desk.publisher.publish()
    assert (desk.text(), desk.served().pending) == (full, pending)
    assert not desk.publisher.is_due()
    desk.now += 1
    assert desk.publisher.is_due()


def test_without_a_session_nothing_waits(desk: Desk) -> None:
    """A rebuild without a worker, and a worker that nobody prompts, publish a stride at once."""
    desk.idle_s = math.inf
    desk.fill(FULL + 1)
    assert desk.served().pending == ""
    assert desk.text().endswith("Lesson 12.")


def test_an_edit_during_a_wait_shows_at_once(desk: Desk) -> None:
    """A corrected line of the standing window is corrected; a corrected pending record, too."""
    desk.fill()
    write_note(desk.config.vault, "lessons/004.md", "Corrected four.", date="2026-01-05")
    desk.lesson("The twelfth.")
    desk.refresh()
    write_note(desk.config.vault, "lessons/012.md", "Corrected twelve.", date="2026-01-13")
    desk.refresh()
    assert "Corrected four." in desk.text()
    assert "Lesson 4." not in desk.digest()
    assert "The twelfth." not in desk.digest()
    assert desk.served().pending.endswith("Corrected twelve.")


def test_a_deletion_during_a_wait_makes_room(desk: Desk) -> None:
    """What is gone leaves at once, and what was pending takes the free place at the end."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    (desk.config.vault / "lessons/005.md").unlink()
    text = desk.refresh()
    assert "Lesson 5." not in text
    assert text.endswith("Lesson 11.\n- (2026-01-13) The twelfth.")
    assert desk.served().pending == ""
    assert desk.reasons()[-1] == "removed, appended"


def test_a_pending_record_that_is_deleted_is_gone(desk: Desk) -> None:
    """With nothing left that waits, there is no wait."""
    full = desk.fill()
    path = desk.lesson("The twelfth.")
    desk.refresh()
    path.unlink()
    assert desk.refresh() == full
    assert desk.served().pending == ""
    assert read_log(desk.ledger).waiting == {}
    desk.now += desk.config.max_stale_s
    assert not desk.publisher.is_due()


def test_a_prohibition_takes_the_stride_along(desk: Desk) -> None:
    """It is published at once; slot 3 stands behind it and is in no cache any more, so it is chosen anew."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    desk.lesson("Never push on a Friday.", priority="high")
    text = desk.refresh()
    assert "Never push on a Friday." in text
    assert text.endswith("The twelfth.")
    assert desk.served().pending == ""
    assert desk.reasons()[-1] == "prohibition, stride"


def test_a_prohibition_resets_a_window_that_has_grown(desk: Desk) -> None:
    """Of nine lessons the newest six stay, so that the next five only append."""
    desk.fill(N + 3)
    desk.lesson("Never push on a Friday.", priority="high")
    text = desk.refresh()
    assert text.count("- (2026-01-") == N + 1
    for _ in range(N - 1):
        desk.lesson()
        grown = desk.refresh()
        assert grown.startswith(text)
        text = grown
    desk.lesson()
    assert desk.refresh() == text
    assert desk.served().pending


def test_a_profile_change_is_published_at_once(desk: Desk) -> None:
    """It names its reason."""
    desk.fill(2)
    write_note(desk.config.vault, "profile/me.md", "Writes Go.", date="2026-01-01")
    assert "Writes Go." in desk.refresh()
    assert desk.reasons()[-1] == "profile"


def test_every_decision_has_its_reason(desk: Desk) -> None:
    """First, appended, edited, removed, unchanged: in fixed words, with the time, kept by the ledger."""
    desk.fill(3)
    write_note(desk.config.vault, "lessons/001.md", "Other.", date="2026-01-02")
    desk.refresh()
    (desk.config.vault / "lessons/002.md").unlink()
    desk.refresh()
    write_note(desk.config.vault, "knowledge/vpn.md", "The VPN drops idle sessions.", date="2026-01-02")
    desk.refresh()
    desk.now += 5
    write_note(desk.config.vault, "knowledge/tea.md", "The tea is on the second floor.", date="2026-01-02")
    desk.refresh()
    assert desk.reasons() == ["first", "appended", "appended", "edited", "removed", "unchanged"]
    assert read_log(desk.ledger).decisions[-1].at == desk.now


def test_nothing_is_pending_that_would_not_fit(desk: Desk) -> None:
    """Where standing snapshot and pending records pass the hard stop together, the stride does not wait."""
    desk.config = replace(
        desk.config, budget=Budget(target_units=2_600, hard_units=2_700, relevant_reserved_units=200)
    )
    desk.restart()
    for number in range(FULL + 4):
        desk.lesson(f"Number {number}: " + "words that go on and on " * 20)
        desk.refresh()
        assert desk.served().units <= 2_700
        assert f"Number {number}:" in desk.digest()


@pytest.mark.parametrize("rules", [0, 8, 20, 26, 40, 120])
def test_limits_hold_while_a_stride_waits(desk: Desk, rules: int) -> None:
    """However many prohibitions: the newest records stand in the digest, none of slots 1 and 2 gives way."""
    write_note(desk.config.vault, "profile/me.md", "A line of profile text. " * 60, date="2025-01-01")
    for number in range(rules):
        text = f"Never do {number}. " + "Because of this and that. " * 12
        write_note(desk.config.vault, f"lessons/never{number}.md", text, priority="high", date="2025-01-01")
    for number in range(FULL):
        desk.lesson(f"Number {number}: " + "words that go on and on " * 20)
    desk.refresh()
    for number in range(FULL, FULL + 2 * N):
        desk.lesson(f"Number {number}: " + "words that go on and on " * 20)
        before = [shown for shown in desk.served().snapshot.shown if shown.slot < 3]
        desk.refresh()
        assert [shown for shown in desk.served().snapshot.shown if shown.slot < 3] == before
        assert units(desk.digest()) == desk.served().units <= desk.config.budget.hard_units
        for recent in range(max(0, number - 2), number + 1):
            assert f"Number {recent}:" in desk.digest()


def test_a_clock_set_back_does_not_prolong_the_wait(desk: Desk) -> None:
    """A year back: the wait begins anew and ends in its time."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    desk.now -= 365 * 86_400
    assert not desk.publisher.is_due()
    desk.now += desk.config.max_stale_s
    assert desk.publisher.is_due()
    desk.publisher.publish()
    assert desk.text().endswith("The twelfth.")


def test_fifty_lessons_of_one_day_at_once(desk: Desk) -> None:
    """A bulk import during a session: the newest N are pending, and the snapshot has them when the wait ends."""
    full = desk.fill()
    for number in range(50):
        write_note(desk.config.vault, f"lessons/same{number:02}.md", f"Same {number:02}.", date="2026-03-01")
    assert desk.refresh() == full
    shown = [item.text for item in desk.served().pending_shown]
    assert shown == [f"Same {number}." for number in range(44, 50)]
    desk.idle_s = math.inf
    desk.publisher.publish()
    assert [item.text for item in desk.served().snapshot.shown] == shown


def test_a_wait_ends_with_an_emptied_vault(desk: Desk) -> None:
    """When a person confirms that all notes are gone, nothing of them is published or pending."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    shutil.rmtree(desk.config.vault / "lessons")
    read_vault(desk.config, desk.ledger, confirm_empty=True)
    desk.publisher.publish()
    assert desk.digest() == ""
    assert read_log(desk.ledger).waiting == {}


def test_a_rebuild_leaves_a_wait_alone(desk: Desk) -> None:
    """Reading every file again changes nothing that is published or pending."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    before = (desk.digest(), desk.state_of_files())
    read_vault(desk.config, desk.ledger, full=True)
    desk.publisher.publish()
    assert (desk.digest(), desk.state_of_files()) == before


def test_each_scope_waits_for_itself(desk: Desk) -> None:
    """A project's lesson fills the project's window alone; a project without records is forgotten."""
    desk.fill(N)
    for number in range(N):
        desk.lesson(f"Of billing {number}.", project="billing")
        desk.refresh()
    desk.lesson("For all.")
    everywhere = desk.refresh()
    assert everywhere.endswith("For all.")
    assert (desk.served().pending, desk.text("billing").count("For all.")) == ("", 0)
    assert desk.served("billing").pending.endswith("For all.")
    assert set(read_log(desk.ledger).waiting) == {"billing"}
    for path in desk.config.vault.rglob("*.md"):
        if "project: billing" in path.read_text():
            path.unlink()
    desk.refresh()
    assert set(desk.publisher.published) == {""}
    assert read_log(desk.ledger).waiting == {}
    assert not (desk.config.state_dir / "snapshots" / snapshot_name("billing")).exists()


def test_a_project_that_comes_back_is_whole_at_once(desk: Desk) -> None:
    """Nobody can have its snapshot in a cache, so nothing of it waits."""
    desk.fill(FULL - 1)
    path = desk.lesson("Of billing.", project="billing")
    desk.refresh()
    path.unlink()
    desk.refresh()
    desk.fill(5)
    desk.lesson("Of billing again.", project="billing")
    desk.refresh()
    assert desk.served("billing").pending == ""
    assert desk.text("billing").endswith("Of billing again.")
    assert desk.reasons()[-1] == "first"


def test_lost_files_come_back(desk: Desk) -> None:
    """Snapshots deleted under a running worker are published again by the next round, without a wait."""
    desk.fill()
    desk.lesson("The twelfth.")
    desk.refresh()
    shutil.rmtree(desk.config.state_dir / "snapshots")
    desk.publisher.publish()
    assert desk.text().endswith("The twelfth.")
    assert desk.reasons()[-1] == "first"


def touch(desk: Desk) -> None:
    """New times for every file."""
    for path in desk.config.vault.rglob("*.md"):
        os.utime(path)


def rewrite(desk: Desk) -> None:
    """The same bytes in new inodes."""
    for path in desk.config.vault.rglob("*.md"):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)


def rename(desk: Desk) -> None:
    """Another name for a note that no slot shows, and one for a lesson that slot 3 shows."""
    (desk.config.vault / "knowledge/vpn.md").rename(desk.config.vault / "knowledge/network.md")
    (desk.config.vault / "lessons/002.md").rename(desk.config.vault / "lessons/2.md")


def edit_elsewhere(desk: Desk) -> None:
    """Other words in a note that no slot shows, and one more of them."""
    write_note(desk.config.vault, "knowledge/vpn.md", "The VPN drops nothing any more.", date="2025-01-01")
    write_note(desk.config.vault, "knowledge/new.md", "The coffee is on the third floor.", date="2026-05-01")


def edit_the_tail(desk: Desk) -> None:
    """Other words where a lesson's line is cut already."""
    write_note(desk.config.vault, "lessons/long.md", LONG + " The very end.", date="2026-01-01")


def add_old(desk: Desk) -> None:
    """A lesson older than all that slot 3 shows."""
    write_note(desk.config.vault, "lessons/old.md", "From long ago.", date="2020-01-01")


def retag(desk: Desk) -> None:
    """Tags are for search."""
    write_note(desk.config.vault, "lessons/003.md", "Lesson 3.", date="2026-01-04", tags="[go, sql]")


LONG = "This lesson goes on and on. " * 40


@pytest.mark.parametrize("change", [touch, rewrite, rename, edit_elsewhere, edit_the_tail, add_old, retag])
def test_what_no_slot_shows_rewrites_no_file(desk: Desk, change: object) -> None:
    """After such a change every published file has its bytes, its inode and its time."""
    assert callable(change)
    write_note(desk.config.vault, "knowledge/vpn.md", "The VPN drops idle sessions.", date="2025-01-01")
    write_note(desk.config.vault, "profile/me.md", "Writes Go.", date="2025-01-01")
    write_note(desk.config.vault, "lessons/long.md", LONG, date="2026-01-01")
    desk.fill(N)
    desk.lesson("Of billing.", project="billing")
    text = desk.refresh()
    before = desk.state_of_files()
    change(desk)
    assert desk.refresh() == text
    assert desk.state_of_files() == before


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "add", "same day", "project", "high", "edit", "delete", "quiet", "later"]
        ),
        st.integers(0, 99),
    ),
    min_size=20,
    max_size=40,
)


@settings(max_examples=8, deadline=None)
@given(EVENTS, st.randoms(use_true_random=False))
def test_any_history_is_whole_and_stable(events: list[tuple[str, int]], random: Random) -> None:
    """After any change the digest has the newest N and nothing that is gone; what changed nothing touches no file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "state" / "ledger.sqlite3") as ledger,
    ):
        desk = Desk(config=config_of(Path(folder)), ledger=ledger)
        desk.config.vault.mkdir()
        desk.fill(FULL)
        for event, number in events:
            act(desk, event, number)
            desk.refresh()
            assert_whole(desk)
            assert_stable(desk, random)


def act(desk: Desk, event: str, number: int) -> None:
    """One thing that a person or the clock does."""
    notes = sorted(desk.config.vault.rglob("*.md"))
    if event == "quiet":
        desk.idle_s = 0.0 if desk.idle_s else math.inf
    elif event == "later":
        desk.now += number * 20
    elif event == "delete" and len(notes) > 1:
        notes[number % len(notes)].unlink()
    elif event == "edit" and notes:
        path = notes[number % len(notes)]
        path.write_text(path.read_text().replace(".\n", f" again {number}.\n"))
    else:
        fronts = {
            "same day": {"date": DAY_ONE},
            "project": {"project": "billing"},
            "high": {"priority": "high"},
        }
        desk.lesson(**fronts.get(event, {}))  # type: ignore[arg-type]


def assert_whole(desk: Desk) -> None:
    """Every scope shows its newest N and all prohibitions, and only what the vault says now."""
    known = desk.ledger.snapshot_records()
    for scope, served in desk.publisher.published.items():
        own = [record for record in known if record.project in (None, scope or None)]
        shown = {*served.snapshot.shown, *served.pending_shown}
        ids = {item.record_id for item in shown}
        assert len(ids) == len(shown)
        assert ids >= set(newest(own, desk.config.budget))
        assert ids >= {record.id for record in own if record.high}
        assert {item.text for item in shown} <= {record.text for record in own}
        assert desk.digest(scope) == served.snapshot.text + served.pending


def assert_stable(desk: Desk, random: Random) -> None:
    """The ledger's records in another order, files with new times, another round: the same bytes and inodes."""
    records = desk.ledger.snapshot_records()
    before = desk.state_of_files()
    for scope, served in desk.publisher.published.items():
        own = [record for record in records if record.project in (None, scope or None)]
        shuffled = random.sample(own, len(own))
        again = render(shuffled, desk.ledger.window(scope), desk.config.budget)
        assert again == served.snapshot
    touch(desk)
    desk.refresh()
    assert desk.state_of_files() == before
