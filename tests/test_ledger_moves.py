"""Moves: a file that was renamed while the vault was walked is one file."""

from __future__ import annotations

import shutil
from pathlib import Path

from recall_worker.ledger import Ledger
from recall_worker.ledger_moves import without_moved
from recall_worker.vault import walk_vault
from vaults import config_of, rescan, write_note


def test_a_file_listed_at_both_places_counts_at_the_new_one(tmp_path: Path) -> None:
    """Renamed behind the walk's back it was listed twice; a copy that keeps its time is listed twice rightly."""
    config = config_of(tmp_path)
    for name in ("moved", "copied"):
        write_note(config.vault, f"a/{name}.md", f"A note that is {name}.")
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        rescan(config, ledger)
        (config.vault / "b").mkdir()
        for name in ("moved", "copied"):
            shutil.copy2(config.vault / f"a/{name}.md", config.vault / f"b/{name}.md")
        walked = {file.path: file for file in walk_vault(config.vault)}
        (config.vault / "a/moved.md").unlink()
        assert sorted(without_moved(walked, ledger.files())) == ["a/copied.md", "b/copied.md", "b/moved.md"]
