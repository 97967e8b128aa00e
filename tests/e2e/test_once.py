"""The policy `once-per-session`, with a real worker and the real hook."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from e2e.conftest import Place

ABOUT = "Backend engineer in Chiang Mai."
DUMP = "Take a dump within the hour before."
RETRY = "Retries need a key."
NIGHT = "Migrations of the production database run between 05:30 and 07:00."
PROMPT = "when do migrations of the production database run?"


@pytest.fixture
def once(place: Place) -> Place:
    """A note for each slot, and a worker that sends each session its snapshot once."""
    place.settings = {"snapshot": "once-per-session", "remind_every": "4", "autostart": "false"}
    place.note("profile/me.md", ABOUT, date="2026-01-01")
    place.note("lessons/dump.md", DUMP, priority="high", date="2026-01-02")
    place.note("lessons/retry.md", RETRY, date="2026-01-03")
    place.note("knowledge/night.md", NIGHT, date="2025-01-05")
    place.recall("start")
    place.wait(lambda: place.status()["index"]["passages"] == 3)
    return place


def published(place: Place) -> object:
    """What the snapshot is named now."""
    return place.status()["scopes"][0]["sha256"]


def started(place: Place, source: str, session: str = "s") -> None:
    """The client tells that a session starts; nothing is printed."""
    said = {"session_id": session, "hook_event_name": "SessionStart", "source": source}
    run = subprocess.run(
        place.hook_command("SessionStart"),
        input=json.dumps(said).encode(),
        capture_output=True,
        check=False,
        timeout=30,
        env={},
        cwd=place.root,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_everything_stands_once(once: Place) -> None:
    """The first prompt gets all four slots, the next ones nothing that was sent; other sessions are their own."""
    first = once.digest(PROMPT)
    assert all(text in first for text in (ABOUT, DUMP, RETRY, NIGHT))
    assert once.digest(PROMPT) == ""
    assert once.digest("and what about the production database at night?") == ""
    assert ABOUT in once.digest(PROMPT, session_id="t")


def test_after_so_many_turns_it_is_sent_again(once: Place) -> None:
    """Every `remind_every` turns, what slot 4 showed included."""
    digests = [once.digest(PROMPT) for _ in range(9)]
    assert [ABOUT in digest for digest in digests] == [turn % 4 == 0 for turn in range(9)]
    assert [NIGHT in digest for digest in digests] == [turn % 4 == 0 for turn in range(9)]


def test_a_lesson_that_only_appends_is_sent_alone(once: Place) -> None:
    """The hook prints its own copy from where the session's ends."""
    once.digest(PROMPT)
    before = published(once)
    once.note("lessons/new.md", "Queues are drained before a deploy.", date="2026-01-04")
    once.wait(lambda: published(once) != before)
    news = once.digest(PROMPT)
    assert news == "\n- (2026-01-04) new: Queues are drained before a deploy."
    assert once.digest(PROMPT) == ""


def test_a_new_prohibition_is_sent_alone(once: Place) -> None:
    """It stands in the middle of the snapshot; the session gets its line under its heading, once."""
    once.digest(PROMPT)
    before = published(once)
    once.note("lessons/force.md", "Never force-push to main.", priority="high", date="2026-01-05")
    once.wait(lambda: published(once) != before)
    news = once.digest(PROMPT)
    assert news.endswith(
        "## Rules the user never wants broken\n- (2026-01-05) force: Never force-push to main."
    )
    assert ABOUT not in news
    assert once.digest(PROMPT) == ""


def test_a_correction_sends_everything_again(once: Place) -> None:
    """What the session was told no longer stands."""
    once.digest(PROMPT)
    before = published(once)
    once.note("lessons/dump.md", "Take a dump within ten minutes.", priority="high", date="2026-01-02")
    once.wait(lambda: published(once) != before)
    again = once.digest(PROMPT)
    assert ABOUT in again
    assert "ten minutes" in again
    assert DUMP not in again


@pytest.mark.parametrize(
    ("source", "again"), [("compact", True), ("clear", True), ("resume", False), ("other", False)]
)
def test_how_a_session_starts(once: Place, source: str, again: bool) -> None:
    """After compact and clear its transcript is empty of us; a resumed one still holds the text."""
    once.digest(PROMPT)
    started(once, source)
    assert (ABOUT in once.digest(PROMPT)) is again


def test_the_memory_survives_the_worker(once: Place) -> None:
    """A restart, and a start of the session that no worker heard: the spool is read before the next answer."""
    once.digest(PROMPT)
    once.recall("stop")
    once.recall("start")
    assert once.digest(PROMPT) == ""
    once.recall("stop")
    assert ABOUT in once.digest(PROMPT)  # nobody there: the hook falls back to all it has
    started(once, "compact")
    assert len(list((once.state / "spool").iterdir())) == 1
    once.recall("start")
    assert ABOUT in once.digest(PROMPT)
    assert once.digest(PROMPT) == ""
    assert not list((once.state / "spool").iterdir())


def test_no_session_no_memory(once: Place) -> None:
    """A client that names no session gets everything each time."""
    assert ABOUT in once.digest(PROMPT, session_id="")
    assert ABOUT in once.digest(PROMPT, session_id="")


def test_nothing_readable_is_remembered(once: Place) -> None:
    """The sessions' folder holds no prompt and no note."""
    once.digest("a prompt about zebras and the production database", session_id="zebra-session")
    told = b"".join(path.read_bytes() for path in (once.state / "sessions").iterdir())
    for word in (b"zebra", b"production", b"Chiang"):
        assert word not in told


def test_every_turn_keeps_no_sessions(place: Place) -> None:
    """Under the default policy the snapshot comes each time and nothing is remembered on disk."""
    place.note("profile/me.md", ABOUT, date="2026-01-01")
    place.recall("start")
    place.wait(lambda: published(place))
    assert ABOUT in place.digest(PROMPT)
    assert ABOUT in place.digest(PROMPT)
    assert not Path(place.state / "sessions").exists()


def test_a_note_that_was_corrected_and_undone(once: Place) -> None:
    """The session's last word about it would be the wrong one: it is shown again."""
    once.digest(PROMPT)
    for number, text in enumerate((NIGHT.replace("05:30", "06:30"), NIGHT)):
        once.note("knowledge/night.md", text, date="2025-01-05")
        once.wait(
            lambda text=text, number=number: (
                text in once.digest(PROMPT, session_id=f"{number}-{time.time_ns()}")
            )
        )
        assert text in once.digest(PROMPT)
    assert once.digest(PROMPT) == ""
