"""Lexical arrays: what goes in comes out, found by its letters, also after a merge and next to Whoosh's own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whoosh import index as whoosh_index

from recall_worker.lexical_arrays import FIELDS, Table, TableBuilder, Tables, write_tables
from recall_worker.records import PassageId
from tests.lexical_helpers import LIVELY, filled, passages

PostingLists = dict[bytes, dict[int, int]]

terms = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"migrations", b"migratio", b"migration", b"\0", b""])
)
posting_lists = st.dictionaries(
    terms, st.dictionaries(st.integers(0, 60), st.integers(1, 70_000), min_size=1), max_size=40
)


def stored(folder: Path, lists: PostingLists) -> Table:
    """The lists as the `words` of a file."""
    builder = TableBuilder()
    for term in sorted(lists):
        documents = sorted(lists[term])
        counts = [lists[term][document] for document in documents]
        builder.add(term, np.array(documents, np.int32), np.array(counts, np.uint32))
    write_tables(folder / "arrays.bin", [TableBuilder().arrays(), builder.arrays()])
    return Tables.open(folder / "arrays.bin").of["words"]


def read(table: Table, term: bytes) -> dict[int, int] | None:
    """Documents and counts of a term."""
    place = table.find(term)
    if place < 0:
        return None
    documents, counts = table.postings(*table.extent(place))
    return dict(zip(documents.tolist(), counts.tolist(), strict=True))


@given(posting_lists, st.lists(terms, max_size=10))
@settings(max_examples=60)
def test_every_term_is_found_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, lists: PostingLists, others: list[bytes]
) -> None:
    """Terms come back with their documents, whatever their first eight bytes share; the rest is not there."""
    table = stored(tmp_path_factory.mktemp("arrays"), lists)
    assert {term: read(table, term) for term in lists} == lists
    assert all(read(table, term) == lists.get(term) for term in others)


@given(posting_lists, st.sets(st.integers(0, 60)))
@settings(max_examples=40)
def test_a_merge_keeps_what_is_not_deleted(
    tmp_path_factory: pytest.TempPathFactory, lists: PostingLists, deleted: set[int]
) -> None:
    """Renumbered lists hold the documents that are left, under their new numbers, and no empty term."""
    table = stored(tmp_path_factory.mktemp("arrays"), lists)
    kept = [document for document in range(61) if document not in deleted]
    numbers = np.full(61, -1, np.int32)
    numbers[kept] = np.arange(len(kept)) + 100
    found = {
        term: dict(zip(documents.tolist(), counts.tolist(), strict=True))
        for term, (documents, counts) in table.renumbered(numbers)
    }
    expected = {
        term: {
            int(numbers[document]): count
            for document, count in sorted(postings.items())
            if numbers[document] >= 0
        }
        for term, postings in lists.items()
    }
    assert found == {term: postings for term, postings in expected.items() if postings}


@pytest.mark.parametrize("size", [0, 10, 40, -1])
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, size: int) -> None:
    """A cut file, and one that is none of ours, raise instead of answering wrongly."""
    stored(tmp_path, {b"alpha": {1: 1}})
    path = tmp_path / "arrays.bin"
    path.write_bytes(path.read_bytes()[:size] if size >= 0 else bytes(200))
    with pytest.raises(ValueError, match=r"arrays.bin|empty"):
        Tables.open(path)


def test_arrays_and_whooshs_files_say_the_same(tmp_path: Path) -> None:
    """After additions, deletions and merges Whoosh reads from its blocks what our arrays hold."""
    folder = tmp_path / "lexical"
    opened = filled(folder, [" ".join([*LIVELY[n % 9 :], "common"] * (1 + n % 3)) for n in range(300)])
    opened.update(
        added=passages(["alpha common"] * 40, 301), removed=[PassageId(n) for n in range(1, 90)], seq=2
    )
    opened.compact(most_segments=0)
    (segment,) = [
        reader for reader, _ in whoosh_index.open_dir(str(folder), indexname="MAIN").reader().leaf_readers()
    ]
    (path,) = folder.glob("arrays-*.bin")
    tables = Tables.open(path).of
    seen = 0
    for field, term in segment.all_terms():
        matcher, postings = segment.postings(field, term), {}
        while matcher.is_active():
            postings[matcher.id()] = int(matcher.weight())
            assert matcher.value_as("frequency") == postings[matcher.id()]
            matcher.next()
        assert read(tables[field], term) == postings
        seen += 1
    assert seen == sum(len(tables[field]) for field in FIELDS) > 20
    common = segment.term_info("words", b"common")
    assert common.min_length() < common.max_length()
