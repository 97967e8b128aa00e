"""Encoder convert: the 4-bit file of the package becomes a folder with an int8 ONNX graph.

Flow:  e5_file → encoder_folder → [encoder_convert] → encoder_model → encoder → encoder_process → dense
In:    an E5File and an empty folder.   Out: a sentence-transformers folder with its int8 graph.
Never: a hub, a pickle, or a graph that was not held against the float32 model.
Next:  worker/recall_worker/encoder_model.py
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.e5_file import E5File
from recall_worker.encoder_folder import GRAPH, TOKENIZER, build_tokenizer, write_settings, write_weights
from recall_worker.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Progress = Callable[[str, float], None]
"""Called with what is being done and the ratio of the whole that is behind us."""

MIN_COSINE: Final = 0.97
"""What an int8 vector must share with the float32 one at the least; 0.99 is usual."""

_OPSET: Final = 17  # the first with LayerNormalization
_MASKED: Final = -10_000.0
_TINY: Final = 1e-6
_PROBES: Final = (
    "How do I restart the database after a failed migration?",
    "Never run a migration against production without a dump taken the same hour.",
    "ห้ามลบฐานข้อมูลจริงโดยไม่ได้สำรองไว้ก่อน",
    "ตั้งค่าเซิร์ฟเวอร์ให้เริ่มทำงานใหม่เองได้อย่างไร",
    "本番環境のデータベースを移行する前に必ずバックアップを取る。",
    "テストが遅いときはどこを調べればよいですか?",
)


def convert(file: E5File, folder: Path, progress: Progress) -> None:
    """Fill an empty folder with the model in both forms. Takes 35 s and, for a moment, 3 GB of memory.

    Args:
        file: The package's weights.
        folder: Empty; holds 1.1 GB for a moment and 0.6 GB in the end.
        progress: Told of each step.

    Raises:
        ModelError: Neither way to quantise keeps enough of the model's vectors on this machine.
        OSError: The disk is full or the folder not writable.
    """
    progress("unpacking the weights", 0.0)
    write_settings(folder, file)
    write_weights(folder, file)
    progress("building the tokenizer", 0.15)
    build_tokenizer(file).save(str(folder / TOKENIZER))
    exported = folder / "float32.onnx"
    wanted = _export_float32(folder, exported, progress)
    (folder / GRAPH).parent.mkdir()
    for seven_bits in (False, True):
        progress("quantising", 0.6)
        quantise(exported, folder / GRAPH, seven_bits=seven_bits)
        progress("checking against float32", 0.95)
        cosine = _least_cosine(folder, wanted)
        if cosine >= MIN_COSINE:
            break
    else:
        raise ModelError(
            f"{folder.name}: wanted int8 vectors with a cosine of {MIN_COSINE} to float32, "
            f"got {cosine:.3f} on this processor. Search goes on with BM25 alone. "
            'Set `model` to a sentence-transformers folder, or to "none".'
        )
    exported.unlink()
    progress("done", 1.0)


def _export_float32(folder: Path, target: Path, progress: Progress) -> NDArray[np.float32]:
    """Load the folder as anyone would, export its graph, and say what its vectors of the probes are."""
    from recall_worker.encoder_onnx import load_folder

    progress("loading the float32 model", 0.2)
    model = load_folder(folder)
    progress("exporting to ONNX", 0.3)
    wanted = _probe(model)
    export(model, target)
    return wanted


def export(model: SentenceTransformer, path: Path) -> None:
    """Write the transformer as an ONNX graph from token ids and mask to token vectors. Spoils the model.

    The graph takes any number of texts and tokens. It adds the mask as numbers, which transformers passes
    through: its own way to build one branches on shapes, and a trace keeps only one branch.
    """
    import torch

    class PerToken(torch.nn.Module):  # type: ignore[misc]  # torch is Any to the checker
        """A linear layer that brings each token to length 1 first, and its result back.

        The same function of numbers, but int8 scales its input over the whole text, and tokens differ much.
        In the feed-forward layers this takes three quarters of int8's error away for a twelfth of the time.
        """

        def __init__(self, linear: Any) -> None:
            super().__init__()
            self.weight, self.bias = linear.weight, linear.bias

        def forward(self, tokens: Any) -> Any:
            length = tokens.norm(dim=-1, keepdim=True).clamp_min(_TINY)
            return torch.matmul(tokens / length, self.weight.t()) * length + self.bias

    class Graph(torch.nn.Module):  # type: ignore[misc]
        """The transformer, fed as OnnxTransformer feeds it."""

        def __init__(self, bert: Any) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            bias = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * _MASKED
            types = torch.zeros_like(input_ids)
            return self.bert(input_ids=input_ids, attention_mask=bias, token_type_ids=types).last_hidden_state

    bert = model[0].auto_model
    for layer in bert.encoder.layer:  # the attention's four gain next to nothing by it
        layer.intermediate.dense = PerToken(layer.intermediate.dense)
        layer.output.dense = PerToken(layer.output.dense)
    # `eval`: the exporter puts the module back into the mode it had, and in training mode dropout is on.
    graph = Graph(bert).eval()
    example = torch.tensor([[0, 5, 6, 2], [0, 5, 2, 1]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    names = ("input_ids", "attention_mask", "last_hidden_state")
    with torch.no_grad(), warnings.catch_warnings():
        # The exporter that needs no onnxscript is deprecated, and tracing warns of much that does not matter.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            (example, mask),
            str(path),
            input_names=list(names[:2]),
            output_names=[names[2]],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names},
            opset_version=_OPSET,
            dynamo=False,
        )


def quantise(source: Path, target: Path, *, seven_bits: bool) -> None:
    """Quantise the weights to int8, one scale per output channel; activations follow at run time.

    Args:
        source: A float32 graph.
        target: Overwritten.
        seven_bits: Use half the range: x86 without VNNI adds two products in 16 bits, which can overflow.

    Source: ONNX Runtime's documentation, "Quantize ONNX models: when and why do I need to try U8U8?"
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    root.addHandler(logging.NullHandler())  # it logs through the root logger, which would install a handler
    root.setLevel(logging.ERROR)
    try:
        quantize_dynamic(
            source, target, per_channel=True, reduce_range=seven_bits, weight_type=QuantType.QInt8
        )
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    onnx.checker.check_model(str(target))


def _probe(model: SentenceTransformer) -> NDArray[np.float32]:
    """Vectors of the probes as queries and as passages, shape (2 n, dimension)."""
    texts = list(_PROBES)
    encoders = (model.encode_query, model.encode_document)
    found = [encode(texts, batch_size=1, show_progress_bar=False) for encode in encoders]
    return np.concatenate(found).astype(np.float32)


def _least_cosine(folder: Path, wanted: NDArray[np.float32]) -> float:
    """The worst of the probes, int8 against float32."""
    from recall_worker.encoder_onnx import load_graph

    return float(np.min(np.sum(_probe(load_graph(folder)) * wanted, axis=1)))
