"""Rebuild: a fresh generation of the index, made beside the one that serves and swapped in at the end.

Flow:  vault → ledger → [new generation] → `current` → search
In:    the vault, read whole again.   Out: a folder under generations/, named in the file `current`.
Never: a gap: the old generation serves until the new one holds everything, edits made meanwhile included.
Next:  worker/recall_worker/daemon.py
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from recall_worker.config import Config
from recall_worker.errors import ModelError
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import LanguageSpace, load_language_space
from recall_worker.ledger import Ledger
from recall_worker.refresh import read_vault

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `index`, `embed`), units done and units in all."""

EMBED_BATCH: Final = 64
"""Texts handed to the encoder at a time: a crash costs at most this many."""


class BulkEncoder(Protocol):
    """The part of an encoder that a rebuild needs."""

    @property
    def name(self) -> str:
        """Identifies the vectors in the ledger."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension)."""


def serving_generation(state_dir: Path) -> Path:
    """Folder of the generation that serves; the first one if none was ever built."""
    try:
        name = (state_dir / "current").read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        name = ""
    return state_dir / "generations" / (name if name.isdigit() else "0001")


def rebuild(
    config: Config,
    ledger: Ledger,
    *,
    encoder: BulkEncoder | None,
    progress: Progress,
    confirm_empty: bool = False,
) -> HybridIndex:
    """Build a fresh generation from the vault and make it the one that serves.

    Vectors of unchanged texts, the recent windows and the order first seen live in the ledger and are kept.

    Args:
        encoder: None to leave missing vectors for later.
        progress: Told how far it is; may raise to end the rebuild.
        confirm_empty: Take a vault without any note as meant.

    Returns:
        The new index, open. The caller closes the old one, then calls `remove_other_generations`.

    Raises:
        VaultError: The vault as a whole cannot be read; the old generation goes on.
    """
    read_vault(
        config,
        ledger,
        full=True,
        confirm_empty=confirm_empty,
        progress=lambda done, total: progress("read", done, total),
    )
    index = HybridIndex(_next_folder(config.state_dir), ledger)
    try:
        index.follow(lambda done, total: progress("index", done, total))
        if encoder is not None:
            index.attach(encoder.name, encoder.dimension, _space(config, encoder))
            embed_all(index, encoder, progress=progress)
        read_vault(config, ledger, confirm_empty=confirm_empty)
        index.follow()
        _write_current(config.state_dir, index.folder.name)
    except BaseException:
        index.close()
        shutil.rmtree(index.folder, ignore_errors=True)
        raise
    log.info("rebuild generation=%s passages=%d", index.folder.name, len(index.view.corpus))
    return index


def embed_all(index: HybridIndex, encoder: BulkEncoder, *, progress: Progress) -> None:
    """Encode what has no vector yet; an encoder that fails leaves the rest to BM25."""
    total = index.missing()
    left = total
    try:
        while index.embed(encoder, limit=EMBED_BATCH):
            left = index.missing()
            progress("embed", total - left, total)
    except ModelError as error:
        log.warning("embed stopped missing=%d: %s", left, error)


def remove_other_generations(state_dir: Path) -> None:
    """Delete every generation but the one that serves."""
    serving = serving_generation(state_dir)
    for folder in (state_dir / "generations").iterdir():
        if folder != serving:
            shutil.rmtree(folder, ignore_errors=True)


def _space(config: Config, encoder: BulkEncoder) -> LanguageSpace:
    return load_language_space(encoder, name=encoder.name, folder=config.models)


def _next_folder(state_dir: Path) -> Path:
    """A generation's folder that no generation had before."""
    parent = state_dir / "generations"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = [int(folder.name) for folder in parent.iterdir() if folder.name.isdigit()]
    return parent / f"{max([0, *taken]) + 1:04d}"


def _write_current(state_dir: Path, name: str) -> None:
    """Name the serving generation, atomically and durably."""
    fresh = state_dir / "current.new"
    with fresh.open("w", encoding="ascii") as file:
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(state_dir / "current")
