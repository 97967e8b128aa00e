"""Encoder model: keep the default model converted on disk, whole and checked.

Flow:  e5_file → encoder_convert → [encoder_model] → encoder → encoder_process → dense
In:    the models folder.   Out: the path of a folder whose every file has the sha256 that its manifest says.
Never: a half-written folder under the final name, or a file that is used unchecked.
Next:  worker/recall_worker/encoder_onnx.py
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from recall_worker.e5_file import FILE_SHA256, E5File, find_e5_file, read_e5_file
from recall_worker.encoder_convert import Progress, convert
from recall_worker.errors import ModelError

log = logging.getLogger(__name__)

FOLDER_NAME: Final = "multilingual-e5-small"
REVISION: Final = f"int8-3-{FILE_SHA256[:12]}"
"""Goes into the name under which vectors are kept: raise its number when they come out differently."""

MANIFEST: Final = "manifest.json"


def read_package() -> E5File:
    """Read the weights of the installed package."""
    return read_e5_file(find_e5_file())


def ensure_default_model(
    models_dir: Path, progress: Progress, *, read: Callable[[], E5File] = read_package
) -> Path:
    """Give the converted default model, converting it first if it is missing or damaged.

    Two processes may ask at once: one converts, the other waits and takes the result.

    Args:
        models_dir: Made if missing.
        progress: Told only of a conversion.
        read: Called only for a conversion.

    Returns:
        The model's folder, every file of it checked just now.

    Raises:
        ModelError: The package's weights are missing or damaged, the disk is full, or the result is no good.
    """
    folder = models_dir / FOLDER_NAME
    damage = find_damage(folder)
    if damage is None:
        return folder
    try:
        models_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _conversion_lock(models_dir):
            damage = find_damage(folder)
            if damage is not None:
                log.info("model convert reason=%r", damage)
                _convert_into_place(folder, read(), progress)
    except OSError as error:
        raise ModelError(
            f"{folder}: wanted 1.1 GB of free space to convert the model, got {error.strerror or error}. "
            'Search goes on with BM25 alone. Make room there, or set `model` to "none".'
        ) from error
    return folder


def find_damage(folder: Path) -> str | None:
    """Say in a few words why a converted folder cannot be used, or None if it can.

    Reads every file whole: 0.6 GB in about 0.6 s.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["revision"] != REVISION:
            return "made by another version"
        for name, sha256 in manifest["sha256"].items():
            if _sha256_of(folder / name) != sha256:
                return f"{name} is damaged"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"not readable ({type(error).__name__})"
    return None


def _convert_into_place(folder: Path, file: E5File, progress: Progress) -> None:
    """Convert beside the final name and rename: a reader sees the old folder, none, or the whole new one."""
    prefix = f".{folder.name}."
    for leftover in folder.parent.glob(f"{prefix}*"):  # of a conversion that was killed: we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        convert(file, work, progress)
        _write_manifest(work)
        if folder.exists():
            folder.rename(work.with_name(f"{work.name}.damaged"))
        work.rename(folder)
        _sync(folder.parent)
        shutil.rmtree(work.with_name(f"{work.name}.damaged"), ignore_errors=True)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _write_manifest(folder: Path) -> None:
    """Name each file with its sha256, and let all of it reach the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): _sha256_of(path) for path in files}
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"revision": REVISION, "sha256": sums}, indent=2) + "\n", encoding="utf-8")
    for path in [*files, manifest, *(path for path in folder.rglob("*") if path.is_dir()), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _conversion_lock(models_dir: Path) -> Iterator[None]:
    """Wait for, then hold, the right to convert; the system drops it when its holder dies."""
    handle = os.open(models_dir / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
