"""Publish: real files in a real folder, whole at any moment, untouched where nothing changes."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from recall_worker.errors import FrameError
from recall_worker.publish import (
    EVERYWHERE_NAME,
    read_snapshot,
    remove_other_snapshots,
    snapshot_name,
    write_scopes,
    write_snapshot,
)
from recall_worker.snapshot import Snapshot
from recall_worker.text import escape_json, units


def snapshot(text: str) -> Snapshot:
    """A snapshot that says this."""
    return Snapshot(text=text, units=units(text), shown=(), left_out=(), notes=())


def state_of(path: Path) -> tuple[int, int, int]:
    """What a rewrite would change: inode, modification time, size."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


@pytest.mark.parametrize("text", ["", 'About "me"\n\n- ก 👩‍👩‍👧‍👦 \\ 日本\u2028.', "x" * 9_800])
def test_written_snapshot_reads_back(tmp_path: Path, text: str) -> None:
    """The frame holds the escaped text and its size; the readable copy holds the text and a newline."""
    folder = tmp_path / "state" / "snapshots"
    assert write_snapshot(folder, EVERYWHERE_NAME, snapshot(text))
    frame = read_snapshot(folder, EVERYWHERE_NAME)
    assert frame is not None
    assert (frame.payload, frame.units) == (escape_json(text), units(text))
    assert (folder / "everywhere.md").read_text(encoding="utf-8") == f"{text}\n"


def test_same_bytes_touch_nothing(tmp_path: Path) -> None:
    """Publishing the same text again leaves both files' inode and time as they were."""
    write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("One."))
    paths = [tmp_path / "everywhere.snap", tmp_path / "everywhere.md"]
    before = [state_of(path) for path in paths]
    assert not write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("One."))
    assert [state_of(path) for path in paths] == before
    assert write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("Two."))
    assert all(state_of(path)[0] != inode for path, (inode, *_) in zip(paths, before, strict=True))


def test_lost_or_damaged_file_is_mended(tmp_path: Path) -> None:
    """A missing readable copy comes back; a torn frame is noticed on reading and written anew."""
    write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("One."))
    (tmp_path / "everywhere.md").unlink()
    assert not write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("One."))
    assert (tmp_path / "everywhere.md").is_file()
    frame = tmp_path / "everywhere.snap"
    frame.write_bytes(frame.read_bytes()[:-1])
    with pytest.raises(FrameError):
        read_snapshot(tmp_path, EVERYWHERE_NAME)
    assert write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("One."))
    assert read_snapshot(tmp_path, EVERYWHERE_NAME) is not None


def test_no_snapshot_is_none(tmp_path: Path) -> None:
    """A scope without a file has no snapshot."""
    assert read_snapshot(tmp_path, EVERYWHERE_NAME) is None


def test_files_are_private(tmp_path: Path) -> None:
    """Only the owner may read, whatever the umask; nothing else is left in the folder."""
    before = os.umask(0)
    try:
        folder = tmp_path / "snapshots"
        write_snapshot(folder, EVERYWHERE_NAME, snapshot("One."))
        write_scopes(folder, [("/src/billing", "project-billing-00000000.snap")])
    finally:
        os.umask(before)
    assert sorted(path.name for path in folder.iterdir()) == ["everywhere.md", "everywhere.snap", "scopes"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    """When the disk takes no more, the error shows, the old snapshot stays and no half file does."""
    write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot("Old."))
    script = (
        "import resource, sys; from pathlib import Path; from test_publish import *;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000));"
        "write_snapshot(Path(sys.argv[1]), EVERYWHERE_NAME, snapshot('New. ' * 1_000))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert "OSError: [Errno 27] File too large" in run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["everywhere.md", EVERYWHERE_NAME]
    frame = read_snapshot(tmp_path, EVERYWHERE_NAME)
    assert frame is not None
    assert frame.payload == b"Old."


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    """While two texts take turns, each read gives one of them whole."""
    texts = ["a" * 9_000, "ข" * 3_000]
    write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot(texts[0]))
    done = threading.Event()
    seen: set[bytes] = set()
    problems: list[FrameError] = []

    def read() -> None:
        while not done.is_set():
            try:
                frame = read_snapshot(tmp_path, EVERYWHERE_NAME)
                seen.add(frame.payload if frame else b"")
            except FrameError as error:
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        write_snapshot(tmp_path, EVERYWHERE_NAME, snapshot(texts[turn % 2]))
    done.set()
    reader.join()
    assert not problems
    assert seen <= {text.encode() for text in texts}


@pytest.mark.parametrize(
    ("project", "slug"),
    [
        ("billing", "billing"),
        ("Field Notes!", "field-notes"),
        ("/home/me/src/billing", "home-me-src-billing"),
        ("Café", "cafe"),
        ("請求", "unnamed"),
        ("x" * 300, "x" * 40),
    ],
)
def test_snapshot_names(project: str, slug: str) -> None:
    """A name is readable, short, plain ASCII, and ends in eight digits of the project's own."""
    assert re.fullmatch(rf"project-{slug}-[0-9a-f]{{8}}\.snap", snapshot_name(project))


def test_snapshot_names_do_not_meet() -> None:
    """Names that look alike on disk stay apart; no project is everywhere."""
    names = ["billing", "Billing", "billing!", "請求", "会計", "/a/billing", "/b/billing"]
    assert len({snapshot_name(name) for name in names}) == len(names)
    assert snapshot_name(None) == snapshot_name("") == EVERYWHERE_NAME


def test_scopes_longest_first(tmp_path: Path) -> None:
    """The hook takes the first match, so the deepest directory leads; order of input does not matter."""
    scopes = [
        ("/src", "a.snap"),
        ("/src/billing/api/", "c.snap"),
        ("/src/บิล", "d.snap"),
        ("/src/billing", "b.snap"),
    ]
    assert write_scopes(tmp_path, scopes)
    wanted = "/src/billing/api\tc.snap\n/src/บิล\td.snap\n/src/billing\tb.snap\n/src\ta.snap\n"
    assert (tmp_path / "scopes").read_bytes() == wanted.encode()
    before = state_of(tmp_path / "scopes")
    assert not write_scopes(tmp_path, scopes[::-1])
    assert state_of(tmp_path / "scopes") == before


def test_scopes_keep_odd_names(tmp_path: Path) -> None:
    """A directory that is no UTF-8 is listed byte for byte; one that would break the format is not."""
    odd = os.fsdecode(b"/src/\xff")
    rows = [
        (odd, "a.snap"),
        ("/b\tc", "b.snap"),
        ("/d\ne", "b.snap"),
        ("relative", "b.snap"),
        ("/", "c.snap"),
    ]
    write_scopes(tmp_path, rows)
    assert (tmp_path / "scopes").read_bytes() == b"/src/\xff\ta.snap\n/\tc.snap\n"


def test_no_scopes_is_an_empty_file(tmp_path: Path) -> None:
    """Without projects the hook finds a file without lines."""
    assert write_scopes(tmp_path, [])
    assert (tmp_path / "scopes").read_bytes() == b""


def test_projects_without_records_lose_their_snapshots(tmp_path: Path) -> None:
    """Frame and readable copy go, and leftovers of a crash; what we did not write stays."""
    kept, gone = snapshot_name("billing"), snapshot_name("/src/old")
    for name in (EVERYWHERE_NAME, kept, gone):
        write_snapshot(tmp_path, name, snapshot("One."))
    write_scopes(tmp_path, [("/src/billing", kept)])
    (tmp_path / ".everywhere.snap.a1b2c3_d.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    removed = remove_other_snapshots(tmp_path, keep={EVERYWHERE_NAME, kept})
    assert set(removed) == {".everywhere.snap.a1b2c3_d.tmp", gone, gone.replace(".snap", ".md")}
    left = {EVERYWHERE_NAME, "everywhere.md", kept, kept.replace(".snap", ".md"), "scopes", "notes.txt"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_nothing_to_remove(tmp_path: Path) -> None:
    """A state without snapshots is no error."""
    assert remove_other_snapshots(tmp_path / "missing", keep=()) == ()
