"""A handful of the rounds that `scripts/crash` plays by the hundred."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "crash_rounds.py"


@pytest.mark.slow
def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    """Killed with SIGKILL in the first load, in scans, rebuilds and starts: each next start serves what is right."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--rounds", "6", "--seed", "3", "--work", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    figures = json.loads(run.stdout)
    assert (figures["wrong_digests"], figures["records_lost"]) == (0, 0), figures["what"]
    assert (figures["rounds"], run.returncode) == (6, 0)
