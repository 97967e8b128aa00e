"""Dense matrix: exact, honest about what is missing, and whole for readers whatever the writer does."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recall_worker.dense import DenseMatrix

DIMENSION = 8


def unit(seed: int, n: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Random unit vectors."""
    vectors = np.random.default_rng(seed).normal(size=(n, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 40).map(lambda more: ("grow", more)),
            st.tuples(st.integers(0, 10**6), st.sets(st.integers(0, 200), max_size=12)).map(
                lambda pair: ("put", pair)
            ),
        ),
        max_size=12,
    )
)
def test_scores_are_plain_dot_products(steps: list[tuple[str, object]]) -> None:
    """After any growing and putting, each row scores as the vector last put there, or NaN."""
    matrix = DenseMatrix(DIMENSION)
    held: dict[int, NDArray[np.float32]] = {}
    rows = 0
    for kind, what in steps:
        if kind == "grow":
            rows += what  # type: ignore[operator]
            matrix.resize(rows)
        else:
            seed, wanted = what  # type: ignore[misc]
            places = sorted(place for place in wanted if place < rows)
            vectors = unit(seed, len(places))
            matrix.put(np.array(places, dtype=np.int64), vectors)
            held |= dict(zip(places, vectors, strict=True))
    query = unit(1, 1)[0]
    scores = matrix.scores(query)
    assert scores.dtype == np.float32
    assert scores.shape == (rows,) == (len(matrix),)
    assert matrix.embedded == len(held)
    assert np.flatnonzero(matrix.embedded_mask()).tolist() == sorted(held)
    for place in range(rows):
        if place in held:
            wanted = float(np.dot(held[place].astype(np.float64), query.astype(np.float64)))
            assert scores[place] == pytest.approx(wanted, abs=1e-5)
        else:
            assert np.isnan(scores[place])


def test_vectors_come_back_as_a_copy() -> None:
    """Rows with a vector give it, others give zeros, and writing to the answer changes nothing."""
    matrix = DenseMatrix(DIMENSION)
    matrix.resize(3)
    vectors = unit(5, 1)
    matrix.put(np.array([1]), vectors)
    found = matrix.vectors_of(np.array([1, 2]))
    assert np.array_equal(found, np.vstack([vectors, np.zeros_like(vectors)]))
    found[:] = 9
    assert np.array_equal(matrix.vectors_of(np.array([1])), vectors)


@pytest.mark.parametrize(
    ("rows", "vectors", "words"),
    [
        ([0, 1], unit(1, 1), "wanted shape"),
        ([0], unit(1, 1, 7), "wanted shape"),
        ([4], unit(1, 1), "wanted 0 to 3, got 4"),
        ([-1], unit(1, 1), "wanted 0 to 3, got -1"),
        ([2, 2], unit(1, 2), "each row once"),
        ([0], np.full((1, DIMENSION), np.nan, dtype=np.float32), "finite"),
    ],
)
def test_what_does_not_fit_is_refused_whole(
    rows: list[int], vectors: NDArray[np.float32], words: str
) -> None:
    """A bad row or vector is an error, and the matrix stays as it was."""
    matrix = DenseMatrix(DIMENSION)
    matrix.resize(4)
    with pytest.raises(ValueError, match=words):
        matrix.put(np.array(rows), vectors)
    assert matrix.embedded == 0


def test_rows_are_never_taken_away() -> None:
    """A corpus that lost rows needs another matrix: shrinking this one would shift meanings."""
    matrix = DenseMatrix(DIMENSION)
    matrix.resize(4)
    with pytest.raises(ValueError, match="wanted at least 4, got 3"):
        matrix.resize(3)
    with pytest.raises(ValueError, match="at least 1"):
        DenseMatrix(0)
    with pytest.raises(ValueError, match="query"):
        matrix.scores(unit(1, 1, 7)[0])


def test_readers_never_see_half_a_row() -> None:
    """While rows are added, grown and overwritten, each score is that of one whole vector or NaN."""
    dimension, step, growths = 512, 64, 32
    ones = np.full(dimension, 1 / np.sqrt(dimension), dtype=np.float32)
    matrix = DenseMatrix(dimension)
    matrix.resize(1)
    done = threading.Event()
    torn: list[float] = []
    looks = [0, 0]

    def read(reader: int) -> None:
        while not done.is_set():
            scores = matrix.scores(ones)
            whole = np.isnan(scores) | np.isclose(np.abs(scores), 1.0, atol=1e-4)
            torn.extend(scores[~whole].tolist())
            looks[reader] += 1

    readers = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
    for thread in readers:
        thread.start()
    for count in range(1, growths + 1):
        matrix.resize(step * count)
        matrix.put(np.arange(step * (count - 1), step * count), np.tile(ones, (step, 1)))
    everything = np.arange(step * growths)
    for turn in range(60):
        matrix.put(everything, np.tile(ones if turn % 2 else -ones, (len(everything), 1)))
    done.set()
    for thread in readers:
        thread.join()
    assert min(looks) > 0
    assert torn == []
    assert matrix.embedded == len(everything)
