"""A worker whose files are harmed, before it starts or under its hands, serves again without help."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from .conftest import Place


def fill(place: Place) -> None:
    """A prohibition, a lesson and a note to be found."""
    place.note("lessons/never.md", "Never migrate without a dump.", priority="high", date="2026-01-02")
    place.note("lessons/pool.md", "The pool holds ten connections.", date="2026-01-03")
    place.note("knowledge/zebra.md", "The zebrafinch service listens on port 7411.", date="2026-01-04")


def ask(place: Place, prompt: str) -> str:
    """What a new session gets for a prompt: nothing that was asked before plays a part."""
    return place.digest(prompt, session_id=uuid4().hex)


def is_right(place: Place) -> bool:
    """True if a prompt gets all slots that the notes ask for."""
    digest = ask(place, "Which port does the zebrafinch service use?")
    return "Never migrate" in digest and "ten connections" in digest and "7411" in digest


def overwrite(path: Path, *, keep: int = 0) -> None:
    """Replace a file's bytes, but for the first ones, in place."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(keep)
        file.write(b"\xa5" * (size - keep))


def test_a_ledger_damaged_before_the_start_is_made_again(place: Place) -> None:
    """The worker starts, serves, and status names the file that was set aside until it is deleted."""
    fill(place)
    place.recall("start")
    place.wait(lambda: is_right(place))
    place.recall("stop")
    overwrite(place.state / "ledger.sqlite3", keep=4096)
    place.recall("start")
    place.wait(lambda: is_right(place))
    status = place.status()
    (failure,) = status["failures"]
    assert not status["healthy"]
    assert failure["job"] == "ledger"
    (kept,) = place.state.glob("ledger-damaged-*.sqlite3")
    assert str(kept) in failure["message"]
    assert "ledger damaged" in (place.state / "worker.log").read_text()
    kept.unlink()
    assert place.status()["healthy"]


def test_a_ledger_damaged_under_the_worker_is_made_again(place: Place) -> None:
    """The same process begins anew: nobody has to start it."""
    fill(place)
    place.recall("start")
    place.wait(lambda: is_right(place))
    pid = place.status()["worker"]["pid"]
    # A small ledger lies in its write-ahead log until that is folded in.
    overwrite(place.state / "ledger.sqlite3-wal", keep=32)
    overwrite(place.state / "ledger.sqlite3")
    place.note("lessons/late.md", "Written after the damage.", date="2026-01-05")
    place.wait(lambda: list(place.state.glob("ledger-damaged-*.sqlite3")))
    place.wait(lambda: place.status()["worker"])
    place.wait(
        lambda: (
            is_right(place)
            and "after the damage" in ask(place, "Which port does the zebrafinch service use?")
        )
    )
    assert place.status()["worker"]["pid"] == pid


def test_a_ledger_held_by_another_program_costs_a_wait(place: Place) -> None:
    """Three seconds under another program's write lock: prompts are answered, and the edit arrives after it."""
    fill(place)
    place.recall("start")
    place.wait(lambda: is_right(place))
    with closing(sqlite3.connect(place.state / "ledger.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        place.note("lessons/late.md", "Written meanwhile.", date="2026-01-05")
        release = threading.Event()
        threading.Timer(3.0, release.set).start()
        while not release.is_set():
            assert is_right(place)
        other.execute("ROLLBACK")
    place.wait(lambda: "Written meanwhile" in ask(place, "Which port does the zebrafinch service use?"))
    assert place.status()["failures"] == []


def lexical_folder(place: Place) -> Path:
    """The Whoosh index that serves."""
    (folder,) = (place.state / "generations").glob("*/lexical")
    return folder


def lose_segments(folder: Path) -> None:
    """Delete every file but the table of contents."""
    for file in folder.iterdir():
        if not file.name.startswith("_MAIN"):
            file.unlink()


def tear_segments(folder: Path) -> None:
    """Overwrite every file from its middle on."""
    for file in folder.iterdir():
        overwrite(file, keep=file.stat().st_size // 2)


def lose_folder(folder: Path) -> None:
    """Delete the index."""
    shutil.rmtree(folder)


def lock_taken(folder: Path) -> None:
    """Put a folder where Whoosh's lock file should be."""
    for file in folder.glob("*LOCK*"):
        file.unlink()
    for name in ("MAIN_WRITELOCK", "_MAIN_LOCK"):
        (folder / name).mkdir(exist_ok=True)


HARMS = [lose_segments, tear_segments, lose_folder, lock_taken]


@pytest.mark.parametrize("harm", HARMS)
def test_an_index_damaged_before_the_start_is_made_again(place: Place, harm: Callable[[Path], None]) -> None:
    """Whatever happened to Whoosh's files, the next start finds every note."""
    fill(place)
    place.recall("start")
    place.wait(lambda: is_right(place))
    place.recall("stop")
    harm(lexical_folder(place))
    place.recall("start")
    place.note("knowledge/okapi.md", "The okapi queue holds 512 messages.", date="2026-01-05")
    place.wait(
        lambda: is_right(place) and "512" in ask(place, "How many messages does the okapi queue hold?")
    )
    assert place.status()["failures"] == []


@pytest.mark.parametrize("harm", HARMS)
def test_an_index_damaged_under_the_worker_is_made_again(place: Place, harm: Callable[[Path], None]) -> None:
    """Whatever happens to Whoosh's files under a running worker, old and new notes are found again without help."""
    fill(place)
    place.recall("start")
    place.wait(lambda: is_right(place))
    harm(lexical_folder(place))
    place.note("knowledge/okapi.md", "The okapi queue holds 512 messages.", date="2026-01-05")
    place.wait(
        lambda: is_right(place) and "512" in ask(place, "How many messages does the okapi queue hold?")
    )
    place.wait(lambda: place.status()["failures"] == [])


def test_a_killed_workers_last_word_stands(place: Place) -> None:
    """After kill -9 the hook still prints the snapshot, and the next start serves all of it."""
    fill(place)
    place.settings["autostart"] = "false"
    place.recall("start")
    place.wait(lambda: is_right(place))
    os.kill(place.status()["worker"]["pid"], signal.SIGKILL)
    assert "Never migrate" in ask(place, "Which port does the zebrafinch service use?")
    place.recall("start")
    place.wait(lambda: is_right(place))
    assert json.loads(place.recall("status", "--json").stdout)["healthy"]
