"""Refresh: bring the ledger, the index and the snapshots up to date with the vault.

Flow:  vault → [scan → ledger → index → snapshots] → hook
In:    the vault as it is now.   Out: files under the state folder, changed only where what they say changed.
Never: two refreshes at once (the daemon runs them one after the other); a snapshot written for a change that no
       slot shows.
Next:  worker/recall_worker/daemon.py
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Mapping

from recall_worker.config import Config
from recall_worker.frames import pack_snapshot, unpack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.publish import (
    Published,
    remove_other_snapshots,
    snapshot_name,
    write_scopes,
    write_snapshot,
)
from recall_worker.records import EVERYWHERE, Record
from recall_worker.scan import ScanReport, scan
from recall_worker.snapshot import render
from recall_worker.window import advance

log = logging.getLogger(__name__)


class Publisher:
    """Renders slots 1 to 3 for each scope and keeps what was published."""

    def __init__(self, config: Config, ledger: Ledger, projects: Projects) -> None:
        """Publish under the config's state folder."""
        self._config = config
        self._ledger = ledger
        self._projects = projects
        self._published: dict[str, Published] = {}

    @property
    def published(self) -> Mapping[str, Published]:
        """Scope to what is served now; replaced as a whole, never changed in place."""
        return self._published

    def publish(self) -> int:
        """Render every scope and write what differs.

        Returns:
            Snapshot files written.
        """
        records = self._ledger.snapshot_records()
        names = sorted(self._ledger.project_names())
        published = {scope: self._publish_scope(scope, records) for scope in [EVERYWHERE, *names]}
        self._published = published
        folder = self._config.state_dir / "snapshots"
        write_scopes(
            folder,
            [(str(path), snapshot_name(name)) for name in names for path in self._projects.directories(name)],
        )
        remove_other_snapshots(folder, keep={snapshot_name(scope or None) for scope in published})
        written = sum(item.written for item in published.values())
        log.info("publish scopes=%d written=%d", len(published), written)
        return written

    def _publish_scope(self, scope: str, records: list[Record]) -> Published:
        """Advance the scope's window, render, remember, write."""
        own = [record for record in records if record.project in (None, scope or None)]
        step = advance(self._ledger.window(scope), own, self._config.budget)
        if step.window != self._ledger.window(scope):
            self._ledger.set_window(scope, step.window)
        snapshot = render(own, step.window, self._config.budget)
        # Remembered before it is written: a hook that reads the file at once is then known.
        sha256 = unpack_snapshot(pack_snapshot(snapshot.text)).sha256
        self._ledger.remember_manifest(scope, sha256, text=snapshot.text, shown=snapshot.shown)
        written = write_snapshot(self._config.state_dir / "snapshots", snapshot_name(scope or None), snapshot)
        return Published(snapshot=snapshot, sha256=sha256, reason=step.reason, written=written)


def read_vault(
    config: Config,
    ledger: Ledger,
    *,
    full: bool = False,
    confirm_empty: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    """Scan the configured vault into the ledger.

    Args:
        full: Read every file again, whatever its size and time say.
        confirm_empty: Take a vault without any note as meant, instead of keeping what is known.
        progress: Called with files done and files in all.

    Raises:
        VaultError: The vault as a whole cannot be read; nothing was changed.
    """
    report = scan(
        config.vault,
        ledger,
        today=dt.date.today(),
        max_note_bytes=config.max_note_bytes,
        full=full,
        confirm_empty=confirm_empty,
        progress=progress,
    )
    log.log(
        logging.INFO if report.touched else logging.DEBUG,
        "scan files=%d added=%d changed=%d renamed=%d removed=%d problems=%d ms=%d",
        report.files,
        report.added,
        report.changed,
        report.renamed,
        report.removed,
        len(report.problems),
        report.ms,
    )
    return report
