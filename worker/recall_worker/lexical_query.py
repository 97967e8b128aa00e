"""Lexical query: a prompt → the few terms that say what it is about, each with its weight.

Flow:  prompt → analysis → [lexical_query] → lexical → search
In:    a prompt of any length and the index's counts.   Out: at most 32 words and 24 grams.
Never: a word dropped for being a stop word: it counts less, so `bin`, `os` and `man` still find.
Next:  worker/recall_worker/lexical.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from recall_worker.analysis import GRAM, expand, runs
from recall_worker.analysis_stopwords import spaceless_language, stop_words_of, without_stop_words
from recall_worker.lexical_scoring import GRAMS, WORDS, View

_MAX_RUNS: Final = 1_500
"""Different runs that are looked up, 20 µs each when first seen: of a longer prompt, those of head and tail,
for the request stands at one end and a pasted log between."""


class QueryTerm(NamedTuple):
    """One term of a query, for scoring and for explaining.

    Attributes:
        term: As indexed.
        field: "words" or "grams".
        weight: What its impact is multiplied by, ratio.
        idf: Informativeness in this index; the largest possible for a term that is not in it.
        documents: Live passages that have it.
    """

    term: str
    field: str
    weight: float
    idf: float
    documents: int


def query_terms(text: str, view: View) -> list[QueryTerm]:
    """Choose the most informative terms of a prompt.

    Args:
        text: As typed; there is no query syntax.
        view: Whose counts decide.

    Returns:
        Words by falling weight times idf, also those the index lacks; then grams that it has. Ties by term.
    """
    bm25 = view.bm25
    found = list(dict.fromkeys(runs(text)))
    if len(found) > _MAX_RUNS:
        found = found[: _MAX_RUNS // 2] + found[-_MAX_RUNS // 2 :]
    stops, language = stop_words_of(found), spaceless_language(text)
    weights: dict[str, float] = {}
    grams_of: dict[str, tuple[str, ...]] = {}
    for run in found:
        token = expand(run)
        if run.casefold() in stops:
            for term in token.words:
                weights.setdefault(term, bm25.stop_weight)
            continue
        content = None if language is None else _content_words(run, language)
        grams = () if content == frozenset() else token.grams + _short_words(token.words)
        for term in token.words:
            if content is None or term in content:
                weights[term] = 1.0
            else:
                weights.setdefault(term, bm25.stop_weight)
            grams_of[term] = grams_of.get(term, ()) + grams
    words = _most_informative(weights, WORDS, view, limit=bm25.top_words)
    candidates = {gram: bm25.gram_weight for word in words for gram in grams_of.get(word.term, ())}
    return words + _most_informative(candidates, GRAMS, view, limit=bm25.top_grams)


def _content_words(run: str, language: str) -> frozenset[str] | None:
    """The terms of a run that say what a prompt is about; None for all of them."""
    parts = without_stop_words(run, language)
    if parts == (run,):
        return None
    return frozenset(term for part in parts for term in expand(part).words)


def _short_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words no longer than a gram: `data` is part of `datafile`, `cua` is của without its marks."""
    return tuple(word for word in words if 2 <= len(word) <= GRAM and word.isalpha())


def _most_informative(weights: Mapping[str, float], field: str, view: View, *, limit: int) -> list[QueryTerm]:
    """The terms whose hits would add most; grams only if the index has them: the words tell what it lacks.

    The cut goes by the segments' own counts, which still include what was deleted since the last merge:
    reading them costs no posting list. Those that pass it are weighed by live passages.
    """
    rough = []
    for term, weight in weights.items():
        idf, documents = view.rough_idf(field, term)
        if documents or field == WORDS:
            rough.append((-weight * idf, term, weight, idf, documents))
    rough.sort()
    chosen = rough[:limit]
    if not view.whole:
        chosen = []
        for _, term, weight, _, _ in rough[:limit]:
            idf, documents = view.idf(field, term)
            if documents or field == WORDS:
                chosen.append((-weight * idf, term, weight, idf, documents))
        chosen.sort()
    return [QueryTerm(term, field, weight, idf, documents) for _, term, weight, idf, documents in chosen]
