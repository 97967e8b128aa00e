"""The real client, several turns of one session: what stands in its last request under `once-per-session`."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from e2e.conftest import Place

TOOL = (Path(__file__).parents[2] / "../shared/tools/claude-code-turn").resolve()
CLIENT = Path(os.environ.get("CLAUDE_CODE_DIR", "~/.cache/claude-code-e2e")).expanduser()

ABOUT = "Backend engineer in Chiang Mai."
DUMP = "Take a dump within the hour before."
FORCE = "Never force-push to main."
NIGHT = "Migrations of the production database run between 05:30 and 07:00."

pytestmark = [
    pytest.mark.shared,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (TOOL.is_file() and (CLIENT / "node_modules").is_dir()),
        reason="needs ../shared/tools/claude-code-turn and a client that it has installed",
    ),
]


def last_request(place: Place, *prompts: str) -> str:
    """Run the prompts as turns of one session, each resuming it in a process of its own; the last request's text."""
    settings = place.root / "settings.json"
    settings.write_text(place.recall("hook-config", "claude-code").stdout, encoding="utf-8")
    work = place.root / "work"
    work.mkdir(exist_ok=True)
    run = subprocess.run(
        [str(TOOL), str(settings), str(work), *prompts],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return "\n".join(json.loads(line)["text"] for line in run.stdout.splitlines())


def turns_of(place: Place) -> int:
    """Turns of the one session that the worker remembers."""
    files = [path for path in place.state.glob("sessions/*") if not path.name.startswith(".")]
    return max((json.loads(path.read_bytes())["turn"] for path in files), default=0)


@pytest.fixture
def once(place: Place) -> Place:
    """A vault with something in slots 1, 2 and 4, and a worker that sends each session its snapshot once."""
    place.settings = {"snapshot": "once-per-session", "autostart": "false"}
    place.note("profile/me.md", ABOUT, date="2026-01-01")
    place.note("lessons/dump.md", DUMP, priority="high", date="2026-01-02")
    place.note("lessons/retry.md", "Retries need a key.", date="2026-01-03")
    place.note("knowledge/night.md", NIGHT, date="2025-01-05")
    place.recall("start")
    place.wait(lambda: place.status()["index"]["passages"] == 3)
    return place


def test_the_snapshot_stands_once_in_five_turns(once: Place) -> None:
    """So does what slot 4 found, though each turn asks for it again; resuming sends nothing twice."""
    request = last_request(
        once,
        "when do migrations of the production database run?",
        "ok thanks",
        "do migrations of the production database run at night?",
        "yes, do it",
        "which hours exactly, for migrations of the production database?",
    )
    assert turns_of(once) == 5
    for text in (ABOUT, DUMP, NIGHT, "Retries need a key."):
        assert request.count(text) == 1


def test_a_prohibition_added_in_between_stands_once(once: Place) -> None:
    """And brings nothing else with it a second time."""

    def add() -> None:
        once.wait(lambda: turns_of(once) >= 2)
        once.note("lessons/force.md", FORCE, priority="high", date="2026-01-05")

    beside = threading.Thread(target=add)
    beside.start()
    request = last_request(once, *(f"tell me more about part {number}" for number in range(7)))
    beside.join()
    for text in (ABOUT, DUMP, FORCE):
        assert request.count(text) == 1
