"""Encoder ONNX: sentence-transformers models as this project runs them, with ONNX Runtime or with torch.

Flow:  encoder_model → [encoder_onnx] → encoder → encoder_process → dense
In:    a model's folder.   Out: a SentenceTransformer on one thread.
Never: imported at the top of another module: torch and sentence-transformers take seconds and 400 MB.
Next:  worker/recall_worker/encoder.py
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer

from recall_worker.encoder_folder import (
    CHARACTERS_PER_TOKEN,
    GRAPH,
    PASSAGE_TOKENS,
    PROMPTS,
    QUERY_TOKENS,
    TOKENIZER,
)


class OnnxTransformer(InputModule):  # type: ignore[misc]  # sentence-transformers is not typed for us
    """The input module of a SentenceTransformer, with an ONNX session where the library's own holds torch.

    Session and tokenizer are safe to use from several threads at once, so a prompt need not wait for a batch.
    Callers make every text a batch of its own: int8 scales its activations over a whole batch, so a neighbour
    would change a text's vector, and on one thread a batch is no faster.

    Args:
        session: Takes `input_ids` and `attention_mask`, gives `last_hidden_state`.
        tokenizer: Adds the special tokens; neither pads nor cuts.
        pad: Id of the padding token.
    """

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer, *, pad: int) -> None:
        super().__init__()
        self.session = session
        self.tokenizer = tokenizer
        self.pad = pad

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, task: str | None = None, **kwargs: Any
    ) -> dict[str, torch.Tensor]:
        """Turn texts into token ids and mask, shape (n, tokens); queries are cut sooner than passages."""
        limit = QUERY_TOKENS if task == "query" else PASSAGE_TOKENS
        texts = [f"{prompt or ''}{text[: limit * CHARACTERS_PER_TOKEN]}" for text in inputs]
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        rows = [row if len(row) <= limit else [*row[: limit - 1], row[-1]] for row in rows]
        ids = np.full((len(rows), max(map(len, rows))), self.pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}

    def forward(self, features: dict[str, torch.Tensor], **kwargs: Any) -> dict[str, torch.Tensor]:
        """Add `token_embeddings`, shape (n, tokens, dimension)."""
        fed = {name: features[name].numpy() for name in ("input_ids", "attention_mask")}
        (found,) = self.session.run(["last_hidden_state"], fed)
        features["token_embeddings"] = torch.from_numpy(found)
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Refuse: the folder that this was loaded from is the saved form."""
        raise NotImplementedError("copy the model's folder instead")


class SharedSentenceTransformer(SentenceTransformer):  # type: ignore[misc]
    """A torch model that several threads may use at once.

    A fast tokenizer of transformers keeps padding and length as state, and fails with "Already borrowed" when
    two threads set them; the forward pass needs no lock.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tokenizing = threading.Lock()

    def preprocess(self, *args: Any, **kwargs: Any) -> Any:
        """Let one thread tokenize at a time."""
        with self._tokenizing:
            return super().preprocess(*args, **kwargs)


def load_graph(folder: Path) -> SentenceTransformer:
    """Load a converted folder's int8 graph, on one thread.

    Args:
        folder: As `encoder_convert` left it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # two collapse (10 x) when another process holds a core
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / GRAPH), sess_options=options, providers=["CPUExecutionProvider"]
    )
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    dimension = session.get_outputs()[0].shape[-1]
    return SentenceTransformer(
        modules=[
            OnnxTransformer(session, tokenizer, pad=tokenizer.token_to_id("<pad>") or 0),
            Pooling(dimension, pooling_mode="mean"),
            Normalize(),
        ],
        device="cpu",
        prompts=dict(PROMPTS),
        similarity_fn_name="cosine",
    )


def load_folder(folder: Path) -> SentenceTransformer:
    """Load any sentence-transformers folder with torch, on one thread; its weights must be safetensors.

    Args:
        folder: On this machine; nothing is fetched and no code in it is run.
    """
    torch.set_num_threads(1)
    model = SharedSentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"use_safetensors": True},
    )
    if model.max_seq_length is None or model.max_seq_length > PASSAGE_TOKENS:
        model.max_seq_length = PASSAGE_TOKENS
    return model
