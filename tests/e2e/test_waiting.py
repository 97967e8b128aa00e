"""A stride that waits, through real processes: nothing new is missing, and the published bytes stay."""

from __future__ import annotations

from recall_worker.config import Budget

from .conftest import Place

FULL = 2 * Budget().recent_n - 1
QUIET = "zzz"


def fill(place: Place) -> list[str]:
    """A worker with a session, and lesson after lesson until slot 3 is full; the hook's command."""
    place.note("lessons/00.md", "Number 0.", date="2026-01-01")
    place.recall("rebuild")
    place.recall("start")
    command = place.hook_command()
    for number in range(1, FULL):
        place.note(f"lessons/{number:02}.md", f"Number {number}.", date="2026-01-01")
        place.wait(lambda number=number: f"Number {number}." in place.digest(QUIET, command=command))
    return command


def snapshot_of(place: Place) -> bytes:
    """The published bytes."""
    return (place.state / "snapshots" / "everywhere.snap").read_bytes()


def waiting(place: Place) -> int:
    """Records that stand beside the snapshot, as the status says."""
    return int(place.status()["scopes"][0]["pending"])


def test_the_newest_record_stands_beside_a_snapshot_that_waits(place: Place) -> None:
    """While prompts come, the twelfth lesson is sent after the same bytes; a search for it does not repeat it."""
    command = fill(place)
    before, published = place.digest(QUIET, command=command), snapshot_of(place)
    place.note("lessons/new.md", "The walrus sleeps on ice.", date="2026-02-01")
    place.wait(lambda: "walrus" in place.digest(QUIET, command=command))
    digest = place.digest("where does the walrus sleep on ice?", command=command)
    assert digest.startswith(before)
    assert digest.count("walrus sleeps") == 1
    assert snapshot_of(place) == published
    status = place.status()
    assert (waiting(place), status["decisions"][-1]["reason"]) == (1, "stride waits")
    assert "stride waits until" in place.recall("status", check=False).stdout

    place.recall("stop")
    place.recall("start")
    assert waiting(place) == 1
    assert "walrus" in place.digest(QUIET, command=command)
    assert snapshot_of(place) == published
    assert place.recall("verify").stdout.count("identical") == 8


def test_a_wait_ends_on_its_own(place: Place) -> None:
    """When it has lasted too long the next scan publishes, though nothing changed and prompts keep coming."""
    place.settings["max_stale_s"] = "3"
    command = fill(place)
    published = snapshot_of(place)
    place.note("lessons/new.md", "The walrus sleeps on ice.", date="2026-02-01")
    place.wait(lambda: "walrus" in place.digest(QUIET, command=command))
    place.wait(lambda: place.digest(QUIET, command=command) and snapshot_of(place) != published)
    place.wait(lambda: waiting(place) == 0)  # told last, when everything is written
    assert "walrus" in (place.state / "snapshots" / "everywhere.md").read_text()
    assert place.digest(QUIET, command=command).count("walrus") == 1
