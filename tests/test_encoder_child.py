"""Encoder child: passages on two threads while nobody prompts, on one otherwise, in their order always."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_worker.encoder_child import SLICE, encode_in_slices


def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
    """One number each."""
    return np.array([[float(text)] for text in texts], np.float32).reshape(len(texts), 1)


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, 10 * SLICE + 3])
@pytest.mark.parametrize("quiet", [True, False])
def test_vectors_come_in_the_order_of_the_texts(count: int, quiet: bool) -> None:
    """Whoever encoded which slice."""
    with ThreadPoolExecutor(1) as beside:
        texts = [str(number) for number in range(count)]
        found = encode_in_slices(texts, vectors_of, beside=beside, quiet=lambda: quiet)
    assert found.tolist() == [[float(number)] for number in range(count)]


def test_two_threads_work_at_once_while_it_is_quiet() -> None:
    """Both are inside `encode` at the same time: neither gets past the barrier alone."""
    barrier = threading.Barrier(2, timeout=30)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        barrier.wait()
        return vectors_of(texts)

    with ThreadPoolExecutor(1) as beside:
        found = encode_in_slices(
            [str(n) for n in range(2 * SLICE)], encode, beside=beside, quiet=lambda: True
        )
    assert len(found) == 2 * SLICE


def test_a_prompt_ends_the_second_thread() -> None:
    """The slice in hand is finished, the rest is left to the first thread."""
    names: list[str] = []
    asked = iter([True, True])  # quiet as the batch begins, and for one slice

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        names.append(threading.current_thread().name)
        return vectors_of(texts)

    with ThreadPoolExecutor(1, thread_name_prefix="beside") as beside:
        texts = [str(n) for n in range(20 * SLICE)]
        encode_in_slices(texts, encode, beside=beside, quiet=lambda: next(asked, False))
    assert sum(name.startswith("beside") for name in names) <= 1
    assert len(names) == 20


@pytest.mark.parametrize("place", [0, 3 * SLICE])
def test_a_text_that_fails_fails_the_batch(place: int) -> None:
    """In whichever thread; nothing goes on in the background."""
    texts = [str(number) for number in range(4 * SLICE)]
    texts[place] = "none"
    with ThreadPoolExecutor(1) as beside, pytest.raises(ValueError, match="none"):
        encode_in_slices(texts, vectors_of, beside=beside, quiet=lambda: True)
