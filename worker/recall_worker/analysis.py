"""Analysis: any text in any mix of scripts → the terms it is indexed and looked up by.

Flow:  ledger → [analysis] → lexical → search
In:    text as a person typed it.   Out: words (full weight), grams (lower weight), length in words.
Never: query syntax: everything typed is text. No guess at the language, no state, no disk.
Next:  worker/recall_worker/lexical.py

One pass over the text cuts it into runs; each run becomes terms as its script asks:

    postgres, größe, миграция   a word: folded and stemmed; its 4-grams as grams
    src/app/db.py, E1101, C++   an identifier: whole, its segments, its parts
    漢字とカナ                    bigrams and single Han; a katakana word also whole
    ภาษาไทย                     bigrams of grapheme clusters; 4-grams of them as grams
    한국어                       bigrams; a longer word also whole

Grams are what makes "Datenbanksicherung" meet "Datenbank" and "migratoin" meet "migration". They are scored
lower and in a field of their own: docs/decisions/0006-analyzer.md has the measures.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from recall_worker.analysis_scripts import terms_of_word

VERSION: Final = 1
"""Raise it with any change that gives some text other terms: an index of another version is made again."""

GRAM: Final = 4
MAX_TERM: Final = 64
"""Characters; a longer run is data (base64, a minified line): its head is kept as one term."""
_MAX_GRAMMED: Final = 32
_CACHED_RUN: Final = 24

_HAN_KANA: Final = r"\p{Han}\p{Hiragana}\p{Katakana}ー々〆〇"
_CLUSTERED: Final = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD: Final = rf"[\p{{L}}\p{{N}}--[{_HAN_KANA}{_CLUSTERED}\p{{Hangul}}]]"
_LETTERS: Final = rf"{_WORD}[\p{{L}}\p{{M}}\p{{N}}--[{_HAN_KANA}{_CLUSTERED}\p{{Hangul}}]]*+"
_RUNS: Final = regex.compile(
    rf"""(?V1x)
    (?:(?<![^\s(`"'\[/=])(?:--?|\.)(?=\p{{L}}))?      # --no-verify, -v, .env
    {_LETTERS}(?:[_\-./:@\\+]++{_LETTERS})*+          # words, snake_case, src/app/db.py, v2.13.0
    (?:(?:\+\+|\#)(?![\w+\#]))?                       # C++, c#
    |[{_HAN_KANA}]++|[{_CLUSTERED}]++|\p{{Hangul}}++
    """
)
_ASCII_RUNS: Final = re.compile(
    r"""(?x)
    (?:(?<![^\s(`"'\[/=])(?:--?|\.)(?=[A-Za-z]))?
    [A-Za-z0-9]++(?:[_\-./:@\\+]++[A-Za-z0-9]++)*+
    (?:(?:\+\+|\#)(?![A-Za-z0-9_+\#]))?
    """
)
"""The first alternative for text that has no other, five times faster."""

_HAN_KANA_RUN: Final = regex.compile(rf"[{_HAN_KANA}]")
_CLUSTERED_RUN: Final = regex.compile(rf"[{_CLUSTERED}]")
_HANGUL_RUN: Final = regex.compile(r"\p{Hangul}")
_KATAKANA_WORD: Final = regex.compile(r"[\p{Katakana}ー]{3,}")
_HAN: Final = regex.compile(r"[\p{Han}々〆〇]")
_CLUSTER: Final = regex.compile(r"\X\p{M}*+")  # some Myanmar vowel signs are clusters of their own to \X
_SEGMENTS: Final = regex.compile(r"[/\\:@]+")
_PARTS: Final = regex.compile(r"[/\\:@_\-.+#]+")
_JOINED: Final = regex.compile(r"\p{L}+(?:[-_]\p{L}+)+")
_HUMPS: Final = regex.compile(
    r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})"
)
_INVISIBLE: Final = regex.compile(r"[\p{Cf}\p{Variation_Selector}\u20e3\u034f]")
_FOREIGN_DIGIT: Final = regex.compile(r"(?V1)[\p{Nd}--[0-9]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What one run of the text is looked up by.

    Attributes:
        words: Terms of full weight, in order, repeats kept.
        grams: Terms of lower weight.
        length: Length in words as a reader counts them; bigrams do not make a Thai text a long one.
    """

    words: tuple[str, ...]
    grams: tuple[str, ...]
    length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A whole text, ready for the index.

    Attributes:
        words: Terms of full weight, in order, repeats kept.
        grams: Terms of lower weight.
        length: Length in words, rounded up.
    """

    words: list[str]
    grams: list[str]
    length: int


def analyze(text: str) -> Terms:
    """Make the terms that a passage is indexed by.

    Args:
        text: Any text; control characters and lone surrogates are no harm.

    Returns:
        Its terms; equal for texts that differ only in normal form, width, case or invisible characters.
    """
    words: list[str] = []
    grams: list[str] = []
    length = 0.0
    for run in runs(text):
        token = expand(run)
        words += token.words
        grams += token.grams
        length += token.length
    return Terms(words=words, grams=grams, length=math.ceil(length))


def runs(text: str) -> list[str]:
    """Cut a text into runs of letters, marks and digits of one kind; identifiers stay whole.

    Args:
        text: Any text.

    Returns:
        The runs in order, NFKC, in the case they were typed in.
    """
    found: list[str] = _ASCII_RUNS.findall(text) if text.isascii() else _RUNS.findall(normalise(text))
    return found


def expand(run: str) -> Token:
    """Make the terms of one run; one seen lately costs one look-up.

    Args:
        run: One of `runs()`.
    """
    return _expand_known(run) if len(run) <= _CACHED_RUN else _expand(run)


def normalise(text: str) -> str:
    """Let what looks the same be the same: width, ligatures, normal forms, digits; invisible characters go.

    Source: Unicode Standard Annex 15 (NFKC).
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    # The regex library may know digits that are newer than Python's tables: they stay as they are.
    plain: str = _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0], found[0])), text)
    return plain


def _expand(run: str) -> Token:
    """Ask the run's script."""
    if run.isascii():
        return _identifier(run)
    if _HAN_KANA_RUN.match(run):
        return _han_kana(run)
    if _CLUSTERED_RUN.match(run):
        return _clustered(run)
    if _HANGUL_RUN.match(run):
        bigrams = _ngrams(run, 2)
        return Token(words=bigrams if len(run) == 2 else (*bigrams, run[:MAX_TERM]), grams=(), length=1)
    return _identifier(run)


_expand_known = lru_cache(maxsize=8_192)(_expand)


def _han_kana(run: str) -> Token:
    """Bigrams over kanji and kana alike, single Han, katakana words; two characters count as a word."""
    single = _HAN.findall(run) if len(run) > 1 else [run]
    words = (*_ngrams(run, 2), *single, *(word[:MAX_TERM] for word in _KATAKANA_WORD.findall(run)))
    return Token(words=words, grams=(), length=len(run) / 2)


def _clustered(run: str) -> Token:
    """Bigrams of grapheme clusters: no vowel or tone mark stands alone. Four clusters count as a word."""
    clusters = [_in_order(cluster) for cluster in _CLUSTER.findall(run)]
    words = _ngrams(clusters, 2) if len(clusters) > 1 else (run,)
    return Token(words=words, grams=_ngrams(clusters, GRAM), length=len(clusters) / 4)


def _in_order(cluster: str) -> str:
    """Thai and Lao marks sorted: the tone may be typed before or after the vowel, and it looks the same."""
    if len(cluster) > 2 and cluster[0] < "\u0f00":
        return cluster[0] + "".join(sorted(cluster[1:]))
    return cluster


def _identifier(run: str) -> Token:
    """Words and code: each part as a word; what is more than one word also whole, by segment and joined."""
    if len(run) > MAX_TERM and not _PARTS.search(run):
        return Token(words=(run.casefold()[:MAX_TERM],), grams=(), length=1)
    parts = [part for part in _PARTS.split(run) if part]
    words: list[str] = []
    grams: list[str] = []
    if len(parts) > 1 or parts[0] != run:
        words += _wholes(run)
    for part in parts:
        _add_word(part, words, grams)
        if not part.isalpha() or not (part.islower() or part[1:].islower()):
            humps = [hump for hump in _HUMPS.split(part[:MAX_TERM]) if len(hump) > 1]
            words += (terms_of_word(_fold(hump))[0] for hump in humps if hump != part)
    return Token(words=tuple(words), grams=tuple(grams), length=len(parts))


def _wholes(run: str) -> list[str]:
    """The identifier as typed, without its sigil, by path segment, and with its hyphens closed up."""
    whole = _fold(run)
    wholes = [whole, whole.lstrip("-.")]
    wholes += [segment for segment in _SEGMENTS.split(wholes[1]) if _PARTS.search(segment)]
    if _JOINED.fullmatch(wholes[1]):
        wholes.append(terms_of_word(wholes[1].replace("-", "").replace("_", ""))[0])
    if wholes[1][0] == "v" and wholes[1][1:2].isdigit():
        wholes.append(wholes[1][1:])
    plain = {_fold(part) for part in _PARTS.split(run)}
    return [whole[:MAX_TERM] for whole in dict.fromkeys(wholes) if whole not in plain]


def _add_word(word: str, words: list[str], grams: list[str]) -> None:
    """One part: its term, and the n-grams of its folded form."""
    word = _fold(word)
    term, folded = terms_of_word(word)
    words.append(term[:MAX_TERM])
    if folded.isdigit() or len(folded) > _MAX_GRAMMED:
        return
    if len(folded) > GRAM:
        grams += _ngrams(folded, GRAM)
    elif folded != word:
        grams.append(folded)


def _fold(text: str) -> str:
    """Case off; folding can leave what NFKC composes."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text.casefold())


def _ngrams(items: str | list[str], n: int) -> tuple[str, ...]:
    """Every n neighbours, joined."""
    return tuple("".join(items[i : i + n]) for i in range(len(items) - n + 1))
