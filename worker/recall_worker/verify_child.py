"""Verify child: render every snapshot once, in a process of its own, in whatever environment it was started.

Flow:  verify → [verify_child: a copied ledger, perhaps a copied vault] → frames → verify
In:    a job as one JSON object on stdin.   Out: {"frames": {scope: base64}} on stdout.
Never: the state folder or vault that the person uses: it is given copies.
Next:  worker/recall_worker/verify.py
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Literal

from recall_worker.config import Budget
from recall_worker.frames import pack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.records import EVERYWHERE, Record
from recall_worker.scan import scan
from recall_worker.snapshot import render
from recall_worker.window import advance

Order = Literal["as stored", "reversed", "shuffled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one child shall render.

    Attributes:
        ledger: Its own copy of the ledger; a path where there is none makes a new one.
        vault: A copy of the vault to read whole, None to render what the ledger holds.
        windows: `kept` takes slot 3's window from the ledger, `new` chooses it as for an empty state.
        order: In which the records are handed to the renderer.
        seed: Of `shuffled`.
        today: ISO day that stands in for the date of undated notes seen for the first time.
        max_note_bytes: As in the config.
        budget: Limits of the digest.
    """

    ledger: str
    vault: str | None
    windows: Literal["kept", "new"]
    order: Order
    seed: int
    today: str
    max_note_bytes: int
    budget: Budget

    def to_json(self) -> str:
        """As `from_json` reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Read a job."""
        facts = json.loads(text)
        return cls(**{**facts, "budget": Budget(**facts["budget"])})


def render_scopes(job: Job) -> dict[str, bytes]:
    """Render every scope of a job's ledger.

    Returns:
        Scope to the bytes of its snapshot file.
    """
    with Ledger.open(Path(job.ledger), verify=False) as ledger:
        if job.vault is not None:
            scan(
                Path(job.vault),
                ledger,
                today=dt.date.fromisoformat(job.today),
                max_note_bytes=job.max_note_bytes,
                full=True,
                confirm_empty=True,
            )
        records = in_order(ledger.snapshot_records(), job.order, job.seed)
        frames = {}
        for scope in [EVERYWHERE, *sorted(ledger.project_names())]:
            own = [record for record in records if record.project in (None, scope or None)]
            window = ledger.window(scope) if job.windows == "kept" else advance((), own, job.budget).window
            frames[scope] = pack_snapshot(render(own, window, job.budget).text)
        return frames


def in_order(records: Sequence[Record], order: Order, seed: int) -> list[Record]:
    """The records in another order."""
    if order == "shuffled":
        return Random(seed).sample(list(records), len(records))
    return list(records[::-1] if order == "reversed" else records)


if __name__ == "__main__":
    rendered = render_scopes(Job.from_json(sys.stdin.read()))
    print(
        json.dumps({"frames": {scope: base64.b64encode(data).decode() for scope, data in rendered.items()}})
    )
