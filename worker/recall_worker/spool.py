"""Spool: starts of sessions that no worker heard when they happened.

Flow:  hook → spool/ → [spool] → answer → sessions
In:    files that hold a request's very bytes (docs/protocol.md).   Out: requests, oldest first; the files are gone.
Never: a file read twice, or one that is not a whole request kept.
Next:  worker/recall_worker/answer.py
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from recall_worker.errors import FrameError
from recall_worker.frames import Event, Request, unpack_request

log = logging.getLogger(__name__)

FOLDER: Final = "spool"
MAX_FILE_BYTES: Final = 262_144


def read_spool(state_dir: Path) -> list[Request]:
    """Take every session-start out of the spool; nothing there costs one look.

    Args:
        state_dir: The state folder.

    Returns:
        Oldest first; what is no session-start is thrown away.
    """
    folder = state_dir / FOLDER
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - names only
    except OSError:
        return []
    return [request for name in names if (request := _take(folder / name)) is not None]


def _take(path: Path) -> Request | None:
    """Read one file and remove it; None if it is not what it should be, or another thread took it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        path.unlink()
    except OSError:
        return None
    try:
        request = unpack_request(data)
    except FrameError as error:
        log.warning("spool file thrown away: %s", error)
        return None
    return request if request.event is Event.SESSION_START else None
