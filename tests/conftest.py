"""Models that several test files share: a tiny one made here, and the real one, converted once a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import e5_builder
from recall_worker.encoder_convert import convert
from recall_worker.encoder_model import ensure_default_model

# A busy machine is no reason to fail: what is too slow is told by benchmarks.
settings.register_profile("recall", deadline=None)
settings.load_profile("recall")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers folder of two layers with random weights, made by the real conversion."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny-e5"
    folder.mkdir()
    source = folder.with_name("tiny.bin")
    convert(e5_builder.write_e5_file(source, e5_builder.pack(e5_builder.tensors())), folder, lambda *_: None)
    return folder


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with the default model in it; RECALL_TEST_MODELS names one to keep between runs."""
    kept = os.environ.get("RECALL_TEST_MODELS")
    folder = Path(kept) if kept else tmp_path_factory.getbasetemp().parent / "recall-models"
    ensure_default_model(folder, lambda *_: None)
    return folder
