"""Stop words: which parts of a prompt hold its sentence together and say nothing of its subject.

Flow:  prompt → [stop words] → lexical_query → lexical → search
In:    the runs of a prompt.   Out: its stop words, and what is left of a run that has no spaces.
Never: at index time: a passage keeps every word, so `bin`, `os` and `man` still find.
Next:  worker/recall_worker/lexical_query.py

Source: Snowball's lists as Whoosh ships them (fourteen languages, 53 to 313 words each), and the stopwords-iso
collection for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import regex

from recall_worker.analysis import normalise

_SPACELESS: Final = {
    "th": regex.compile(r"\p{Thai}"),
    "ja": regex.compile(r"[\p{Hiragana}\p{Katakana}]"),
    "zh": regex.compile(r"\p{Han}"),
}
"""Languages without spaces that have a list, with what tells them apart; Japanese before Chinese, for it has kana."""

_SPACELESS_RUN: Final = regex.compile(r"[\p{Thai}\p{Han}\p{Hiragana}\p{Katakana}]")

_HAS_LETTER: Final = regex.compile(r"\p{L}")
_LATIN: Final = regex.compile(r"\p{Latin}")


def stop_words_of(words: Iterable[str]) -> frozenset[str]:
    """Stop words of the language that a text seems to be in; none if it cannot be told.

    One hit is enough for English and for a language in other letters; another one in Latin letters needs two, and
    more than English has: an English prompt about the `bin` folder is not read as German. The longer lists, full of
    words of two letters, need three.

    Args:
        words: Words of the text, any case.
    """
    languages = _languages_by_word()
    hits = Counter(language for word in words for language in languages.get(word.casefold(), ()))
    if not hits:
        return frozenset()
    best = max(hits.values())
    if hits["en"] == best:
        return _lists()["en"]
    chosen = min((language for language, count in hits.items() if count == best), key=_preference)
    return _lists()[chosen] if best >= _hits_needed(chosen) else frozenset()


def is_stop_word(word: str) -> bool:
    """True for a stop word of any language: two or three words do not tell which one they are in."""
    return word.casefold() in _languages_by_word()


def spaceless_language(text: str) -> str | None:
    """Language without spaces whose list serves a text; kana anywhere make its Han characters Japanese."""
    if text.isascii():
        return None
    return next((language for language, script in _SPACELESS.items() if script.search(text)), None)


def without_stop_words(run: str, language: str | None) -> tuple[str, ...]:
    """Cut the stop words out of a run that has no spaces, longest first.

    Args:
        run: One of `analysis.runs()`.
        language: From `spaceless_language()`.

    Returns:
        What is left, in order; the run itself if its script has spaces.
    """
    if language is None or run.isascii() or not _SPACELESS_RUN.match(run):
        return (run,)
    return tuple(part for part in _cutter(language).split(run) if part)


def _hits_needed(language: str) -> int:
    if language not in _latin_languages():
        return 1
    return 2 if language in _snowball() else 3


def _preference(language: str) -> tuple[bool, str]:
    """Of languages with as many hits, one with a Snowball list, then by name."""
    return language not in _snowball(), language


@cache
def _cutter(language: str) -> regex.Pattern[str]:
    longest_first = sorted(_lists()[language], key=lambda word: (-len(word), word))
    return regex.compile("|".join(map(regex.escape, longest_first)))


@cache
def _snowball() -> dict[str, frozenset[str]]:
    from whoosh.lang.stopwords import stoplists

    return {language: frozenset(word.casefold() for word in words) for language, words in stoplists.items()}


@cache
def _lists() -> dict[str, frozenset[str]]:
    """Snowball's list where there is one: those of stopwords-iso are longer and hold words such as *year*, *work*."""
    import stopwordsiso

    others = {language: _words(stopwordsiso.stopwords(language)) for language in stopwordsiso.langs()}
    return others | _snowball()


def _words(listed: Iterable[Any]) -> frozenset[str]:
    """Single words as the analyzer sees them."""
    plain = (normalise(str(word)).casefold() for word in listed)
    return frozenset(word for word in plain if _HAS_LETTER.search(word) and " " not in word)


@cache
def _latin_languages() -> frozenset[str]:
    """Languages most of whose stop words are in Latin letters."""
    return frozenset(
        language
        for language, words in _lists().items()
        if 2 * sum(_LATIN.search(word) is not None for word in words) > len(words)
    )


@cache
def _languages_by_word() -> dict[str, tuple[str, ...]]:
    """The lists, turned round."""
    turned: dict[str, tuple[str, ...]] = {}
    for language, words in sorted(_lists().items()):
        for word in words:
            turned[word] = (*turned.get(word, ()), language)
    return turned
