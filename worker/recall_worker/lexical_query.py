"""Lexical query: a prompt → the few terms that say what it is about, each with its weight.

Flow:  prompt → analysis → [lexical_query] → lexical → search
In:    a prompt of any length and the index's counts.   Out: at most 32 words and 24 grams.
Never: a word dropped for being a stop word: it counts less, so `bin`, `os` and `man` still find.
Next:  worker/recall_worker/lexical.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from recall_worker.analysis import GRAM, expand, runs
from recall_worker.lexical_scoring import GRAMS, WORDS, View

_MAX_RUNS: Final = 1_500
"""Different runs that are looked up, 20 µs each when first seen: of a longer prompt, those of head and tail,
for the request stands at one end and a pasted log between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerm:
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
    stops = stop_words_of(found)
    weights: dict[str, float] = {}
    grams_of: dict[str, tuple[str, ...]] = {}
    for run in found:
        token = expand(run)
        if run.casefold() in stops:
            for term in token.words:
                weights.setdefault(term, bm25.stop_weight)
            continue
        grams = token.grams + _short_words(token.words)
        for term in token.words:
            weights[term] = 1.0
            grams_of[term] = grams_of.get(term, ()) + grams
    words = _most_informative(weights, WORDS, view, limit=bm25.top_words)
    candidates = {gram: bm25.gram_weight for word in words for gram in grams_of.get(word.term, ())}
    return words + _most_informative(candidates, GRAMS, view, limit=bm25.top_grams)


def stop_words_of(words: Iterable[str]) -> frozenset[str]:
    """Stop words of the language that a text seems to be in; none if it cannot be told.

    One hit is enough for English; another language of the Latin script needs two, and more than English has:
    an English prompt about the `bin` folder is not read as German.

    Args:
        words: Words of the text, any case.
    """
    languages = _languages_by_word()
    hits = Counter(language for word in words for language in languages.get(word.casefold(), ()))
    if not hits:
        return frozenset()
    best = max(hits.values())
    if hits["en"] == best:
        return _stop_lists()["en"]
    if best >= 2 or hits["ru"]:
        return _stop_lists()[min(language for language, count in hits.items() if count == best)]
    return frozenset()


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
            rough.append((-weight * idf, term, weight))
    exact = []
    for _, term, weight in sorted(rough)[:limit]:
        idf, documents = view.idf(field, term)
        if documents or field == WORDS:
            exact.append((-weight * idf, term, weight, idf, documents))
    return [
        QueryTerm(term=term, field=field, weight=weight, idf=idf, documents=documents)
        for _, term, weight, idf, documents in sorted(exact)
    ]


@cache
def _stop_lists() -> dict[str, frozenset[str]]:
    """Snowball's lists as Whoosh ships them: fourteen languages, 53 to 313 words each."""
    from whoosh.lang.stopwords import stoplists

    return {language: frozenset(word.casefold() for word in words) for language, words in stoplists.items()}


@cache
def _languages_by_word() -> dict[str, tuple[str, ...]]:
    """The lists, turned round."""
    turned: dict[str, tuple[str, ...]] = {}
    for language, words in sorted(_stop_lists().items()):
        for word in words:
            turned[word] = (*turned.get(word, ()), language)
    return turned
