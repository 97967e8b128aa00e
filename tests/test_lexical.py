"""Lexical: scores that two oracles agree with, after any history of changes."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whoosh import index as whoosh_index
from whoosh import query as whoosh_query
from whoosh import scoring

from recall_worker.analysis import analyze
from recall_worker.analysis_stopwords import stop_words_of
from recall_worker.lexical import LexicalIndex
from recall_worker.lexical_scoring import GRAMS, WORDS, Bm25, lucene_idf
from recall_worker.records import Passage, PassageId
from tests.lexical_helpers import LIVELY, PLAIN, filled, ids, passage, passages

SHARED = Path(__file__).parents[1] / "../shared/data"


class WhooshIdf(scoring.BM25F):  # type: ignore[misc]
    """Whoosh's own BM25F with an idf that can be chosen."""

    def __init__(self, bm25: Bm25) -> None:
        super().__init__(B=bm25.b, K1=bm25.k1)
        self.bm25 = bm25

    def idf(self, searcher: object, field: str, text: bytes) -> float:
        """Whoosh asks for it once per term."""
        parent = searcher.get_parent()  # type: ignore[attr-defined]
        return self.bm25.idf(parent.doc_count_all(), parent.doc_frequency(field, text))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("idf", [lucene_idf, lambda all_, with_: math.log(all_ / (with_ + 1)) + 1])
def test_scores_equal_whooshs_bm25f(tmp_path: Path, seed: int, idf: Callable[[int, int], float]) -> None:
    """Under Whoosh's parameters our scores are Whoosh's own, over several segments, with either idf."""
    rnd = random.Random(seed)
    texts = [
        " ".join(rnd.choices(PLAIN, k=rnd.randint(1, 10))) for _ in range(150)
    ]  # ≤ 10: Whoosh's lengths exact
    k1, b = rnd.choice([0.9, 1.2]), rnd.choice([0.4, 0.75])
    bm25 = Bm25(k1=k1, b=b, short_words=0, delta=0, stop_weight=1, top_words=1000, idf=idf)
    ours = LexicalIndex.open(tmp_path / "lexical", bm25=bm25)
    for start in range(0, 150, 50):
        ours.update(added=passages(texts[start : start + 50], start + 1), removed=[], seq=start)
    with whoosh_index.open_dir(str(tmp_path / "lexical"), indexname="MAIN").searcher(
        weighting=WhooshIdf(bm25)
    ) as theirs:
        for _ in range(10):
            terms = rnd.sample(PLAIN, 6)
            expected = np.zeros(150)
            found = theirs.search(
                whoosh_query.Or([whoosh_query.Term(WORDS, term) for term in terms]), limit=None
            )
            for hit in found:
                expected[_passage_of(theirs, hit.docnum) - 1] = hit.score
            got = ours.scores(" ".join(terms), ids(150)).values
            assert np.count_nonzero(got) == np.count_nonzero(expected) > 0
            np.testing.assert_allclose(got, expected, rtol=1e-5)


def _passage_of(searcher: object, document: int) -> int:
    """Read our id column through Whoosh."""
    reader = searcher.reader()  # type: ignore[attr-defined]
    for leaf, base in reader.leaf_readers():
        if base <= document < base + leaf.doc_count_all():
            return int(leaf.column_reader("passage")[document - base])
    raise AssertionError(document)


analyzed = cache(analyze)


def oracle(texts: dict[int, str], query: str, bm25: Bm25) -> dict[int, float]:
    """BM25 as the decision record states it, in plain Python, for queries without stop words."""
    analysed = {number: analyzed(text) for number, text in texts.items()}
    mean = sum(terms.length for terms in analysed.values()) / len(texts)
    b = bm25.b * mean / (mean + bm25.short_words)
    asked = analyze(query)
    short = {word for word in asked.words if 2 <= len(word) <= 4 and word.isalpha()}
    scores = dict.fromkeys(texts, 0.0)
    for field, weight, terms in (
        (WORDS, 1.0, set(asked.words)),
        (GRAMS, bm25.gram_weight, {*asked.grams, *short}),
    ):
        counts = {number: Counter(getattr(part, field)) for number, part in analysed.items()}
        documents = sum(1 for count in counts.values() if count) if field == GRAMS else len(texts)
        for term in terms:
            idf = lucene_idf(documents, sum(1 for count in counts.values() if count[term]))
            for number, count in counts.items():
                norm = bm25.k1 * (1 - b + b * analysed[number].length / mean)
                if count[term]:
                    scores[number] += (
                        weight * idf * (count[term] * (bm25.k1 + 1) / (count[term] + norm) + bm25.delta)
                    )
    return scores


def test_scores_equal_a_plain_oracle_also_after_deletions(tmp_path: Path) -> None:
    """Production parameters, all scripts, both fields: the formula over live passages gives our numbers."""
    rnd = random.Random(5)
    bm25 = Bm25(top_grams=10_000, top_words=10_000, stop_weight=1)  # the oracle knows no stop words
    vocabulary = LIVELY + [word for word in PLAIN if len(word) == 3][:20]
    texts = {n: " ".join(rnd.choices(vocabulary, k=rnd.randint(1, 40))) for n in range(1, 61)}
    opened = filled(tmp_path / "lexical", list(texts.values()), bm25=bm25)
    for round_ in range(3):
        for _ in range(8):
            query = " ".join(rnd.sample(vocabulary, 4))
            assert not stop_words_of(query.split())
            expected = [oracle(texts, query, bm25).get(number, 0.0) for number in range(1, 61)]
            np.testing.assert_allclose(opened.scores(query, ids(60)).values, expected, rtol=2e-5, atol=1e-6)
        gone = rnd.sample(sorted(texts), 15)
        for number in gone:
            del texts[number]
        opened.update(added=[], removed=[PassageId(number) for number in gone], seq=200 + round_)
        assert len(opened) == len(texts)


changes = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "replay", "compact", "reopen"]), st.integers(0, 10_000)),
    max_size=12,
)


@settings(max_examples=8, deadline=None)
@given(changes)
def test_any_history_equals_a_fresh_index(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]]
) -> None:
    """Whatever was added, removed, replayed, compacted and reopened scores as an index built at one go."""
    folder = tmp_path_factory.mktemp("history")
    opened = LexicalIndex.open(folder / "lexical")
    live: dict[int, Passage] = {}
    last: tuple[list[Passage], list[PassageId]] = ([], [])
    number = 0
    for step, (kind, seed) in enumerate(history):
        rnd = random.Random(seed)
        if kind == "add":
            last = (
                passages((" ".join(rnd.choices(LIVELY, k=6)) for _ in range(rnd.randint(1, 6))), number + 1),
                [],
            )
            number += len(last[0])
        elif kind == "remove" and live:
            last = ([], [PassageId(n) for n in rnd.sample(sorted(live), rnd.randint(1, len(live)))])
        elif kind == "compact":
            opened.compact()
        elif kind == "reopen":
            opened.close()
            opened = LexicalIndex.open(folder / "lexical")
        if kind in ("add", "remove", "replay"):
            opened.update(added=last[0], removed=last[1], seq=step)
            live |= {p.id: p for p in last[0]}
            live = {n: p for n, p in live.items() if n not in last[1]}
            assert opened.seq == step
        assert len(opened) == len(live)
    fresh = LexicalIndex.open(folder / "fresh")
    fresh.update(added=list(live.values()), removed=[], seq=1)
    for query in ("postgres migration", "データベースの復元", "ฐานข้อมูล", "Sicherungen migracion"):
        one, other = opened.scores(query, ids(number)), fresh.scores(query, ids(number))
        np.testing.assert_array_equal(one.values, other.values)
        assert (one.coverage, one.terms) == (other.coverage, other.terms)


def test_scores_are_aligned_to_the_ids_asked_for(tmp_path: Path) -> None:
    """Ids the index does not hold score 0; a longer, shorter or changed id column is answered as it is."""
    opened = filled(tmp_path / "lexical", ["alpha", "beta", "alpha beta"])
    column = np.array([1, 2, 3, 9], np.int64)
    assert (opened.scores("alpha", column).values > 0).tolist() == [True, False, True, False]
    column[:3] = [2, 3, 7]
    assert (opened.scores("alpha", column).values > 0).tolist() == [False, True, False, False]
    assert opened.scores("alpha", column[:0]).values.shape == (0,)
    assert opened.scores("alpha", ids(3)).values.dtype == np.float32


def test_an_empty_index_answers(tmp_path: Path) -> None:
    """No passages: zeros, no coverage, no error."""
    opened = LexicalIndex.open(tmp_path / "lexical")
    found = opened.scores("anything at all", ids(4))
    assert found.values.tolist() == [0, 0, 0, 0]
    assert found.coverage == 0
    assert len(opened) == opened.seq == 0


def test_a_small_cache_changes_nothing(tmp_path: Path) -> None:
    """Scores do not depend on what is cached, and the cache keeps to its limit."""
    texts = [" ".join(random.Random(n).choices(LIVELY, k=12)) for n in range(60)]
    roomy, tight = filled(tmp_path / "a", texts), filled(tmp_path / "b", texts, cache_bytes=4_000)
    for query in LIVELY * 2:
        np.testing.assert_array_equal(
            roomy.scores(query, ids(60)).values, tight.scores(query, ids(60)).values
        )
    assert 0 < tight.cached_bytes <= 4_000 < roomy.cached_bytes


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the corpora in ../shared")
@pytest.mark.parametrize(
    ("name", "rank", "at_least"),
    [
        ("xquad-en", 1, 0.940),
        ("xquad-th", 1, 0.930),
        ("xquad-zh", 1, 0.930),
        ("xquad-de", 1, 0.925),
        ("jsquad-ja", 1, 0.905),
        ("locomo-26", 10, 0.600),
    ],
)
def test_recall_on_public_corpora(tmp_path: Path, name: str, rank: int, at_least: float) -> None:
    """BM25 alone finds what docs/decisions/0007 says it finds, less half a point."""
    corpus, queries = (
        [json.loads(line) for line in (SHARED / name / file).read_bytes().splitlines()]
        for file in ("corpus.jsonl", "queries.jsonl")
    )
    gold: dict[str, set[str]] = {}
    for line in (SHARED / name / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        gold.setdefault(query, set()).add(document)
    opened = LexicalIndex.open(tmp_path / "lexical")
    batch = [passage(number, row["text"], row["title"]) for number, row in enumerate(corpus, 1)]
    opened.update(added=batch, removed=[], seq=1)
    shares = []
    for query in (query for query in queries if query["_id"] in gold):
        values = opened.scores(query["text"], ids(len(corpus))).values
        top = {corpus[row]["_id"] for row in np.argsort(-values, kind="stable")[:rank] if values[row] > 0}
        shares.append(len(top & gold[query["_id"]]) / len(gold[query["_id"]]))
    assert np.mean(shares) >= at_least
