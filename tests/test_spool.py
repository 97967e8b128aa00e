"""Spool: read once, oldest first, and whatever else lies there does no harm."""

from __future__ import annotations

from pathlib import Path

from recall_worker.frames import Event, pack_request
from recall_worker.spool import read_spool

GOLDEN = Path(__file__).parent / "golden" / "request-session-start.bin"


def test_starts_come_in_their_order_and_once(tmp_path: Path) -> None:
    """Names sort by time; what was read is gone; a file still being written waits."""
    folder = tmp_path / "spool"
    folder.mkdir()
    for name, body in (("00000000000000000002-9", b"two"), ("00000000000000000001-10", b"one")):
        (folder / name).write_bytes(pack_request(event=Event.SESSION_START, body=body))
    (folder / ".00000000000000000003-1").write_bytes(b"half")
    assert [request.body for request in read_spool(tmp_path)] == [b"one", b"two"]
    assert read_spool(tmp_path) == []
    assert [path.name for path in folder.iterdir()] == [".00000000000000000003-1"]


def test_the_hooks_own_bytes_are_understood(tmp_path: Path) -> None:
    """What the hook's golden file holds is what it spools."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "1-1").write_bytes(GOLDEN.read_bytes())
    (request,) = read_spool(tmp_path)
    assert request.event is Event.SESSION_START


def test_what_is_no_start_is_thrown_away(tmp_path: Path) -> None:
    """Garbage, a prompt and a folder; no folder at all is the usual case."""
    assert read_spool(tmp_path) == []
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "1").write_bytes(b"garbage")
    (folder / "2").write_bytes(pack_request(event=Event.PROMPT, body=b"{}"))
    (folder / "3").mkdir()
    assert read_spool(tmp_path) == []
    assert [path.name for path in folder.iterdir()] == ["3"]
