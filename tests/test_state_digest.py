"""State digest: what a hook would print, read from a state folder, whatever answers on its socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from recall_worker.blocks import read_parts
from recall_worker.frames import NO_SHA256, Event, Mode, Request, pack_answer, unpack_request
from recall_worker.publish import snapshot_name, write_scopes, write_snapshot
from test_snapshot import many, rendered

EVERYWHERE = rendered(many(3, "Everywhere."))
BILLING = rendered(many(4, "Everywhere, and billing."))
RELEVANT = "\n\n## Notes close to this prompt\n- (2026-01-01) Close."

Speak = Callable[[socket.socket, Request], None]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with two snapshots, and the working directory: a socket's path may not pass 107 bytes."""
    folder = tmp_path / "state"
    write_snapshot(folder / "snapshots", snapshot_name(None), EVERYWHERE)
    write_snapshot(folder / "snapshots", snapshot_name("billing"), BILLING)
    write_scopes(folder / "snapshots", [(str(tmp_path / "src" / "billing"), snapshot_name("billing"))])
    monkeypatch.chdir(folder)
    return folder


@contextmanager
def worker(speak: Speak) -> Iterator[list[Request]]:
    """Something that listens on `worker.sock` here, takes one request and says what `speak` says."""
    heard: list[Request] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("worker.sock")
        listener.listen()

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                heard.append(unpack_request(b"".join(iter(lambda: line.recv(1 << 16), b""))))
                speak(line, heard[0])

        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join(10)


def says(mode: Mode, text: str) -> Speak:
    """An answer that goes with the snapshot of the request."""
    return lambda line, request: line.sendall(
        pack_answer(mode=mode, text=text, total_units=9_800, snapshot_sha256=request.snapshot_sha256)
    )


def test_without_worker_the_snapshot_alone(state: Path) -> None:
    """Nobody listens: slots 1 to 3, and a sentence about slot 4."""
    parts = read_parts(state, prompt="anything")
    assert (parts.text, parts.relevant) == (EVERYWHERE.text, "")
    assert "no worker runs here" in parts.missing


def test_without_prompt_nothing_is_missing(state: Path) -> None:
    """Slot 4 that nobody asked for is not missed."""
    assert read_parts(state).missing == read_parts(state, prompt=" \n").missing == ""


def test_slot_4_comes_from_the_worker(state: Path) -> None:
    """The worker is asked as a hook asks it, outside any session, and its text follows the snapshot."""
    with worker(says(Mode.SNAPSHOT_AND_PAYLOAD, RELEVANT)) as heard:
        parts = read_parts(state, prompt="is it close? \udce9", directory=Path("/somewhere"))
    assert parts.text == EVERYWHERE.text + RELEVANT
    assert (parts.relevant, parts.missing, len(parts.recent)) == (RELEVANT, "", 3)
    assert (heard[0].event, heard[0].scope) == (Event.PROMPT, b"/somewhere")
    assert heard[0].snapshot_sha256 != NO_SHA256
    assert b"session_id" not in heard[0].body


def test_what_is_new_comes_without_a_prompt(state: Path) -> None:
    """Records that wait for the snapshot to be chosen anew are in the digest whoever asks, and whatever for."""
    new = "\n\n## New since then\n- (2026-01-02) Fresh."
    with worker(says(Mode.SNAPSHOT_AND_PAYLOAD, new)) as heard:
        parts = read_parts(state)
    assert (parts.text, json.loads(heard[0].body)["prompt"]) == (EVERYWHERE.text + new, "")


@pytest.mark.parametrize(("folder", "text"), [("billing/api", BILLING.text), ("billing2", EVERYWHERE.text)])
def test_the_directory_picks_the_snapshot(state: Path, tmp_path: Path, folder: str, text: str) -> None:
    """A directory below a project's reads the project's snapshot, its neighbour does not."""
    assert read_parts(state, directory=tmp_path / "src" / folder).text == text


def test_a_whole_digest_from_the_worker_is_cut_at_its_snapshot(state: Path) -> None:
    """A directory that only the worker knows: the answer brings its own snapshot, which stays cacheable."""
    with worker(says(Mode.PAYLOAD, BILLING.text + RELEVANT)):
        parts = read_parts(state, prompt="is it close?", directory=Path("/elsewhere/billing"))
    assert (parts.text, parts.relevant, len(parts.recent)) == (BILLING.text + RELEVANT, RELEVANT, 4)


def test_a_prompt_nobody_searches_for(state: Path) -> None:
    """A client's own command gets the snapshot and is told why not more."""
    with worker(says(Mode.NOTHING, "")):
        parts = read_parts(state, prompt="/clear")
    assert (parts.text, bool(parts.missing)) == (EVERYWHERE.text, True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [(b"", "hung up"), (b"no frame at all" * 9, "frame"), (b"x" * 300_000, "longer")],
)
def test_a_worker_that_talks_nonsense(state: Path, said: bytes, reason: str) -> None:
    """Silence, garbage and floods leave the snapshot alone."""

    def speak(line: socket.socket, _: Request) -> None:
        with suppress(OSError):  # whoever reads may have heard enough
            line.sendall(said)

    with worker(speak):
        parts = read_parts(state, prompt="anything")
    assert (parts.text, reason in parts.missing) == (EVERYWHERE.text, True)


def test_a_worker_that_hangs(state: Path) -> None:
    """One that says a byte now and then is left at the time named, not at the end of its patience."""
    heard_enough = threading.Event()

    def speak(line: socket.socket, _: Request) -> None:
        with suppress(OSError):
            while not heard_enough.wait(0.05):
                line.sendall(b"R")

    with worker(speak):
        parts = read_parts(state, prompt="anything", timeout_s=0.4)
        heard_enough.set()
    assert (parts.text, "did not answer within 0.4 s" in parts.missing) == (EVERYWHERE.text, True)


def test_a_damaged_snapshot_falls_back(state: Path, tmp_path: Path) -> None:
    """Like the hook: the project's file is torn, so everywhere's is read; with both torn there is none."""
    project = state / "snapshots" / snapshot_name("billing")
    project.write_bytes(project.read_bytes()[:-1])
    assert read_parts(state, directory=tmp_path / "src" / "billing").text == EVERYWHERE.text
    (state / "snapshots" / snapshot_name(None)).write_bytes(b"")
    assert read_parts(state, directory=tmp_path / "src" / "billing").text == ""


def test_no_state_folder(tmp_path: Path) -> None:
    """A folder that is not there is an empty digest."""
    parts = read_parts(tmp_path / "nowhere", prompt="anything")
    assert (parts.text, bool(parts.missing)) == ("", True)
