"""Status: one picture of worker, vault, index, model, budget and problems, for `recall status`.

Flow:  daemon or cli → [status] → cli
In:    the ledger, the config, what the worker knows of itself.   Out: JSON-ready facts.
Never: a record's text.
Next:  worker/recall_worker/cli.py
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from recall_worker.config import Config
from recall_worker.decisions import Decision, PublishingLog, read_log
from recall_worker.errors import FrameError
from recall_worker.frames import SnapshotFrame, unpack_snapshot
from recall_worker.hybrid import View
from recall_worker.ledger import Ledger
from recall_worker.ledger_losses import read_loss
from recall_worker.ledger_recovery import read_set_aside
from recall_worker.pending import NOTHING_PENDING, render_pending
from recall_worker.publish import snapshot_name
from recall_worker.records import EVERYWHERE
from recall_worker.snapshot import render
from recall_worker.window import advance


def failure_line(job: str, message: str) -> dict[str, Any]:
    """A job's failure as `recall status` shows it."""
    return {"job": job, "message": message, "at": time.time()}


def read_status(
    config: Config,
    ledger: Ledger,
    *,
    worker: Mapping[str, Any] | None,
    encoder: Mapping[str, Any] | None,
    view: View | None,
) -> dict[str, Any]:
    """Gather everything that a person asks of the worker.

    Args:
        worker: What the running worker says of itself; None if none runs.
        encoder: Its encoder's state; None if no worker runs.
        view: The index served now; None if no worker runs.

    Returns:
        JSON-ready; `healthy` is False where something needs a person.
    """
    problems = [
        {"path": item.path, "line": item.line, "message": item.message, "fatal": item.fatal}
        for item in ledger.problems()
    ]
    publishing = read_log(ledger)
    scopes = [
        _scope_status(config, ledger, scope, publishing)
        for scope in [EVERYWHERE, *sorted(ledger.project_names())]
    ]
    failures = list(worker["failures"]) if worker else []
    failures += [
        {"job": "ledger", "message": kept.message(), "at": kept.at.timestamp()}
        for kept in read_set_aside(config.state_dir)
    ]
    if loss := read_loss(ledger):
        failures.append({"job": "vault", "message": loss.message(config.vault), "at": loss.since})
    failed_encoder = encoder is not None and str(encoder["state"]).startswith("failed")
    left_out = sum(len(item["left_out"]) for item in scopes)
    return {
        "done": True,
        "healthy": worker is not None and not (failures or failed_encoder or left_out),
        "worker": worker,
        "state_dir": str(config.state_dir),
        "vault": {
            "path": str(config.vault),
            "exists": config.vault.is_dir(),
            "files": ledger.file_count(),
            "records": ledger.record_count(),
            "passages": ledger.passage_count(),
        },
        "index": None if view is None else _index_status(view),
        "encoder": encoder,
        "snapshot_policy": config.snapshot,
        "scopes": scopes,
        "decisions": [_decision_line(item) for item in publishing.decisions],
        "problems": problems,
        "failures": failures,
    }


def _index_status(view: View) -> dict[str, Any]:
    embedded = (
        0
        if view.meaning is None
        else int(np.count_nonzero(view.corpus.live & view.meaning.matrix.embedded_mask()))
    )
    return {
        "passages": int(np.count_nonzero(view.corpus.live)),
        "embedded": embedded,
        "seq": view.lexical.seq,
    }


def _decision_line(decision: Decision) -> dict[str, Any]:
    """A publishing decision; `until` is set while a stride waits."""
    return {**asdict(decision), "scope": decision.scope or "everywhere"}


def _scope_status(config: Config, ledger: Ledger, scope: str, publishing: PublishingLog) -> dict[str, Any]:
    """Budget of one scope's snapshot, rendered from the ledger, and whether the file on disk is that one."""
    own = [record for record in ledger.snapshot_records() if record.project in (None, scope or None)]
    window = ledger.window(scope)
    snapshot = render(own, window, config.budget)
    since = publishing.waiting.get(scope)
    pending = NOTHING_PENDING
    if since is not None:
        pending = render_pending(snapshot, advance(window, own, config.budget).window, own, config.budget)
    name = snapshot_name(scope or None)
    frame = _read_frame(config, name)
    counts = [sum(shown.slot == slot for shown in snapshot.shown) for slot in (1, 2, 3)]
    return {
        "scope": scope or "everywhere",
        "file": name,
        "published": frame is not None,
        "sha256": frame.sha256.hex() if frame else None,
        "units": snapshot.units,
        "target_units": config.budget.target_units,
        "hard_units": config.budget.hard_units,
        "profile": counts[0],
        "prohibitions": counts[1],
        "recent": counts[2],
        "pending": len(pending.shown),
        "stride_waits_until": None if since is None else since + config.max_stale_s,
        "left_out": list(snapshot.left_out),
        "notes": list(snapshot.notes),
    }


def _read_frame(config: Config, name: str) -> SnapshotFrame | None:
    try:
        return unpack_snapshot((config.state_dir / "snapshots" / name).read_bytes())
    except (OSError, FrameError):
        return None
