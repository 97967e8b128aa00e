"""Dataset: a corpus with judged questions in BEIR layout.

Flow:  folder → [dataset] → `recall eval`
In:    corpus.jsonl (`_id, title, text`), queries.jsonl (`_id, text, …`), qrels.tsv.   Out: checked values.
Never: a row passed over in silence.
Next:  worker/recall_worker/evaluate.py

Source: Thakur et al., BEIR, NeurIPS 2021, for the layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from recall_worker.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One row of corpus.jsonl."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row of queries.jsonl that has at least one judged document.

    Attributes:
        fields: The row's other fields, to break figures down by.
        gold: Relevant document ids to their grade.
    """

    id: str
    text: str
    fields: Mapping[str, Any]
    gold: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A corpus and its judged questions."""

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]

    def notes(self) -> Iterator[tuple[Document, ...]]:
        """Runs of consecutive documents with one non-empty title: the passages of one note."""
        run: list[Document] = []
        for document in self.documents:
            if run and (not document.title or document.title != run[-1].title):
                yield tuple(run)
                run = []
            run.append(document)
        if run:
            yield tuple(run)


def read_dataset(folder: Path) -> Dataset:
    """Read and check a BEIR folder.

    Raises:
        DatasetError: A file is missing, a row is malformed, an id is unknown or appears twice.
    """
    documents: dict[str, Document] = {}
    for place, row in _rows(folder / "corpus.jsonl"):
        document = Document(
            id=_text(row, "_id", place),
            title=_text(row, "title", place, default=""),
            text=_text(row, "text", place),
        )
        if document.id in documents:
            raise DatasetError(*place, f"the id {document.id!r} stands twice")
        documents[document.id] = document
    gold = _read_qrels(folder / "qrels.tsv", documents)
    questions: dict[str, Question] = {}
    for name, text, fields in read_queries(folder / "queries.jsonl"):
        questions[name] = Question(id=name, text=text, fields=fields, gold=gold.pop(name, {}))
    if gold:
        raise DatasetError(folder / "qrels.tsv", None, f"{len(gold)} query ids are not in queries.jsonl")
    judged = tuple(question for question in questions.values() if question.gold)
    if not judged:
        raise DatasetError(folder / "queries.jsonl", None, "no query has a relevant document")
    return Dataset(documents=tuple(documents.values()), questions=judged)


def read_queries(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, text and other fields of each row of a queries.jsonl.

    Raises:
        DatasetError: It cannot be read, a row is malformed, or an id stands twice.
    """
    seen = set()
    for place, row in _rows(path):
        name = _text(row, "_id", place)
        if name in seen:
            raise DatasetError(*place, f"the id {name!r} stands twice")
        seen.add(name)
        yield name, _text(row, "text", place), {k: v for k, v in row.items() if k not in ("_id", "text")}


def _rows(path: Path) -> Iterator[tuple[tuple[Path, int], dict[str, Any]]]:
    """Each JSON line with its place."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DatasetError(path, None, f"cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise DatasetError(path, number, f"not JSON ({error})") from error
        if not isinstance(row, dict):
            raise DatasetError(path, number, "not a JSON object")
        yield (path, number), row


def _text(row: Mapping[str, Any], key: str, place: tuple[Path, int], *, default: str | None = None) -> str:
    value = row.get(key, default)
    if isinstance(value, int) and key == "_id":
        return str(value)
    if not isinstance(value, str):
        raise DatasetError(*place, f"wanted text in {key!r}, got {value!r}")
    return value


def _read_qrels(path: Path, documents: Mapping[str, Document]) -> dict[str, dict[str, int]]:
    """Query id to its relevant documents; grades of 0 and less are not relevant."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(path, None, f"cannot be read ({error})") from error
    gold: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 3 or not parts[2].strip().lstrip("-").isdigit():
            raise DatasetError(
                path, number, "wanted query id, document id and a whole number, separated by tabs"
            )
        if parts[1] not in documents:
            raise DatasetError(path, number, f"the document {parts[1]!r} is not in corpus.jsonl")
        if int(parts[2]) > 0:
            gold[parts[0]][parts[1]] = int(parts[2])
    return dict(gold)
