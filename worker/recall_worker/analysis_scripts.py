"""Analysis, script by script: one word → the form it is looked up by, and the form its n-grams are cut from.

Flow:  [analysis_scripts] → analysis → lexical
In:    a word: NFKC, casefolded, letters of an alphabetic script.   Out: its term, its folded form.
Never: a guess at the language. A rule here holds for every language of the script, or it is not here.
Next:  worker/recall_worker/analysis.py
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable
from typing import Any, Final

import regex
import snowballstemmer

_ALEF_FORMS: Final = str.maketrans(
    {
        "أ": "ا",
        "إ": "ا",
        "آ": "ا",
        "ٱ": "ا",
        "ى": "ي",
        "ی": "ي",
        "ې": "ي",
        "ک": "ك",
        "ة": "ه",
        "ۀ": "ه",
        "ہ": "ه",
        "ھ": "ه",
        "ؤ": "و",
        "ئ": "ي",
    }
)
_HEBREW_FINALS: Final = str.maketrans("ךםןףץ", "כמנפצ")
_LATIN_LETTERS: Final = str.maketrans(
    {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th"}
)
_LATIN_TWINS: Final = str.maketrans({"ı": "i", "ş": "ș", "ţ": "ț", "\u0307": None})
"""Dotless i and the dot that casefolding leaves of İ, so that I, İ, i and ı meet; cedilla for comma below."""

_NON_STEMMED_LENGTH: Final = 40
"""Longer words are hashes and encoded data: no stem, no n-grams."""

_stemmers = threading.local()


def terms_of_word(word: str) -> tuple[str, str]:
    """Fold one word as its script asks.

    Args:
        word: NFKC and casefolded, no separators, starts with a letter or digit.

    Returns:
        The term that the word is looked up by (marks folded, stemmed where that is safe), and the folded
        whole word, from which n-grams are cut.

    Source: snowballstem.org for the stems; Unicode Standard chapters 7 and 9 for the marks.
    """
    if word.isascii():
        return (_stem("english", word) if word.isalpha() else word), word
    for script, fold in _SCRIPTS:
        if script.search(word):
            return fold(word)
    return word, word


def _stem(language: str, word: str) -> str:
    """Snowball's stem. A stemmer keeps its word in itself, so every thread has its own."""
    if len(word) > _NON_STEMMED_LENGTH:
        return word
    stemmer: Any = getattr(_stemmers, language, None)
    if stemmer is None:
        stemmer = snowballstemmer.stemmer(language)
        setattr(_stemmers, language, stemmer)
    stem: str = stemmer.stemWord(word)
    return stem or word


def _without_marks(word: str) -> str:
    """Base letters alone: NFD less its non-spacing marks."""
    return "".join(char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn")


def _latin(word: str) -> tuple[str, str]:
    """Keep diacritics in the term (schon ≠ schön), drop them for n-grams (migracion finds migración)."""
    word = unicodedata.normalize("NFC", word.translate(_LATIN_TWINS))
    return word, _without_marks(word).translate(_LATIN_LETTERS)


def _greek(word: str) -> tuple[str, str]:
    """Tonos and breathings off: capitals are written without them."""
    plain = _without_marks(word)
    return _stem("greek", plain), plain


def _cyrillic(word: str) -> tuple[str, str]:
    """ё is written е by most; an acute is a stress mark. й and ї are letters and stay."""
    plain = "".join(c for c in word if unicodedata.category(c) != "Mn").replace("ё", "е")
    return _stem("russian", plain), plain


def _arabic(word: str) -> tuple[str, str]:
    """Tatweel and harakat off, then the stem; last the letter forms meet, which the stemmer needs apart."""
    plain = "".join(c for c in word if c != "ـ" and unicodedata.category(c) != "Mn")
    return _stem("arabic", plain).translate(_ALEF_FORMS), plain.translate(_ALEF_FORMS)


def _hebrew(word: str) -> tuple[str, str]:
    """Niqqud off; final letters meet their medial forms."""
    plain = _without_marks(word).translate(_HEBREW_FINALS)
    return plain, plain


def _devanagari(word: str) -> tuple[str, str]:
    """Nukta off and chandrabindu as anusvara, as keyboards often leave them."""
    plain = word.replace("\u093c", "").replace("\u0901", "\u0902")
    return _stem("hindi", plain), plain


_SCRIPTS: Final[tuple[tuple[regex.Pattern[str], Callable[[str], tuple[str, str]]], ...]] = tuple(
    (regex.compile(rf"\p{{{name}}}"), fold)
    for name, fold in (
        ("Latin", _latin),
        ("Cyrillic", _cyrillic),
        ("Arabic", _arabic),
        ("Devanagari", _devanagari),
        ("Greek", _greek),
        ("Hebrew", _hebrew),
    )
)
