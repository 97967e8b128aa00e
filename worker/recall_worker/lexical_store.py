"""Lexical store: the Whoosh folder of one generation: made, opened, committed to, read as segments.

Flow:  ledger → analysis → [lexical_store] → lexical_segment → lexical_scoring → lexical
In:    analysed passages.   Out: Whoosh's files, and `meta.json`: who made them, how far they reach.
Never: `searcher.refresh()`, which is wrong; a pickled schema; a file read before `meta.json` was checked.
Next:  worker/recall_worker/lexical_segment.py
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import logging
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from whoosh import columns, fields, index
from whoosh.analysis import Analyzer
from whoosh.reading import SegmentReader

from recall_worker import analysis
from recall_worker.errors import LexicalIndexError
from recall_worker.lexical_scoring import GRAMS, WORDS
from recall_worker.lexical_segment import Segment
from recall_worker.lexical_writer import ArrayWriter, TermsField, arrays_path
from recall_worker.records import Passage, PassageId

log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 2
META: Final = "meta.json"
_INDEX_NAME: Final = "MAIN"


class TermsAnalyzer(Analyzer):  # type: ignore[misc]
    """Our analysis as a Whoosh analyzer, for anything that opens the index with Whoosh itself.

    Whoosh pickles it into the index; we never load that pickle, so renaming the class breaks nothing of ours.
    """

    def __init__(self, part: str) -> None:
        """Yield `words` or `grams`."""
        self.part = part

    def __call__(self, value: str, **options: Any) -> Iterator[Any]:
        """Yield Whoosh tokens for a text."""
        from whoosh.analysis import entoken

        terms: list[str] = getattr(analysis.analyze(value), self.part)
        return iter(entoken(terms, **options))


SCHEMA: Final = fields.Schema(
    passage=fields.COLUMN(columns.NumericColumn("q")),
    length=fields.COLUMN(columns.NumericColumn("I")),
    grammed=fields.COLUMN(columns.NumericColumn("B")),
    **{part: TermsField(analyzer=TermsAnalyzer(part), phrase=False) for part in (WORDS, GRAMS)},
)


class Store:
    """One folder. Not for two threads at once: LexicalIndex sees to that."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, or make it if it is missing or empty.

        Args:
            folder: Holds nothing else.

        Raises:
            LexicalIndexError: It is damaged, or was made by another analyzer or schema.
        """
        self.folder = folder
        self._segments: dict[str, Segment] = {}
        self._synced: set[str] = set()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not any(folder.iterdir()):
                index.create_in(str(folder), SCHEMA, indexname=_INDEX_NAME)
                self.write_seq(0)
            self.seq = self._read_meta()
            self._index = index.open_dir(str(folder), indexname=_INDEX_NAME, schema=SCHEMA)
            self._synced.update(self._files())
        except LexicalIndexError:
            raise
        except Exception as error:
            raise _damaged(folder, error) from error

    def read(self) -> list[tuple[Segment, NDArray[np.int64]]]:
        """Open what the last commit left; segments already open are used again.

        Returns:
            Segments in Whoosh's order, each with the numbers of its deleted documents.

        Raises:
            LexicalIndexError: A file is missing or makes no sense.
        """
        try:
            toc = self._index._read_toc()
            known, self._segments = self._segments, {}
            found = []
            for whoosh_segment in toc.segments:
                name = whoosh_segment.segment_id()
                segment = self._segments[name] = known.get(name) or self._open(whoosh_segment)
                deleted = np.fromiter(whoosh_segment.deleted_docs(), np.int64)
                if len(deleted) and deleted.max() >= len(segment.passage_ids):
                    raise ValueError(f"segment {name} and its deletions do not match")
                found.append((segment, deleted))
        except Exception as error:
            raise _damaged(self.folder, error) from error
        return found

    def commit(
        self, added: Sequence[Passage], rows_to_delete: Iterable[int], *, optimize: bool = False
    ) -> None:
        """Write one commit: all of it is in, or nothing.

        Args:
            added: Passages, each id once and none of them in the index.
            rows_to_delete: Documents, counted over the segments of the last `read()`.
            optimize: Merge everything into one segment.

        A passage that Whoosh cannot take is left out with a warning. After a failed `add_document` later ones
        could be lost without a word, so the batch starts again without it.

        Raises:
            LexicalIndexError: The disk is full or the index damaged; the last commit still stands.
        """
        bad: set[PassageId] = set()
        deletions = list(rows_to_delete)
        while True:
            taken = [passage for passage in added if passage.id not in bad]
            refused = self._try_commit(taken, deletions, optimize=optimize)
            if refused is None:
                return
            bad.add(refused)

    def close(self) -> None:
        """Forget the open segments; each closes with the last view that reads it."""
        self._segments.clear()

    def write_seq(self, seq: int) -> None:
        """Keep the position durably, after everything it covers: Whoosh itself syncs nothing to the disk."""
        files = self._files()
        for name in sorted(files - self._synced):
            _sync(self.folder / name)
        self._synced = files
        fresh = self.folder / f".{META}"
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(_made_by() | {"seq": seq}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.folder / META)
        _sync(self.folder)
        self.seq = seq

    def _open(self, whoosh_segment: Any) -> Segment:
        """Read a segment; what Whoosh copies into memory for it is given back at once."""
        reader = SegmentReader(self._index.storage, SCHEMA, whoosh_segment)
        try:
            return Segment(reader, self.folder)
        finally:
            reader.close()

    def _files(self) -> set[str]:
        """Whoosh's files; it never writes to one again."""
        return {path.name for path in self.folder.iterdir() if path.is_file() and path.name != META}

    def _read_meta(self) -> int:
        """Position, once the maker has been checked."""
        try:
            meta = json.loads((self.folder / META).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _damaged(self.folder, error) from error
        made_by = _made_by()
        got = {key: meta.get(key) for key in made_by} if isinstance(meta, dict) else meta
        if got != made_by or type(meta.get("seq")) is not int:
            raise LexicalIndexError(
                f"{self.folder}: made by another version (wanted {made_by}, got {got}). Nothing was read. "
                "It is made again from the ledger; `recall rebuild` does so at once."
            )
        seq: int = meta["seq"]
        return seq

    def _try_commit(self, added: list[Passage], deletions: list[int], *, optimize: bool) -> PassageId | None:
        """One attempt; returns the passage that spoiled it, if one did."""
        with _write_lock(self.folder):
            writer = None
            try:
                writer = ArrayWriter(self._index, folder=self.folder)
                for passage in added:
                    try:
                        writer.add_document(**_document(passage))
                    except OSError:
                        raise
                    except Exception as error:
                        log.warning("lexical skipped passage=%d error=%s", passage.id, type(error).__name__)
                        _cancel(writer)
                        return passage.id
                for row in deletions:
                    writer.delete_document(row)
                writer.commit(optimize=optimize)
                self._remove_merged()
            except Exception as error:
                _cancel(writer)
                raise LexicalIndexError(
                    f"{self.folder}: could not be written ({_reason(error)}). The last commit still stands; "
                    "it is tried again at the next scan. See that the disk has room."
                ) from error
        return None

    def _remove_merged(self) -> None:
        """Delete the arrays of segments that are no more; Whoosh has deleted its own files."""
        kept = {arrays_path(self.folder, item.segment_id()) for item in self._index._read_toc().segments}
        for path in self.folder.glob(arrays_path(self.folder, "*").name):
            if path not in kept:
                path.unlink(missing_ok=True)


def _document(passage: Passage) -> dict[str, Any]:
    """Whoosh's fields for a passage. Title and text are one: see docs/decisions/0007-lexical-scoring.md."""
    terms = analysis.analyze(f"{passage.title_path}\n{passage.text}")
    document: dict[str, Any] = {
        "passage": int(passage.id),
        "length": terms.length,
        "grammed": int(bool(terms.grams)),
    }
    return document | {name: part for name, part in ((WORDS, terms.words), (GRAMS, terms.grams)) if part}


@cache
def _made_by() -> dict[str, Any]:
    """All that decides which terms a text gets and how they lie on disk."""
    packages = ("whoosh-reloaded", "snowballstemmer", "PyStemmer", "regex")
    return {
        "schema": SCHEMA_VERSION,
        "analysis": analysis.VERSION,
        "unicode": unicodedata.unidata_version,
        **{name: importlib.metadata.version(name) for name in packages},
    }


@contextmanager
def _write_lock(folder: Path) -> Iterator[None]:
    """Whoosh's own write lock, held by us: after a full disk Whoosh can keep it for good."""
    handle = os.open(folder / f"{_INDEX_NAME}_WRITELOCK", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LexicalIndexError(f"{folder}: another process writes here. Nothing was changed.") from error
        yield
    finally:
        os.close(handle)


def _cancel(writer: Any) -> None:
    """Drop an unfinished commit; what cannot be removed now goes with the next one."""
    if writer is not None:
        with suppress(Exception):
            writer.cancel()
        with suppress(Exception):
            writer._tempstorage.destroy()


def _damaged(folder: Path, error: Exception) -> LexicalIndexError:
    return LexicalIndexError(
        f"{folder}: cannot be read as a lexical index ({_reason(error)}). Nothing was changed. "
        "It is made again from the ledger; `recall rebuild` does so at once."
    )


def _reason(error: Exception) -> str:
    """Short, and without text of the vault."""
    return error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
