"""Locks: one worker per state folder, by a lock that the system drops when its holder dies.

Flow:  daemon, cli → [lock] → everything that writes under the state folder
In:    a state folder.   Out: a held lock, or who holds it.
Never: a stale lock: a killed worker leaves nothing to clean up.
Next:  worker/recall_worker/daemon.py
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recall_worker.errors import AlreadyRunning, RecallError

LOCK_NAME: Final = "worker.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a state folder.

    Attributes:
        pid: Process id.
        role: `worker`, or `rebuild` for a rebuild without one.
    """

    pid: int
    role: str

    def __str__(self) -> str:
        """For people."""
        return f"a {self.role}, process {self.pid}"


@contextmanager
def worker_lock(state_dir: Path, *, role: str = "worker") -> Iterator[None]:
    """Hold the state folder's lock; it gets mode 0700, and whatever the holder writes is its owner's alone.

    Args:
        state_dir: The folder.
        role: What others shall be told of the holder.

    Raises:
        AlreadyRunning: Another process holds it.
        RecallError: The state folder cannot be made or written.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        state_dir.chmod(0o700)
        handle = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RecallError(
            f"{state_dir}: cannot keep state here ({error.strerror}). "
            "Set state_dir or RECALL_STATE_DIR to a folder of yours."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = lock_holder(state_dir)
            raise AlreadyRunning(state_dir, str(holder or "another process")) from error
        os.ftruncate(handle, 0)
        try:
            os.pwrite(handle, f"{os.getpid()} {role}\n".encode(), 0)
        except OSError as error:
            raise RecallError(
                f"{state_dir}: cannot keep state here ({error.strerror}). Nothing was changed. Make room."
            ) from error
        others_mask = os.umask(0o077)  # libraries that write here leave modes to it
        try:
            yield
        finally:
            os.umask(others_mask)
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def lock_holder(state_dir: Path) -> Holder | None:
    """Who the lock file names, None if it names nobody; only `is_locked` tells whether that still holds."""
    try:
        pid, role = (state_dir / LOCK_NAME).read_text(encoding="ascii").split()
        return Holder(pid=int(pid), role=role)
    except (OSError, ValueError):
        return None


def lock_inode(state_dir: Path) -> int | None:
    """Inode of the lock file; another than at the start, or None, means that the state folder was taken away."""
    try:
        return (state_dir / LOCK_NAME).stat().st_ino
    except OSError:
        return None


def is_locked(state_dir: Path) -> bool:
    """True while a process holds the lock."""
    try:
        handle = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
