"""Dataset: BEIR folders are read whole or refused with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_worker.dataset import read_dataset
from recall_worker.errors import DatasetError

CORPUS = """{"_id": "a", "title": "T", "text": "one"}
{"_id": "b", "title": "T", "text": "two"}
{"_id": "c", "text": "three"}
"""
QUERIES = '{"_id": "q", "text": "what?", "lang": "en"}\n{"_id": "unjudged", "text": "eh"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq\tb\t1\nq\ta\t0\n"


def write(folder: Path, *, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS) -> Path:
    """A dataset folder."""
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels.tsv").write_text(qrels)
    return folder


def test_a_folder_is_read(tmp_path: Path) -> None:
    """Fields are kept, unjudged questions and grades of zero left out, one title makes one note."""
    dataset = read_dataset(write(tmp_path))
    assert [(item.id, item.gold, item.fields) for item in dataset.questions] == [
        ("q", {"b": 1}, {"lang": "en"})
    ]
    assert [[document.id for document in note] for note in dataset.notes()] == [["a", "b"], ["c"]]


def test_untitled_documents_are_notes_of_their_own(tmp_path: Path) -> None:
    """Consecutive empty titles mean nothing in common."""
    rows = "".join(f'{{"_id": "{i}", "title": "", "text": "x"}}\n' for i in "abc")
    dataset = read_dataset(write(tmp_path, corpus=rows))
    assert len(list(dataset.notes())) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"corpus": CORPUS + "{\n"}, "corpus.jsonl:4: not JSON"),
        ({"corpus": CORPUS + "[]\n"}, "corpus.jsonl:4: not a JSON object"),
        ({"corpus": CORPUS + '{"_id": "a", "text": "x"}\n'}, "corpus.jsonl:4: the id 'a' stands twice"),
        ({"corpus": '{"_id": "a"}\n'}, "corpus.jsonl:1: wanted text in 'text'"),
        ({"qrels": QRELS + "q b 1\n"}, "qrels.tsv:4: wanted query id"),
        ({"qrels": QRELS + "q\tz\t1\n"}, "qrels.tsv:4: the document 'z' is not in corpus.jsonl"),
        ({"qrels": QRELS + "other\tb\t1\n"}, "1 query ids are not in queries.jsonl"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "no query has a relevant document"),
    ],
)
def test_a_malformed_folder_names_the_line(tmp_path: Path, change: dict[str, str], words: str) -> None:
    """Each fault is refused with its place."""
    with pytest.raises(DatasetError) as caught:
        read_dataset(write(tmp_path, **change))
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """An empty folder says which file it lacks."""
    with pytest.raises(DatasetError, match=r"corpus\.jsonl: cannot be read"):
        read_dataset(tmp_path)
