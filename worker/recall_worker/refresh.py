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
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from recall_worker.config import Config
from recall_worker.decisions import (
    UNCHANGED,
    WAITS,
    Decision,
    PublishingLog,
    explain,
    opening,
    read_log,
    remember,
    write_log,
)
from recall_worker.errors import FrameError
from recall_worker.frames import pack_snapshot, unpack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.ledger_types import Manifest
from recall_worker.pending import NOTHING_PENDING, Pending, fits_beside, render_pending
from recall_worker.projects import Projects
from recall_worker.publish import (
    Published,
    read_snapshot,
    remove_other_snapshots,
    snapshot_name,
    write_scopes,
    write_snapshot,
)
from recall_worker.records import EVERYWHERE, Record
from recall_worker.scan import ScanReport, scan
from recall_worker.snapshot import Snapshot, render
from recall_worker.window import Advance, advance, hold, stride

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What one round means to do with one scope.

    Attributes:
        before: What its file says; None if it has none.
        step: What its window does.
        snapshot: What its file shall say.
        pending: What is sent beside it.
        waits_since: Since when its stride has been waiting, seconds since the epoch; None if none waits.
    """

    before: Manifest | None
    step: Advance
    snapshot: Snapshot
    pending: Pending = NOTHING_PENDING
    waits_since: float | None = None


class Publisher:
    """Renders slots 1 to 3 for each scope and keeps what was published.

    What changes is published at once, but for a stride: that waits while a session may have the snapshot in
    its prompt cache, and what it would bring is pending until then (docs/decisions/0013-waiting-strides.md).
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        projects: Projects,
        *,
        idle_s: Callable[[], float] = lambda: math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Publish under the config's state folder.

        Args:
            idle_s: Seconds since a session was last seen; by default there is none, and no stride waits.
            clock: Seconds since the epoch.
        """
        self._config = config
        self._ledger = ledger
        self._projects = projects
        self._idle_s = idle_s
        self._clock = clock
        self._published: dict[str, Published] = {}
        self._waiting = dict(read_log(ledger).waiting)

    @property
    def published(self) -> Mapping[str, Published]:
        """Scope to what is served now; replaced as a whole, never changed in place."""
        return self._published

    def is_due(self) -> bool:
        """True if a stride has waited long enough: publish then, also when the vault is as it was."""
        now = self._clock()
        # A clock that was set back begins the wait anew rather than making it as long as the jump.
        self._waiting = {scope: min(since, now) for scope, since in self._waiting.items()}
        return any(not self._must_wait(since, now) for since in self._waiting.values())

    def publish(self) -> int:
        """Render every scope and write what differs.

        Returns:
            Snapshot files written.
        """
        records = self._ledger.snapshot_records()
        names = sorted(self._ledger.project_names())
        now = self._clock()
        plans = {scope: self._plan(scope, records, now) for scope in [EVERYWHERE, *names]}
        published = {scope: self._carry_out(scope, plan, now) for scope, plan in plans.items()}
        self._published = {scope: item for scope, (item, _) in published.items()}
        self._waiting = {
            scope: plan.waits_since for scope, plan in plans.items() if plan.waits_since is not None
        }
        self._tell(decision for _, decision in published.values())
        folder = self._config.state_dir / "snapshots"
        write_scopes(
            folder,
            [(str(path), snapshot_name(name)) for name in names for path in self._projects.directories(name)],
        )
        remove_other_snapshots(folder, keep={snapshot_name(scope or None) for scope in published})
        written = sum(item.written for item in self._published.values())
        log.info("publish scopes=%d written=%d", len(published), written)
        return written

    def _plan(self, scope: str, records: list[Record], now: float) -> _Plan:
        """Decide what a scope shows from now on."""
        own = [record for record in records if record.project in (None, scope or None)]
        window, budget = self._ledger.window(scope), self._config.budget
        before = self._before(scope)
        step = advance(window, own, budget)
        snapshot = render(own, step.window, budget)
        if before is None:
            return _Plan(before=None, step=step, snapshot=snapshot)
        if step.reason == "stride":
            kept = hold(window, own)
            standing = render(own, kept.window, budget)
            pending = render_pending(standing, step.window, own, budget)
            since = min(self._waiting.get(scope, now), now)
            if (
                opening(standing.text) == opening(before.text)
                and self._must_wait(since, now)
                and fits_beside(pending, standing, budget)
            ):
                return _Plan(before=before, step=kept, snapshot=standing, pending=pending, waits_since=since)
        elif opening(snapshot.text) != opening(before.text):
            # Slot 3 stands behind what changed: no cache has it any more, and choosing it anew costs nothing now.
            early = stride(step.window, own, budget)
            if len(early.window) < len(step.window):
                return _Plan(before=before, step=early, snapshot=render(own, early.window, budget))
        return _Plan(before=before, step=step, snapshot=snapshot)

    def _must_wait(self, since: float, now: float) -> bool:
        """True while a cache may live that a stride would cost, and the wait is not too long."""
        return self._idle_s() < self._config.cache_ttl_s and now - since < self._config.max_stale_s

    def _before(self, scope: str) -> Manifest | None:
        """What the scope's file on disk says; None if there is none, or one that nobody remembers."""
        try:
            frame = read_snapshot(self._config.state_dir / "snapshots", snapshot_name(scope or None))
        except FrameError:
            return None
        return self._ledger.manifest(scope, frame.sha256) if frame else None

    def _carry_out(self, scope: str, plan: _Plan, now: float) -> tuple[Published, Decision]:
        """Keep the window, remember what is shown, write it."""
        if plan.step.window != self._ledger.window(scope):
            self._ledger.set_window(scope, plan.step.window)
        snapshot = plan.snapshot
        # Remembered before it is written: a hook that reads the file at once is then known.
        sha256 = unpack_snapshot(pack_snapshot(snapshot.text)).sha256
        self._ledger.remember_manifest(scope, sha256, text=snapshot.text, shown=snapshot.shown)
        written = write_snapshot(self._config.state_dir / "snapshots", snapshot_name(scope or None), snapshot)
        reason, until = explain(plan.before, snapshot, plan.step), None
        if plan.waits_since is not None:
            until = plan.waits_since + self._config.max_stale_s
            known = self._published.get(scope)
            if known is None or known.pending != plan.pending.text:
                reason = WAITS if reason == UNCHANGED else f"{reason}, {WAITS}"
        published = Published(
            snapshot=snapshot,
            sha256=sha256,
            reason=reason,
            written=written,
            pending=plan.pending.text,
            pending_shown=plan.pending.shown,
        )
        return published, Decision(at=now, scope=scope, reason=reason, written=written, until=until)

    def _tell(self, decisions: Iterable[Decision]) -> None:
        """Log a round's decisions and keep them where `recall status` finds them."""
        decided = list(decisions)
        for item in decided:
            log.info(
                "decided scope=%s reason=%s written=%d%s",
                snapshot_name(item.scope or None),
                item.reason.replace(", ", "+").replace(" ", "-"),
                item.written,
                "" if item.until is None else f" until={_clock_time(item.until)}",
            )
        past = read_log(self._ledger).decisions
        write_log(self._ledger, PublishingLog(waiting=self._waiting, decisions=remember(past, decided)))


def _clock_time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).isoformat(timespec="seconds")


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
        confirm_empty: Take it as meant that most notes or all are gone, instead of keeping what is known.
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
        grace_s=3_600 * config.deletion_grace_h,
        progress=progress,
    )
    log.log(
        logging.INFO if report.touched else logging.DEBUG,
        "scan files=%d added=%d changed=%d renamed=%d removed=%d held=%d problems=%d ms=%d",
        report.files,
        report.added,
        report.changed,
        report.renamed,
        report.removed,
        report.held,
        len(report.problems),
        report.ms,
    )
    return report
