"""`recall start` and `recall stop`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click

from recall_worker.client import ask
from recall_worker.config import Config
from recall_worker.errors import AlreadyRunning, WorkerError
from recall_worker.locks import is_locked, lock_holder

POLL_S = 0.05


def worker_command(config: Config) -> list[str]:
    """The command line that starts a worker with these settings, wherever it is run from."""
    program = Path(sys.executable).parent / "recall-worker"
    head = [str(program)] if program.exists() else [sys.executable, "-m", "recall_worker"]
    return [*head, *config.as_arguments()]


def start_worker(config: Config, *, wait_s: float) -> None:
    """Start a worker detached from this terminal and wait until it answers.

    Raises:
        WorkerError: It ended, or did not answer in time.
    """
    if is_locked(config.state_dir):
        holder = lock_holder(config.state_dir)
        if holder is not None and holder.role != "worker":
            raise AlreadyRunning(config.state_dir, str(holder))
        click.echo(f"The worker runs already ({holder or 'starting'}).")
        return
    process = subprocess.Popen(
        worker_command(config),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace").strip()
            raise WorkerError(f"the worker ended at once: {said or 'see worker.log in the state folder'}")
        try:
            ask(config.state_dir, {"do": "ping"}, timeout_s=2)
        except WorkerError:
            time.sleep(POLL_S)
        else:
            click.echo(f"Worker started (process {process.pid}).")
            return
    raise WorkerError(
        f"{config.state_dir}: the worker has not answered after {wait_s:g} s; it may still be reading the vault. "
        "`recall status` tells."
    )


def stop_worker(config: Config, *, wait_s: float = 15.0) -> None:
    """Ask the worker to stop and wait until its lock is free.

    Raises:
        WorkerError: It is still there afterwards.
    """
    if not is_locked(config.state_dir):
        click.echo("No worker runs.")
        return
    holder = lock_holder(config.state_dir)
    if holder is not None and holder.role != "worker":
        raise AlreadyRunning(config.state_dir, str(holder))
    ask(config.state_dir, {"do": "stop"})
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if not is_locked(config.state_dir):
            click.echo("Worker stopped.")
            return
        time.sleep(POLL_S)
    raise WorkerError(
        f"{config.state_dir}: the worker ({lock_holder(config.state_dir)}) is still finishing its batch after "
        f"{wait_s:g} s. Try again, or end it with `kill`: nothing is lost."
    )
