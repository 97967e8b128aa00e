"""Encoder wire: the messages between the worker and its encoder process.

Flow:  encoder_process ⇄ [encoder_wire] ⇄ encoder_child
In:    texts, vectors, words about the state.   Out: bytes on a socket pair: 24 of header, then the payload.
Never: a pickle, or a length that is believed unchecked.
Next:  worker/recall_worker/encoder_link.py
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.errors import FrameError

MAX_PAYLOAD_BYTES: Final = 64 * 1024 * 1024

_MAGIC: Final = b"RCLE"
_HEADER: Final = struct.Struct("<4sB3xIIQ")  # magic, kind, payload bytes, timeout in ms, request
_RATIO: Final = struct.Struct("<f")
_SHAPE: Final = struct.Struct("<II")


class Kind(IntEnum):
    """What a message says."""

    PROGRESS = 1  # child: ratio of the conversion, and what is being done
    READY = 2  # child: dimension, and the encoder's name
    QUERIES = 3  # worker: texts, answered ahead of passages
    PASSAGES = 4  # worker: texts
    VECTORS = 5  # child: the answer, with the number of its request
    FAILED = 6  # child: why there is no answer; request 0: why there is no encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message.

    Attributes:
        request: Number that an answer shares with its request; 0 where there is none.
        timeout_ms: After this nobody waits for the answer; 0 for no limit.
    """

    kind: Kind
    payload: bytes = b""
    request: int = 0
    timeout_ms: int = 0

    def pack(self) -> bytes:
        """The bytes to send."""
        return (
            _HEADER.pack(_MAGIC, self.kind, len(self.payload), self.timeout_ms, self.request) + self.payload
        )


def receive(stream: BinaryIO) -> Message | None:
    """Read the next message, waiting for it.

    Returns:
        None when the other side has closed, also in the middle of a message.

    Raises:
        FrameError: The bytes are no message.
    """
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, kind, size, timeout_ms, request = _HEADER.unpack(header)
    if magic != _MAGIC or kind not in set(Kind) or size > MAX_PAYLOAD_BYTES:
        raise FrameError(f"encoder: wanted a message, got magic {magic!r}, kind {kind}, {size:,} bytes")
    payload = stream.read(size)
    if len(payload) < size:
        return None
    return Message(kind=Kind(kind), payload=payload, request=request, timeout_ms=timeout_ms)


def pack_texts(texts: Sequence[str]) -> bytes:
    """Count, byte lengths, then the texts in UTF-8; a lone surrogate becomes `?`."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    return struct.pack(f"<I{len(encoded)}I", len(encoded), *map(len, encoded)) + b"".join(encoded)


def unpack_texts(payload: bytes) -> list[str]:
    """Undo `pack_texts`.

    Raises:
        FrameError: The lengths do not add up.
    """
    try:
        (count,) = struct.unpack_from("<I", payload)
        lengths = struct.unpack_from(f"<{count}I", payload, 4)
    except struct.error as error:
        raise FrameError(f"encoder: wanted texts, got {len(payload):,} bytes that end too soon") from error
    start = 4 * (count + 1)
    if start + sum(lengths) != len(payload):
        raise FrameError(f"encoder: wanted {start + sum(lengths):,} bytes of texts, got {len(payload):,}")
    texts = []
    for length in lengths:
        texts.append(payload[start : start + length].decode("utf-8"))
        start += length
    return texts


def pack_vectors(vectors: NDArray[np.float32]) -> bytes:
    """Rows, columns, then the numbers as float32, little-endian."""
    return _SHAPE.pack(*vectors.shape) + np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def unpack_vectors(payload: bytes) -> NDArray[np.float32]:
    """Undo `pack_vectors`; the array cannot be written to.

    Raises:
        FrameError: The shape does not fit the bytes.
    """
    if len(payload) < _SHAPE.size:
        raise FrameError(f"encoder: wanted vectors, got {len(payload)} bytes")
    rows, columns = _SHAPE.unpack_from(payload)
    if _SHAPE.size + 4 * rows * columns != len(payload):
        raise FrameError(f"encoder: wanted {rows} x {columns} numbers, got {len(payload):,} bytes")
    return np.frombuffer(payload, dtype="<f4", offset=_SHAPE.size).reshape(rows, columns)


def pack_progress(stage: str, ratio: float) -> bytes:
    """Ratio as float32, then the words."""
    return _RATIO.pack(ratio) + stage.encode()


def unpack_progress(payload: bytes) -> tuple[str, float]:
    """Undo `pack_progress`."""
    return payload[_RATIO.size :].decode(), _RATIO.unpack_from(payload)[0]


def pack_identity(name: str, dimension: int) -> bytes:
    """Dimension as a whole number, then the name."""
    return struct.pack("<I", dimension) + name.encode()


def unpack_identity(payload: bytes) -> tuple[str, int]:
    """Undo `pack_identity`."""
    return payload[4:].decode(), struct.unpack_from("<I", payload)[0]
