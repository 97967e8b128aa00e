"""Encoder folder: write the package's weights as the folder that sentence-transformers knows.

Flow:  e5_file → [encoder_folder] → encoder_convert → encoder_model → encoder → encoder_process → dense
In:    an E5File.   Out: settings, `model.safetensors` and a fast tokenizer.
Never: a pickle, or a name that only one release of sentence-transformers reads.
Next:  worker/recall_worker/encoder_convert.py
"""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.e5_file import E5File

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GRAPH: Final = Path("onnx", "model_qint8.onnx")
"""Where a converted folder keeps its int8 graph."""

TOKENIZER: Final = "tokenizer.json"
PROMPTS: Final = {"query": "query: ", "document": "passage: "}
"""What e5 was trained to see ahead of a text. Source: Wang et al., Multilingual E5 Text Embeddings, 2024."""

QUERY_TOKENS: Final = 256
PASSAGE_TOKENS: Final = 512
"""Longest texts that are read; the rest is cut off. A query's time grows with its tokens."""

CHARACTERS_PER_TOKEN: Final = 32
"""More than any token takes: no piece is longer than 16, and the rest is room for white space."""

_LAYER_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def write_settings(folder: Path, file: E5File) -> None:
    """Write the small JSON files in the layout that every release of sentence-transformers reads."""
    shape, special = file.shape, file.specials
    named = {
        role: file.pieces[place][0]
        for role, place in {
            "bos_token": special.bos,
            "cls_token": special.bos,
            "eos_token": special.eos,
            "sep_token": special.eos,
            "pad_token": special.pad,
            "unk_token": special.unk,
        }.items()
    }
    settings: dict[str, object] = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "vocab_size": shape.vocabulary,
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.inner,
            "hidden_act": "gelu",
            "max_position_embeddings": shape.positions,
            "type_vocab_size": shape.token_types,
            "layer_norm_eps": shape.epsilon,
            "pad_token_id": special.pad,
            "dtype": "float32",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.positions,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            **named,
        },
        "modules.json": [
            {"idx": idx, "name": str(idx), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for idx, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
        "sentence_bert_config.json": {"max_seq_length": shape.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": PROMPTS,
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {"word_embedding_dimension": shape.hidden, "pooling_mode_mean_tokens": True},
    }
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    for name, content in settings.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_weights(folder: Path, file: E5File) -> None:
    """Write `model.safetensors` under the names of transformers' BertModel."""
    from safetensors.numpy import save_file

    save_file(dict(_weights(file)), folder / "model.safetensors", metadata={"format": "pt"})


def _weights(file: E5File) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Every tensor under its name in BertModel, in its shape there."""
    hidden = file.shape.hidden
    for short, name in {"word": "word", "pos": "position", "type": "token_type"}.items():
        yield f"embeddings.{name}_embeddings.weight", file.tensor(f"emb.{short}").reshape(-1, hidden)
    names = {"emb.ln": "embeddings.LayerNorm"} | {
        f"l{layer}.{short}": f"encoder.layer.{layer}.{name}"
        for layer in range(file.shape.layers)
        for short, name in _LAYER_PARTS.items()
    }
    for short, name in names.items():
        weight, bias = file.tensor(f"{short}.w"), file.tensor(f"{short}.b")
        # A layer norm has a weight for each bias; a linear layer has a row of them.
        yield f"{name}.weight", weight if weight.size == bias.size else weight.reshape(bias.size, -1)
        yield f"{name}.bias", bias
    # Nothing reads the pooler. Without it transformers would fill it with random numbers, and say so.
    yield "pooler.dense.weight", np.zeros((hidden, hidden), dtype=np.float32)
    yield "pooler.dense.bias", np.zeros(hidden, dtype=np.float32)


def build_tokenizer(file: E5File) -> Tokenizer:
    """Build the fast tokenizer: XLM-RoBERTa's pipeline over the file's pieces.

    The file's normalisation table is NFKC with exceptions, so NFKC stands for it and the exceptions go first.
    Unlike the table, that also composes what arrives decomposed (`e` + U+0301), as the original does.

    Source: XLMRobertaConverter in transformers' convert_slow_tokenizer.py.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    exceptions, kept = _exceptions(file)
    # A character that NFKC would change but the pieces know (～) hides behind a private one meanwhile.
    shields = [(character, chr(0xE000 + place)) for place, character in enumerate(kept)]
    tokenizer = Tokenizer(models.Unigram(list(file.pieces), file.specials.unk, False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(Regex(_class_of(found)), put) for put, found in exceptions.items()),
            *(normalizers.Replace(character, shield) for character, shield in shields),
            normalizers.NFKC(),
            *(normalizers.Replace(shield, character) for character, shield in shields),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    metaspace: dict[str, Any] = {"replacement": "\u2581", "prepend_scheme": "always"}
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**metaspace)]
    )
    tokenizer.decoder = decoders.Metaspace(**metaspace)
    (bos, _), (eos, _) = file.pieces[file.specials.bos], file.pieces[file.specials.eos]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B {eos}",
        special_tokens=[(bos, file.specials.bos), (eos, file.specials.eos)],
    )
    return tokenizer


def _exceptions(file: E5File) -> tuple[dict[str, list[str]], list[str]]:
    """Where the table differs from NFKC: replacement to characters, and the characters that must stay."""
    replaced: defaultdict[str, list[str]] = defaultdict(list)
    for character, put in file.normalisation.items():
        if unicodedata.normalize("NFKC", character) != put:
            replaced[put].append(character)
    known = {character for piece, _ in file.pieces for character in piece}
    kept = {c for c in known - file.normalisation.keys() if unicodedata.normalize("NFKC", c) != c}
    return dict(replaced), sorted(kept)


def _class_of(characters: Iterable[str]) -> str:
    """A regular expression (Oniguruma's syntax) for one of these characters."""
    return "[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]"
