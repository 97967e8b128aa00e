"""Asking: what a prompt is searched by: its gist, and what it stands on when it says little itself.

Flow:  prompts → [asking] → search → digest
In:    a prompt, the session's earlier ones, the index, the encoder.   Out: text for BM25, a vector for the dense half.
Never: an earlier topic for a greeting or a farewell; an earlier prompt that counts as much as a later one; a nod made
       of a prompt that names something in the vault, whatever it sounds like.
Next:  worker/recall_worker/search.py, docs/decisions/0011-long-prompts.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import regex
from numpy.typing import NDArray

from recall_worker.analysis import expand, runs
from recall_worker.analysis_stopwords import (
    is_stop_word,
    spaceless_language,
    stop_words_of,
    without_stop_words,
)
from recall_worker.gist import take_gist
from recall_worker.hybrid import View
from recall_worker.lexical_scoring import WORDS
from recall_worker.turns import Turn, TurnSense, is_example, judge_by_letters, topicless_terms

SAYS_LITTLE: Final = 3
"""A prompt with fewer informative terms stands on the earlier ones as well."""

JUDGED_TERMS: Final = 3
"""A prompt with more of them has a topic, whatever it lies near."""

ENOUGH_TERMS: Final = 8
"""Earlier prompts lend their words, latest first, until they have so many informative terms."""

DECAY: Final = 0.5
"""What each earlier prompt's vector counts beside that of the next one, ratio."""

FEW_PASSAGES: Final = 3
FEW_SHARE: Final = 0.05
"""A word that stands in more passages than these, and than this share of all, names none of them."""

MOST_BIGRAMS: Final = 0.75
"""Share of its terms that make a passage hold a run without spaces: a particle may hang on it."""

_BIGRAMMED: Final = regex.compile(
    r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]"
)
_LETTER: Final = regex.compile(r"\p{L}")
_HIRAGANA: Final = regex.compile(r"[\p{Hiragana}ー]+")


class QueryEncoder(Protocol):
    """The part of an encoder that a prompt needs."""

    def encode_query(self, text: str, *, timeout_s: float) -> NDArray[np.float32] | None:
        """Unit vector, shape (dimension,), or None when it is not ready in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a prompt is searched by.

    Attributes:
        text: For BM25; empty if the prompt asks for nothing.
        vector: For the dense half, unit length, shape (dimension,); None where BM25 answers alone.
        own: The prompt's own gist if it has a topic that later prompts may stand on, else empty.
        instead: Makes what to search by if nothing is found: a long prompt's best piece, or a short one with what it
            may stand on.
    """

    text: str
    vector: NDArray[np.float32] | None
    own: str
    instead: Callable[[], Query] | None = None


NOTHING_ASKED: Final = Query(text="", vector=None, own="")


def make_query(
    prompt: str,
    earlier: Sequence[str],
    *,
    view: View,
    encode: Callable[[str], NDArray[np.float32] | None],
    sense: TurnSense | None,
) -> Query:
    """Turn a prompt into what is searched.

    Args:
        prompt: What a person meant by it, see `prompts.searchable`.
        earlier: Gists of the session's earlier prompts, latest first.
        view: Whose words decide what is informative.
        encode: Text to unit vector, shape (dimension,), or None.
        sense: Knows the kinds of short prompts; None goes by their letters.
    """
    if not prompt.strip():
        return NOTHING_ASKED
    gist = take_gist(prompt, view.lexical.idf, lambda piece: fit(view, piece))
    own = gist.text
    vector = encode(own)
    terms = count_informative(own)
    turn, little = Turn.TOPIC, terms < SAYS_LITTLE
    if terms <= JUDGED_TERMS:
        turn = judge_by_letters(own) if sense is None or vector is None else sense.judge(vector)
    judged = sense is not None and vector is not None
    unsure = terms <= JUDGED_TERMS and not (turn is Turn.TOPIC and judged) and not is_example(own)
    named = unsure and names_topic(view, own)
    if turn is not Turn.TOPIC and named:
        # "thanks, and nginx?" asks about nginx; if that finds nothing, it was thanks, which stand on nothing.
        earlier = () if turn is Turn.SOCIAL else earlier
        turn, little = Turn.TOPIC, True
    if turn is Turn.SOCIAL:
        return NOTHING_ASKED
    if turn is Turn.TOPIC and not (little and earlier):
        # Pieces about several things answer each other's questions badly: if none is close to all, ask the best alone.
        def best() -> Query:
            return Query(text=gist.best, vector=encode(gist.best), own=own)

        return Query(text=own, vector=vector, own=own, instead=best if gist.best != own else None)
    said = [own] if turn is Turn.TOPIC else []

    def leaning() -> Query:
        vectors = ([vector] if said else []) + [encode(text) for text in earlier]
        return Query(text=_lent(said, earlier), vector=_decayed(vectors), own="".join(said))

    if turn is Turn.TOPIC and (judged or named):
        return Query(text=own, vector=vector, own=own, instead=leaning)
    return leaning()


def names_topic(view: View, text: str) -> bool:
    """Tell whether a short prompt has a word that stands in some passages of the vault, but in few."""
    language = spaceless_language(text)
    few = max(FEW_PASSAGES, int(FEW_SHARE * len(view.lexical)))
    for run in runs(text):
        if is_stop_word(run):
            continue
        if _BIGRAMMED.match(run):
            counts = (_count_holding(view, part) for part in without_stop_words(run, language))
        else:
            words = (word for word in expand(run).words if len(word) > 1 and _LETTER.search(word))
            counts = (view.lexical.idf(word)[1] for word in words if word not in topicless_terms())
        if any(1 <= count <= few for count in counts):
            return True
    return False


def _count_holding(view: View, part: str) -> int:
    """Passages that hold most of a part of a text without spaces; its bigrams meet by chance, seldom all at once."""
    wanted = set(expand(part).words) - topicless_terms()
    if len(wanted) < 2 or _HIRAGANA.fullmatch(part):  # hiragana alone is grammar
        return 0
    found = view.lexical.scores(part, view.corpus.ids)
    held = np.zeros(len(found.documents), np.int64)
    for term, impact in found.scored:
        if impact is not None and term.field == WORDS and term.term in wanted:
            held += impact.has(found.documents)
    return int((held >= MOST_BIGRAMS * len(wanted)).sum())


def fit(view: View, piece: str) -> float:
    """How well the best passage answers a piece of a prompt: its BM25 times the share of the piece it explains."""
    found = view.lexical.scores(piece, view.corpus.ids)
    return float(found.values.max(initial=0.0)) * found.coverage


def count_informative(text: str) -> int:
    """Words of a prompt that say what it is about, in any script; stop words do not count."""
    found = runs(text)
    stops, language = stop_words_of(found), spaceless_language(text)
    content = (
        part for run in found if run.casefold() not in stops for part in without_stop_words(run, language)
    )
    return int(sum(expand(part).length for part in content))


def _lent(said: Sequence[str], earlier: Sequence[str]) -> str:
    """The prompt's own words, and those of earlier prompts until they say enough."""
    lent: list[str] = []
    for text in earlier:
        lent.append(text)
        if count_informative("\n".join(lent)) >= ENOUGH_TERMS:
            break
    return "\n".join([*said, *lent])


def _decayed(vectors: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """Sum of the vectors, each counting `DECAY` of the one before it, at unit length."""
    known = [DECAY**place * vector for place, vector in enumerate(vectors) if vector is not None]
    if not known:
        return None
    mixed = np.stack(known).sum(axis=0)
    return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)
