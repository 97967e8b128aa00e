"""Small ledgers and indexes for tests, made through the real scan."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from recall_worker.config import Config
from recall_worker.ledger import Ledger
from recall_worker.scan import ScanReport, scan

TODAY = dt.date(2026, 6, 1)


def write_note(vault: Path, name: str, text: str, **front: object) -> Path:
    """Write a note with front matter."""
    path = vault / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head = "".join(f"{key}: {value}\n" for key, value in front.items())
    path.write_text(f"---\n{head}---\n{text}\n" if front else f"{text}\n", encoding="utf-8")
    return path


def config_of(root: Path, **more: object) -> Config:
    """A config under `root`, without a model."""
    return Config(state_dir=root / "state", vault=root / "vault", model="none", **more)  # type: ignore[arg-type]


def rescan(config: Config, ledger: Ledger) -> ScanReport:
    """Scan the vault on TODAY, reading every file whatever its time says."""
    return scan(config.vault, ledger, today=TODAY, max_note_bytes=config.max_note_bytes, full=True)
