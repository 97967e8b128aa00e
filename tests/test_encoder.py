"""Encoder: a conversion that is checked, vectors that depend on the text alone, and no pickle ever."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import shutil
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import e5_builder
from recall_worker.config import DEFAULT_MODEL
from recall_worker.e5_file import E5File, find_e5_file, read_e5_file
from recall_worker.encoder import Encoder, SentenceEncoder, load_encoder
from recall_worker.encoder_folder import GRAPH, PASSAGE_TOKENS, QUERY_TOKENS, build_tokenizer
from recall_worker.encoder_model import FOLDER_NAME, MANIFEST, ensure_default_model, find_damage
from recall_worker.errors import ModelError

TEXTS = (
    "how do I restart the server?",
    "the database",
    "ฐานข้อมูล",
    "データベース～",
    "",
    "a much longer passage about the server and the database, with a second half that says it all again",
)


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> E5File:
    """The builder's file, read."""
    path = tmp_path_factory.mktemp("small") / "small.bin"
    return e5_builder.write_e5_file(path, e5_builder.pack(e5_builder.tensors()))


@pytest.fixture(scope="module")
def int8(tiny_model: Path) -> Encoder:
    """The tiny model as the default one is run."""
    from recall_worker.encoder_onnx import load_graph

    return SentenceEncoder(load_graph(tiny_model), name="tiny", batch_size=1)


@pytest.fixture
def own_model(tiny_model: Path, tmp_path: Path) -> Path:
    """The tiny model as a person's own folder, without a graph."""
    folder = tmp_path / "own"
    shutil.copytree(tiny_model, folder, ignore=shutil.ignore_patterns("onnx"))
    return folder


def load(model: Path | str, tmp_path: Path) -> Encoder:
    """Load a person's own model."""
    return load_encoder(str(model), models_dir=tmp_path / "models", allow_download=False)


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Row by row."""
    return np.sum(one * other, axis=1)


# ── The tokenizer ─────────────────────────────────────────────────────────────────────────────────


def test_the_normalizer_does_what_the_table_says(small_file: E5File) -> None:
    """Each character of the table becomes what the table says, and a shielded one stays."""
    normalizer = build_tokenizer(small_file).normalizer
    for character, put in e5_builder.NORMALISATION.items():
        assert normalizer.normalize_str(f"a{character}b") == f"a{put}b"
    assert normalizer.normalize_str("～") == "～" != unicodedata.normalize("NFKC", "～")
    assert normalizer.normalize_str("e\u0301") == "é"
    assert normalizer.normalize_str("a \t\n b") == "a b"


def test_tokens_are_the_best_split_by_score(small_file: E5File) -> None:
    """Words win over letters, specials surround, what no piece covers is <unk>, white space is one."""
    encoded = build_tokenizer(small_file).encode("  restart the   database ☃ ")
    assert encoded.tokens == ["<s>", "▁re", "start", "▁the", "▁data", "base", "▁", "☃", "</s>"]
    assert encoded.ids[-2] == 3


@pytest.mark.model
def test_the_real_normalizer_equals_the_real_table() -> None:
    """What the package's table names comes out as it says, and every other character stays."""
    file = read_e5_file(find_e5_file())
    normalizer = build_tokenizer(file).normalizer
    for character in {*file.normalisation, *map(chr, range(0x20, 0xD800)), *map(chr, range(0xF900, 0x11000))}:
        wanted = re.sub(" {2,}", " ", file.normalisation.get(character, character))
        assert normalizer.normalize_str(character) == wanted, hex(ord(character))


# ── The conversion ────────────────────────────────────────────────────────────────────────────────


def test_the_folder_is_an_ordinary_one(tiny_model: Path, int8: Encoder) -> None:
    """sentence-transformers loads it without us, tokenizes alike, and agrees with the int8 graph."""
    from sentence_transformers import SentenceTransformer

    from recall_worker.encoder_onnx import load_graph

    plain = SentenceTransformer(str(tiny_model), device="cpu", local_files_only=True)
    ours = load_graph(tiny_model)
    for text in TEXTS:
        ids = [model[0].preprocess([text], prompt="query: ")["input_ids"].tolist() for model in (plain, ours)]
        assert ids[0] == ids[1]
    for encode, wanted in (
        (int8.encode_queries, plain.encode_query(list(TEXTS))),
        (int8.encode_passages, plain.encode_document(list(TEXTS))),
    ):
        assert cosines(encode(TEXTS), wanted).min() > 0.97


def test_the_network_is_the_one_in_the_file(tiny_model: Path) -> None:
    """A forward pass written out in numpy from the builder's weights gives the same vector."""
    from recall_worker.encoder_onnx import load_folder

    model = load_folder(tiny_model)
    ids = model[0].preprocess(["query: the server"])["input_ids"][0].tolist()
    wanted = _forward(ids)
    assert float(model.encode_query(["the server"])[0] @ wanted) == pytest.approx(1.0, abs=1e-5)


def test_a_vector_depends_on_its_text_alone(int8: Encoder) -> None:
    """Alone, among others or in another order, a text has the very same int8 vector of length 1."""
    together = int8.encode_passages(TEXTS)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    for place, text in enumerate(TEXTS):
        assert np.array_equal(int8.encode_passages([text])[0], together[place])
    assert np.array_equal(int8.encode_passages(TEXTS[::-1]), together[::-1])


def test_queries_and_passages_are_told_apart(int8: Encoder) -> None:
    """The model's own prompts stand ahead of the text."""
    assert not np.allclose(
        int8.encode_queries(["the server"]), int8.encode_passages(["the server"]), atol=1e-3
    )


def test_long_texts_are_cut(int8: Encoder) -> None:
    """What lies behind the limit changes nothing; a passage is read further than a query."""
    prompt = 4
    for encode, limit in ((int8.encode_queries, QUERY_TOKENS), (int8.encode_passages, PASSAGE_TOKENS)):
        head = "the server " * (limit // 2 + prompt)
        assert np.array_equal(encode([head]), encode([head + "data base " * 50_000]))
    short = "the " * (QUERY_TOKENS + 20)
    assert not np.array_equal(int8.encode_passages([short]), int8.encode_passages([short + "data base"]))


def test_no_texts_give_no_vectors(int8: Encoder) -> None:
    """An empty list keeps its second dimension."""
    assert int8.encode_passages([]).shape == (0, int8.dimension) == (0, e5_builder.HIDDEN)


def test_the_conversion_happens_once(small_file: E5File, tmp_path: Path) -> None:
    """Two that ask at the same time share one conversion; progress goes from 0 to 1; later none happens."""
    reads: list[int] = []
    ratios: list[float] = []
    found: list[Path] = []

    def read() -> E5File:
        reads.append(1)
        return small_file

    def ask() -> None:
        found.append(ensure_default_model(tmp_path, lambda _, ratio: ratios.append(ratio), read=read))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ask()
    assert len(reads) == 1
    assert found == [tmp_path / FOLDER_NAME] * 3
    assert ratios == sorted(ratios)
    assert (ratios[0], ratios[-1]) == (0.0, 1.0)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == [FOLDER_NAME]


def test_a_damaged_folder_is_converted_again(small_file: E5File, tmp_path: Path) -> None:
    """A flipped bit, a missing file, another version or a killed conversion: found, said, and mended."""

    def mend() -> Path:
        return ensure_default_model(tmp_path, lambda *_: None, read=lambda: small_file)

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    folder = mend()
    assert find_damage(folder) is None
    manifest = json.loads((folder / MANIFEST).read_text())
    for harm, words in (
        (lambda: flip(folder / GRAPH), "model_qint8.onnx is damaged"),
        (lambda: (folder / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda: (folder / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda: (folder / MANIFEST).write_text("[]"), "not readable"),
        (lambda: (folder / MANIFEST).write_text(json.dumps(manifest | {"revision": "0"})), "another version"),
    ):
        harm()
        assert words in (find_damage(folder) or "")
        (tmp_path / f".{FOLDER_NAME}.killed").mkdir()
        assert mend() == folder
        assert find_damage(folder) is None
        assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == [FOLDER_NAME]


def test_no_weights_means_no_folder(tmp_path: Path) -> None:
    """When the package is missing, the error goes up and nothing is left that looks like a model."""

    def read() -> E5File:
        return read_e5_file(find_e5_file("no_such_package_is_installed"))

    with pytest.raises(ModelError, match="BM25 alone"):
        ensure_default_model(tmp_path / "models", lambda *_: None, read=read)
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written_is_a_model_error(tmp_path: Path) -> None:
    """No room or no right to write is said in words, not as OSError."""
    blocked = tmp_path / "models"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(ModelError, match="GB of free space"):
        ensure_default_model(blocked, lambda *_: None)


# ── Other models ──────────────────────────────────────────────────────────────────────────────────


def test_any_folder_works_with_its_own_prompts(own_model: Path, tmp_path: Path) -> None:
    """A person's model is loaded as it is, and its vectors are what sentence-transformers alone gives."""
    from sentence_transformers import SentenceTransformer

    settings = own_model / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"prompts": {"query": "how: ", "document": ""}}))
    encoder = load(own_model, tmp_path)
    plain = SentenceTransformer(str(own_model), device="cpu", local_files_only=True)
    assert np.allclose(
        encoder.encode_queries(TEXTS), plain.encode([f"how: {text}" for text in TEXTS]), atol=1e-5
    )
    assert np.allclose(encoder.encode_passages(TEXTS), plain.encode(list(TEXTS)), atol=1e-5)


def test_the_name_follows_the_content(own_model: Path, tmp_path: Path) -> None:
    """The same model elsewhere keeps its name; other weights or other prompts get another."""
    moved = tmp_path / "elsewhere" / "own"
    shutil.copytree(own_model, moved)
    name = load(own_model, tmp_path).name
    assert re.fullmatch(r"own@[0-9a-f]{12}", name)
    assert load(moved, tmp_path).name == name
    (moved / "config_sentence_transformers.json").write_text("{}")
    assert load(moved, tmp_path).name != name


def test_two_threads_may_use_one_torch_model(own_model: Path, tmp_path: Path) -> None:
    """Prompts and batches at once: no "Already borrowed", and the vectors are the same as alone."""
    encoder = load(own_model, tmp_path)
    alone = {True: encoder.encode_queries(TEXTS), False: encoder.encode_passages(TEXTS)}
    wrong: list[object] = []

    def use(as_query: bool) -> None:
        encode = encoder.encode_queries if as_query else encoder.encode_passages
        try:
            for _ in range(30):
                if not np.allclose(encode(TEXTS), alone[as_query], atol=1e-5):
                    wrong.append(as_query)
        except RuntimeError as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(as_query,)) for as_query in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class _Bomb:
    """Leaves a mark when a pickle of it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.mark), 0o700)


@pytest.mark.parametrize("where", ["pytorch_model.bin", "2_Dense/pytorch_model.bin"])
def test_a_pickle_is_never_opened(own_model: Path, tmp_path: Path, where: str) -> None:
    """Weights that could run code are refused with a way out, at the top and in a module's folder."""
    if "/" not in where:
        (own_model / "model.safetensors").unlink()
    (own_model / where).parent.mkdir(exist_ok=True)
    (own_model / where).write_bytes(pickle.dumps(_Bomb(tmp_path / "boom")))
    with pytest.raises(ModelError, match=r"wanted safetensors, got a pickle.*save_pretrained"):
        load(own_model, tmp_path)
    assert not (tmp_path / "boom").exists()


def test_code_in_the_folder_is_never_run(own_model: Path, tmp_path: Path) -> None:
    """A module class that lies in the folder is refused, whatever modules.json says."""
    (own_model / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'boom')!r})\nclass Evil: pass\n")
    modules = json.loads((own_model / "modules.json").read_text())
    modules[0]["type"] = "evil.Evil"
    (own_model / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="wanted one that sentence-transformers loads"):
        load(own_model, tmp_path)
    assert not (tmp_path / "boom").exists()


def _cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_cut, "wanted one that sentence-transformers loads"),
        (
            lambda folder: (folder / "config.json").write_text("{"),
            "wanted one that sentence-transformers loads",
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), r"got no \*\.safetensors"),
    ],
)
def test_a_broken_folder_is_a_model_error(own_model: Path, tmp_path: Path, harm: object, words: str) -> None:
    """Cut weights, broken settings or none at all: one kind of error, with what to do."""
    harm(own_model)  # type: ignore[operator]
    with pytest.raises(ModelError, match=words) as caught:
        load(own_model, tmp_path)
    assert "BM25 alone" in str(caught.value)


def test_a_name_is_not_fetched_unless_allowed(tmp_path: Path) -> None:
    """A hub name that is not on this machine fails at once and says which setting would fetch it."""
    with pytest.raises(ModelError, match=r"(?s)no-such-owner/no-such-model.*`allow_download`"):
        load("no-such-owner/no-such-model", tmp_path)


# ── The default model ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.model
def test_the_default_model_finds_the_right_passage(models_dir: Path) -> None:
    """Questions in three languages are nearest to their answers, also when those are in another."""
    encoder = load_encoder(DEFAULT_MODEL, models_dir=models_dir, allow_download=False)
    assert (encoder.name.split("@")[0], encoder.dimension) == (DEFAULT_MODEL, 384)
    passages = encoder.encode_passages(
        [
            "Take a dump of the database within the hour before you run a migration.",
            "แมวของเราชื่อส้ม ชอบนอนบนแป้นพิมพ์",
            "電車の遅延があるので、会議は十時に変更しました。",
        ]
    )
    asked: Sequence[tuple[str, int]] = (
        ("what should I do before migrating the database?", 0),
        ("ก่อนย้ายฐานข้อมูลต้องทำอะไร", 0),
        ("แมวชื่ออะไร", 1),
        ("what is our cat called?", 1),
        ("会議は何時ですか", 2),
    )
    scores = encoder.encode_queries([text for text, _ in asked]) @ passages.T
    assert scores.argmax(axis=1).tolist() == [answer for _, answer in asked]


def _forward(ids: list[int]) -> np.ndarray:
    """BERT in float64 after Devlin et al. 2018, then the mean of the tokens, at length 1."""
    made = {name: np.array(values) for name, values in e5_builder.tensors().plain.items()}
    width, heads = e5_builder.HIDDEN, e5_builder.HEADS

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        bias = made[f"{name}.b"]
        return x @ made[f"{name}.w"].reshape(len(bias), -1).T + bias

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * made[f"{name}.w"] + made[f"{name}.b"]

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(ids), heads, -1).transpose(1, 0, 2)

    x = made["emb.word"].reshape(-1, width)[ids] + made["emb.pos"].reshape(-1, width)[: len(ids)]
    x = norm(x + made["emb.type"][:width], "emb.ln")
    for layer in (f"l{layer}" for layer in range(e5_builder.LAYERS)):
        query, key, value = (split(linear(x, f"{layer}.{part}")) for part in "qkv")
        weights = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(width / heads))
        weights /= weights.sum(axis=2, keepdims=True)
        attended = (weights @ value).transpose(1, 0, 2).reshape(len(ids), width)
        x = norm(x + linear(attended, f"{layer}.ao"), f"{layer}.aln")
        inner = linear(x, f"{layer}.fi")
        inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / np.sqrt(2)))
        x = norm(x + linear(inner, f"{layer}.fo"), f"{layer}.oln")
    mean: np.ndarray = x.mean(axis=0)
    return mean / np.linalg.norm(mean)
