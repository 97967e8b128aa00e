"""Locks: one worker a state folder, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recall_worker.errors import AlreadyRunning
from recall_worker.locks import is_locked, worker_lock

HOLD = """
import sys, time
from pathlib import Path
from recall_worker.locks import worker_lock
with worker_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_told_who_holds(tmp_path: Path) -> None:
    """The error names the process; the folder is private."""
    with worker_lock(tmp_path / "state"):
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
        with pytest.raises(AlreadyRunning) as caught, worker_lock(tmp_path / "state"):
            pass
        assert f"process {os.getpid()}" in str(caught.value)
    assert not is_locked(tmp_path / "state")


def test_what_the_holder_writes_is_its_owners_alone(tmp_path: Path) -> None:
    """Also through libraries that name no mode; afterwards the process is as it was."""
    before = os.umask(0o022)
    try:
        with worker_lock(tmp_path):
            (tmp_path / "inside").touch()
        (tmp_path / "after").touch()
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("inside", "after")] == [0o600, 0o644]


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    """kill -9 frees it at once."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    assert is_locked(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with worker_lock(tmp_path):
        pass
