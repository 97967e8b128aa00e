"""State digest: the digest that a hook would print now, read from a state folder.

Flow:  snapshots/*.snap, worker.sock → [state digest] → blocks
In:    a state folder, a directory, a prompt.   Out: text of slots 1 to 3, text of slot 4, or why it is missing.
Never: a prompt that counts as part of a session; a failure where the snapshot alone will do.
Next:  worker/recall_worker/answer.py for the other end, hook/recall_hook/pipe.py for the hook that this acts as
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recall_worker.client import exchange
from recall_worker.errors import FrameError, RecallError
from recall_worker.frames import (
    NO_SHA256,
    AnswerFrame,
    Event,
    Mode,
    SnapshotFrame,
    pack_request,
    unpack_answer,
)
from recall_worker.publish import EVERYWHERE_NAME, SCOPES_NAME, read_snapshot

WORKER_SHARE: Final = 0.8
"""Of the time that the caller grants, what the worker is told it has: its answer must still travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigest:
    """A digest in its two halves.

    Attributes:
        snapshot: Slots 1 to 3; empty if none is published.
        relevant: What is newer than the snapshot and slot 4, separators in front; empty if there is neither.
        missing: Why slot 4 could not be had, a sentence for people; empty if nothing is missing.
    """

    snapshot: str
    relevant: str = ""
    missing: str = ""


def read_digest(
    state_dir: Path, *, prompt: str | None, directory: Path | None, timeout_s: float
) -> StateDigest:
    """Do what the hook does, and say what went wrong.

    Args:
        state_dir: Home of `snapshots/` and `worker.sock`.
        prompt: None or blank asks for no slot 4, only for what is newer than the snapshot; then nothing is missing
            if there is no answer.
        directory: Where the prompt is typed; None is everywhere.
        timeout_s: How long the worker may take, seconds.
    """
    scope = os.fsencode(directory.absolute()) if directory else b""
    held = _held_snapshot(state_dir / "snapshots", scope)
    snapshot = _text(held.payload) if held else ""
    # No session: what is asked here must neither borrow from a conversation nor count as seen in one.
    said = {"hook_event_name": "UserPromptSubmit", "prompt": prompt or ""}
    try:
        request = pack_request(
            event=Event.PROMPT,
            body=json.dumps(said).encode(),
            scope=scope,
            deadline_ms=int(1_000 * WORKER_SHARE * timeout_s),
            snapshot_sha256=held.sha256 if held else NO_SHA256,
        )
        answer = unpack_answer(exchange(state_dir, request, timeout_s=timeout_s))
    except RecallError as error:
        asked = bool(prompt and prompt.strip())
        return StateDigest(snapshot=snapshot, missing=str(error) if asked else "")
    return _joined(state_dir / "snapshots", snapshot, answer)


def _joined(folder: Path, snapshot: str, answer: AnswerFrame) -> StateDigest:
    """Put the answer beside the snapshot that it goes with."""
    said = _text(answer.payload)
    if answer.mode is Mode.NOTHING:
        return StateDigest(snapshot=snapshot, missing="the worker recalls nothing for a prompt of this kind.")
    if answer.mode is Mode.PAYLOAD:
        # The worker knows a better snapshot for this directory than the one on disk was, and sent it whole.
        snapshot = _longest_beginning(folder, said)
        said = said[len(snapshot) :]
    return StateDigest(snapshot=snapshot, relevant=said)


def _longest_beginning(folder: Path, text: str) -> str:
    """The published snapshot that a whole digest begins with; empty if it is none of them."""
    texts = (_text(frame.payload) for path in folder.glob("*.snap") if (frame := _read(folder, path.name)))
    fitting = [found for found in texts if text == found or text.startswith(f"{found}\n\n")]
    return max(fitting, key=len, default="")


def _held_snapshot(folder: Path, scope: bytes) -> SnapshotFrame | None:
    """The first sound snapshot of those that the hook would try.

    Source: docs/snapshot-format.md, `scopes`.
    """
    return next((frame for name in _names(folder, scope) if (frame := _read(folder, name))), None)


def _names(folder: Path, scope: bytes) -> list[str]:
    """Snapshot files for a directory: that of the innermost known one around it, then everywhere's."""
    try:
        lines = (folder / SCOPES_NAME).read_bytes().split(b"\n")
    except OSError:
        lines = []
    for line in lines:
        directory, _, name = line.rpartition(b"\t")
        around = directory.rstrip(b"/") + b"/"
        if directory.startswith(b"/") and b"/" not in name and (scope + b"/").startswith(around):
            return [os.fsdecode(name), EVERYWHERE_NAME]
    return [EVERYWHERE_NAME]


def _read(folder: Path, name: str) -> SnapshotFrame | None:
    try:
        return read_snapshot(folder, name)
    except (FrameError, OSError):
        return None


def _text(payload: bytes) -> str:
    """The text that a checked payload stands for."""
    text: str = json.loads(b'"' + payload + b'"')
    return text
