"""A full disk under the state folder costs no record, and when there is room again nobody has to do anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from .conftest import Place

SIZE = "12m"


@pytest.fixture
def small_disk(place: Place) -> Iterator[Path]:
    """The state folder on a file system of a few megabytes."""
    place.state.mkdir(mode=0o700)
    if not sys.platform.startswith("linux") or not shutil.which("mount"):
        pytest.skip("needs Linux and the right to mount a tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(place.state)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place.state
    place.recall("stop", check=False)
    subprocess.run(["umount", "-l", str(place.state)], check=True)


def fill(place: Place) -> None:
    """A rule, a lesson, and notes enough for a second commit to need room."""
    place.note("lessons/never.md", "Never migrate without a dump.", priority="high", date="2026-01-02")
    place.note("lessons/pool.md", "The pool holds ten connections.", date="2026-01-03")
    for number in range(60):
        place.note(f"knowledge/{number}.md", f"Service number{number} listens on port {7000 + number}.")


def use_up(folder: Path, *, leave: int = 0) -> Path:
    """Write a file until nothing fits, then give some bytes back."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
        file.truncate(max(0, path.stat().st_size - leave))
    return path


@pytest.mark.parametrize("leave", [0, 20_000, 120_000, 400_000])
def test_a_full_disk_keeps_the_last_good_digest(place: Place, small_disk: Path, leave: int) -> None:
    """Ledger, index or snapshot find no room, whichever is first: old slots stay, new ones come with the room."""
    fill(place)
    place.recall("start")
    place.wait(
        lambda: "7041" in place.digest("Which port does service number41 use?", session_id=uuid4().hex)
    )
    filler = use_up(small_disk, leave=leave)
    for number in range(60):
        place.note(
            f"knowledge/late{number}.md", f"Later number{100 + number} has port {8000 + number}. " * 40
        )
    place.note("lessons/late.md", "Written on a full disk.", date="2026-01-05")
    place.wait(
        lambda: (
            place.status()["failures"]
            or "full disk" in place.digest("Which port does service number41 use?", session_id=uuid4().hex)
        )
    )
    digest = place.digest("Which port does service number41 use?", session_id=uuid4().hex)
    assert "Never migrate" in digest
    assert "ten connections" in digest
    assert "7041" in digest
    filler.unlink()
    place.wait(
        lambda: (
            "full disk" in place.digest("zzz", session_id=uuid4().hex)
            and "8041" in place.digest("Which port has number141?", session_id=uuid4().hex)
        )
    )
    place.wait(lambda: place.status()["failures"] == [])
    assert "7041" in place.digest("Which port does service number41 use?", session_id=uuid4().hex)


def test_a_start_on_a_full_disk_ends_with_a_word(place: Place, small_disk: Path) -> None:
    """No worker can run without room: it says so, the hook goes on with the snapshot, room is all it takes."""
    fill(place)
    place.settings["autostart"] = "false"
    place.recall("start")
    place.wait(
        lambda: "7041" in place.digest("Which port does service number41 use?", session_id=uuid4().hex)
    )
    command = place.hook_command()
    place.recall("stop")
    filler = use_up(small_disk)
    run = place.recall("start", check=False)
    if run.returncode:
        assert run.stderr.count("\n") == 1, run.stderr
    assert "Never migrate" in place.digest("Which port does service number41 use?", command=command)
    filler.unlink()
    place.recall("start")
    place.wait(
        lambda: "7041" in place.digest("Which port does service number41 use?", session_id=uuid4().hex)
    )
    assert not list(place.state.glob("ledger-damaged-*"))
