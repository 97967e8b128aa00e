"""`recall rebuild`: done by the running worker if there is one, else here under the worker's lock."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from recall_worker.client import order
from recall_worker.config import Config
from recall_worker.errors import ModelError
from recall_worker.locks import is_locked, lock_holder

STAGES = {
    "read": "Reading notes",
    "index": "Indexing passages",
    "embed": "Encoding passages",
    "search": "Searching",
}
SILENCE_S = 600.0
"""Longest silence of a worker that rebuilds: a single stage step never takes this long."""


class Bars:
    """A progress bar for each stage, with time left; on a pipe, one line when a stage ends."""

    def __init__(self) -> None:
        """Write to stderr, which is for people."""
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<20}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        """Show the bars."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they are."""
        self._progress.stop()

    def tell(self, stage: str, done: int, total: int) -> None:
        """Move a stage's bar; a stage without a total is a word about the encoder."""
        if stage not in STAGES:
            if (stage, total) not in self._said:
                self._said.add((stage, total))
                self._console.print(stage, style="dim")
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(STAGES[stage], total=total)
        self._progress.update(self._tasks[stage], completed=done, total=total)
        if not self._console.is_terminal and done >= total and (stage, total) not in self._said:
            self._console.print(f"{STAGES[stage]}: {total}", highlight=False)
            self._said.add((stage, total))


def run_rebuild(config: Config, *, embed: bool, confirm_empty: bool) -> None:
    """Rebuild and say what came of it.

    Raises:
        VaultError: The vault as a whole cannot be read; the old index goes on.
        WorkerError: The running worker fell silent.
    """
    holder = lock_holder(config.state_dir)
    by_worker = is_locked(config.state_dir) and (holder is None or holder.role == "worker")
    with Bars() as bars:
        if by_worker:
            result = _by_worker(config, bars, confirm_empty=confirm_empty)
        else:
            result = _here(config, bars, embed=embed, confirm_empty=confirm_empty)
    click.echo(
        f"Rebuilt {result['records']} records, {result['passages']} passages in {result['seconds']} s."
        + (
            f" {result['missing']} passages still without a vector: the worker encodes them."
            if result["missing"]
            else ""
        )
    )
    if result["problems"]:
        click.echo(f"{result['problems']} problems in the vault: `recall status` shows them.", err=True)


def _by_worker(config: Config, bars: Bars, *, confirm_empty: bool) -> dict[str, Any]:
    """Ask the running worker and show how far it is."""
    message = {"do": "rebuild", "confirm_empty": confirm_empty}
    for said in order(config.state_dir, message, timeout_s=SILENCE_S):
        if said.get("done"):
            return said
        bars.tell(said["stage"], said["done_units"], said["total"])
    sys.exit("recall: the worker hung up during the rebuild. Its old index goes on; see worker.log.")


def _here(config: Config, bars: Bars, *, embed: bool, confirm_empty: bool) -> dict[str, Any]:
    """Do it in this process, as the worker would."""
    from recall_worker.keeper import make_encoder
    from recall_worker.ledger_recovery import open_ledger
    from recall_worker.locks import worker_lock
    from recall_worker.projects import Projects
    from recall_worker.rebuild import rebuild, remove_other_generations
    from recall_worker.refresh import Publisher

    started = time.monotonic()
    with (
        worker_lock(config.state_dir, role="rebuild"),
        open_ledger(config.state_dir / "ledger.sqlite3") as ledger,
    ):
        encoder = make_encoder(config) if embed else None
        try:
            if encoder is not None:
                encoder.start()
                try:
                    encoder.wait_ready(lambda state: bars.tell(f"Encoder: {state}", 0, 0))
                except ModelError as error:
                    click.echo(f"recall: {error}", err=True)
            ready = encoder if encoder is not None and encoder.ready else None
            with rebuild(
                config, ledger, encoder=ready, progress=bars.tell, confirm_empty=confirm_empty
            ) as index:
                Publisher(config, ledger, Projects(config.projects, ledger)).publish()
                passages, missing = len(index.view.corpus), index.missing()
            remove_other_generations(config.state_dir)
            return {
                "records": ledger.record_count(),
                "passages": passages,
                "missing": missing,
                "problems": len(ledger.problems()),
                "seconds": round(time.monotonic() - started, 1),
            }
        finally:
            if encoder is not None:
                encoder.stop()
