"""Kept vectors: texts that come with Recall, encoded once for each model and kept beside it.

Flow:  bundled texts → encoder → [kept vectors] → languages, turns
In:    an encoder's name and texts.   Out: their vectors, read again in a millisecond.
Never: pickled data; vectors of another model, or of texts that have changed since.
Next:  worker/recall_worker/languages.py, worker/recall_worker/turns.py
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]


def load_vectors(
    kind: str, texts: Sequence[str], encode: Callable[[Sequence[str]], Floats], *, name: str, folder: Path
) -> Floats:
    """Read the vectors of some texts, or make and keep them.

    Args:
        kind: First part of the file's name.
        encode: Texts to vectors, shape (n, dimension); used only if they are not kept yet.
        name: The encoder's name.
        folder: Where they are kept.

    Raises:
        ModelError: The encoder is gone.
    """
    key = hashlib.sha256("\n".join([name, *texts]).encode()).hexdigest()[:16]
    path = folder / f"{kind}-{key}.npy"
    try:
        vectors: Floats = np.load(path, allow_pickle=False)
    except (OSError, ValueError):
        vectors = encode(texts)
        _keep(path, vectors)
    return vectors


def _keep(path: Path, vectors: Floats) -> None:
    """Write atomically; a folder that cannot be written costs only the time next time."""
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            np.save(file, vectors, allow_pickle=False)
        fresh.replace(path)
    except OSError as error:
        log.info("vectors not kept file=%s error=%s", path.name, error.strerror)
        fresh.unlink(missing_ok=True)
