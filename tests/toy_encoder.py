"""An encoder small enough for any test: hashed character trigrams, deterministic, no model.

It is no stand-in for a model's quality, only for its interface: texts that share letters lie near each other.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class ToyEncoder:
    """Implements the Encoder protocol and `encode_query`."""

    name = "toy@1"
    dimension = 64

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, 64)."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.casefold()} "
            for place in range(len(padded) - 2):
                vectors[row, zlib.crc32(padded[place : place + 3].encode()) % self.dimension] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    encode_queries = encode_passages

    def encode_query(self, text: str, *, timeout_s: float) -> NDArray[np.float32] | None:
        """Unit vector, shape (64,)."""
        return self.encode_passages([text])[0] if timeout_s > 0 else None
