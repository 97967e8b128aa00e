"""Encoder: texts to unit vectors, by the default model or by any sentence-transformers model.

Flow:  encoder_model, encoder_onnx → [encoder] → encoder_child → encoder_process → dense
In:    the `model` setting.   Out: an Encoder whose name tells its vectors from those of every other model.
Never: a pickle, a model's own code, or the network without `allow_download`.
Next:  worker/recall_worker/encoder_child.py
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from recall_worker.config import DEFAULT_MODEL
from recall_worker.encoder_convert import Progress
from recall_worker.encoder_model import REVISION, ensure_default_model
from recall_worker.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

QUIET_LIBRARIES: Final = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
}
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_OTHER_BACKENDS: Final = ("onnx", "openvino")  # folders of a model that torch never opens
_CONTENT: Final = (".safetensors", ".json", ".txt", ".model")
_NO_DOWNLOAD: Final = [f"*{suffix}" for suffix in _PICKLES] + [
    "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.py", "onnx/*", "openvino/*"
]  # fmt: skip
_ELSE: Final = 'Search goes on with BM25 alone. Set `model` to another folder, or to "none".'


class Encoder(Protocol):
    """Texts to vectors of unit length."""

    @property
    def name(self) -> str:
        """Model and content; vectors of different names never meet in one matrix."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of what is searched for, shape (n, dimension)."""

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of what is found, shape (n, dimension)."""


def load_encoder(
    model: str, *, models_dir: Path, allow_download: bool, progress: Progress | None = None
) -> Encoder:
    """Load an encoder; the default one is converted first if need be (about 35 s).

    Sets torch to one thread, and the environment of the Hugging Face libraries where it is not set.

    Args:
        model: `multilingual-e5-small`, a folder, or a name on the hub.
        models_dir: Where the converted default model lives.
        allow_download: Lets a name be fetched from the hub.
        progress: Told what is being done, with the ratio of the conversion that is behind us.

    Raises:
        ModelError: With what was wanted, what was found, and what to do.
    """
    for key, value in (QUIET_LIBRARIES | ({} if allow_download else OFFLINE)).items():
        os.environ.setdefault(key, value)
    tell = progress or (lambda stage, ratio: None)
    if model == DEFAULT_MODEL:
        folder = ensure_default_model(models_dir, tell)
        from recall_worker.encoder_onnx import load_graph

        # One text at a time: see OnnxTransformer.
        return SentenceEncoder(load_graph(folder), name=f"{DEFAULT_MODEL}@{REVISION}", batch_size=1)
    folder = _find_folder(model, allow_download=allow_download)
    _refuse_pickles(folder)
    return SentenceEncoder(_load(model, folder), name=f"{_short(model)}@{_content_of(folder)}", batch_size=16)


class SentenceEncoder:
    """An Encoder over a SentenceTransformer, with the model's own prompts. Several threads may use it."""

    def __init__(self, model: SentenceTransformer, *, name: str, batch_size: int) -> None:
        self.name = name
        self._model = model
        self._batch_size = batch_size
        self.dimension = self.encode_queries([""]).shape[1]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See Encoder."""
        return self._encode(self._model.encode_query, texts)

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See Encoder."""
        return self._encode(self._model.encode_document, texts)

    def _encode(self, encode: Any, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = encode(
            list(texts), batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        found: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)
        if not np.isfinite(found).all():
            raise ModelError(f"{self.name}: wanted finite vectors, got others. {_ELSE}")
        return found


def _find_folder(model: str, *, allow_download: bool) -> Path:
    """The model's folder on this machine, fetched into the hub's own cache where that is allowed."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    # sentence-transformers' own rule for a name without an owner.
    repository = model if "/" in model else f"sentence-transformers/{model}"
    try:
        return Path(
            snapshot_download(repository, local_files_only=not allow_download, ignore_patterns=_NO_DOWNLOAD)
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        fetch = "" if allow_download else " Set `allow_download` to let it be fetched from the hub."
        raise ModelError(
            f"model {model!r}: wanted a folder, or a name that is on this machine already, got neither "
            f"({type(error).__name__}). {_ELSE}{fetch}"
        ) from error


def _refuse_pickles(folder: Path) -> None:
    """A pickle runs code when it is loaded: accept weights as safetensors only."""
    for path in sorted(folder.rglob("*")):
        if path.relative_to(folder).parts[0] in _OTHER_BACKENDS or path.suffix not in _PICKLES:
            continue
        if not any(path.parent.glob("*.safetensors")):
            raise ModelError(
                f"{path}: wanted safetensors, got a pickle, which could run code. Did not load it. "
                f"{_ELSE} To convert a model that you trust: `SentenceTransformer(old).save_pretrained(new)`."
            )
    if not any(folder.rglob("*.safetensors")):
        raise ModelError(f"{folder}: wanted a sentence-transformers model, got no *.safetensors. {_ELSE}")


def _load(model: str, folder: Path) -> SentenceTransformer:
    from safetensors import SafetensorError

    from recall_worker.encoder_onnx import load_folder

    try:
        return load_folder(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError) as error:
        raise _not_loadable(model, error) from error
    except SafetensorError as error:
        raise _not_loadable(model, error) from error


def _not_loadable(model: str, error: Exception) -> ModelError:
    words = " ".join(str(error).split())[:300]
    return ModelError(
        f"model {model!r}: wanted one that sentence-transformers loads, "
        f"got {type(error).__name__} ({words}). {_ELSE}"
    )


def _short(model: str) -> str:
    """A folder by its last part: the same model elsewhere has the same vectors."""
    folder = Path(model).expanduser()
    return folder.resolve().name if folder.is_dir() else model


def _content_of(folder: Path) -> str:
    """Short hash over the names and bytes of all that decides a vector."""
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in _CONTENT and path.is_file():
            content.update(path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape") + b"\0")
            with path.open("rb") as file:
                content.update(hashlib.file_digest(file, "sha256").digest())
    return content.hexdigest()[:12]
