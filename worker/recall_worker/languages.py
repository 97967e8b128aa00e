"""Languages: where the encoder puts a language as a whole, so that a Thai prompt can meet an English note.

Flow:  background sentences → encoder → [language space] → fusion
In:    an encoder.   Out: one mean vector for each language, and what unrelated text looks like to a prompt.
Never: a model or a list of its own to detect languages: script by code points, then the nearest mean.
Next:  worker/recall_worker/fusion.py

An encoder of many languages puts language before meaning: all Thai text lies near all other Thai text. Measured
from its language's mean instead, a passage lies where its meaning puts it (docs/decisions/0005-fusion.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from recall_worker.background import load_background
from recall_worker.dense import DenseMatrix
from recall_worker.kept_vectors import load_vectors
from recall_worker.scripts import Script, script_of

Floats = NDArray[np.float32]

NO_GROUP: Final = -1

MIN_SHARE: Final = 0.1
"""A language makes a group of its own if it has at least this share of its script's passages …"""

MIN_PASSAGES: Final = 8
"""… and at least so many; passages of rarer ones join the nearest group of their script."""


NO_CROWD: Final = 2.3
"""Crowding of a vault too small to tell: what a few dozen notes on different things have."""

CROWD_SAMPLE: Final = 128
"""Passages whose nearest neighbours are looked for."""

CROWD_BATCH: Final = 4_096
FEWEST_OTHERS: Final = 16


class PassageEncoder(Protocol):
    """The part of an encoder that places languages."""

    def encode_passages(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, shape (n, dimension)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSpace:
    """The background sentences as one encoder sees them.

    Attributes:
        scripts: Script of each language, shape (n_languages,).
        vectors: Unit vectors, shape (n_languages, n_sentences, dimension).
        means: Shape (n_languages, dimension).
    """

    scripts: NDArray[np.int64]
    vectors: Floats
    means: Floats

    def nearest(self, vectors: Floats, script: Script) -> NDArray[np.int64]:
        """Nearest language of a script for each vector; NO_GROUP where no language has that script."""
        candidates = np.flatnonzero(self.scripts == script)
        if not len(candidates):
            return np.full(len(vectors), NO_GROUP, np.int64)
        return self.nearest_of(vectors, candidates)

    def nearest_of(self, vectors: Floats, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nearest of some languages for each vector, shape (n,)."""
        means = self.means[candidates]
        nearest: NDArray[np.int64] = candidates[
            (vectors @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(axis=1)
        ]
        return nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Passages by language, as far as the vault makes them worth telling apart.

    Attributes:
        of_row: Language of each row, an index into the space, or NO_GROUP; shape (n_rows,).
        by_script: Languages that have a group, for each script.
    """

    of_row: NDArray[np.int64]
    by_script: dict[int, NDArray[np.int64]]

    def of_prompt(self, space: LanguageSpace, text: str, vector: Floats) -> int:
        """The group that a prompt belongs to, NO_GROUP if the vault has nothing in its script."""
        candidates = self.by_script.get(script_of(text))
        if candidates is None:
            return NO_GROUP
        return int(space.nearest_of(vector[None, :], candidates)[0])


def group_rows(
    space: LanguageSpace, languages: NDArray[np.int64], scripts: NDArray[np.int8], matrix: DenseMatrix
) -> Groups:
    """Let rare languages of a script join the common ones: few passages say little, and some are misjudged.

    Args:
        space: Of the encoder that made the vectors.
        languages: Nearest language of each row, NO_GROUP where not embedded; shape (n_rows,).
        scripts: Script of each row, shape (n_rows,).
        matrix: Their vectors.
    """
    of_row = languages.copy()
    by_script = {}
    for script in np.unique(scripts[languages != NO_GROUP]):
        rows = np.flatnonzero((scripts == script) & (languages != NO_GROUP))
        counts = np.bincount(languages[rows], minlength=len(space.scripts))
        common = np.flatnonzero(counts >= max(MIN_SHARE * len(rows), MIN_PASSAGES))
        if not len(common):
            common = np.array([counts.argmax()])
        by_script[int(script)] = common
        rare = rows[~np.isin(languages[rows], common)]
        if len(rare):
            of_row[rare] = space.nearest_of(matrix.vectors_of(rare), common)
    return Groups(of_row=of_row, by_script=by_script)


def measure_crowding(
    matrix: DenseMatrix, of_row: NDArray[np.int64], record: NDArray[np.int32], live: NDArray[np.bool_]
) -> float:
    """Tell how near notes on different things lie to each other in a vault.

    Where every note has a near neighbour, a prompt comes near to some note by chance, and must come nearer.

    Args:
        matrix: One vector for each row.
        of_row: Language of each row, NO_GROUP where not embedded; shape (n_rows,).
        record: Record of each row.
        live: Rows that count.

    Returns:
        Standard deviations by which a passage's nearest one of another record, in its language, stands out from all
        of them; median over a sample.
    """
    sampled = np.flatnonzero(live & (of_row != NO_GROUP))
    sampled = sampled[:: max(1, len(sampled) // CROWD_SAMPLE)]
    distances = [
        _standing_out(
            matrix, sampled[of_row[sampled] == group], np.flatnonzero(live & (of_row == group)), record
        )
        for group in np.unique(of_row[sampled])
    ]
    known = np.concatenate(distances) if distances else np.empty(0)
    return float(np.median(known)) if len(known) else NO_CROWD


def _standing_out(
    matrix: DenseMatrix, ours: NDArray[np.int64], rows: NDArray[np.int64], record: NDArray[np.int32]
) -> NDArray[np.float64]:
    """How far the nearest of some rows stands out from all of them, for each of ours that has enough others."""
    vectors = matrix.vectors_of(ours)
    count, total, squares = np.zeros((3, len(ours)))
    nearest = np.full(len(ours), -np.inf)
    for start in range(0, len(rows), CROWD_BATCH):
        # In batches: a copy of a large vault's vectors would double its memory.
        batch = rows[start : start + CROWD_BATCH]
        cosines = vectors @ matrix.vectors_of(batch).T
        other = record[ours][:, None] != record[batch]
        count += other.sum(axis=1)
        total += np.where(other, cosines, 0).sum(axis=1)
        squares += np.square(np.where(other, cosines, 0), dtype=np.float64).sum(axis=1)
        nearest = np.maximum(nearest, np.where(other, cosines, -np.inf).max(axis=1))
    enough = count >= FEWEST_OTHERS
    mean = total[enough] / count[enough]
    spread = np.sqrt(np.maximum(squares[enough] / count[enough] - mean**2, 1e-12))
    standing: NDArray[np.float64] = (nearest[enough] - mean) / spread
    return standing


def load_language_space(encoder: PassageEncoder, *, name: str, folder: Path) -> LanguageSpace:
    """Read the space of an encoder, or make and keep it (about 1,500 short sentences, once for each model).

    Args:
        encoder: Used only if the space is not kept yet.
        name: The encoder's name.
        folder: Where spaces are kept.

    Raises:
        ModelError: The encoder is gone.
    """
    sentences = load_background()
    flat = [line for lines in sentences.values() for line in lines]
    vectors = load_vectors("languages", flat, encoder.encode_passages, name=name, folder=folder)
    vectors = vectors.reshape(len(sentences), -1, vectors.shape[-1])
    return LanguageSpace(
        scripts=np.array([script_of("".join(lines)) for lines in sentences.values()], dtype=np.int64),
        vectors=vectors,
        means=vectors.mean(axis=1),
    )
