"""The background sentences are what the statistics built on them take for granted."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from importlib import resources
from typing import Final

import pytest
import regex

from recall_worker.background import load_background

N_SENTENCES: Final = 48
MIN_SCRIPT_RATIO: Final = 0.8

SCRIPTS: Final[dict[str, tuple[str, ...]]] = {
    "en": ("Latin",),
    "th": ("Thai",),
    "ja": ("Han", "Hiragana", "Katakana"),
    "zh": ("Han",),
    "ko": ("Hangul",),
    "vi": ("Latin",),
    "de": ("Latin",),
    "fr": ("Latin",),
    "es": ("Latin",),
    "pt": ("Latin",),
    "it": ("Latin",),
    "nl": ("Latin",),
    "sv": ("Latin",),
    "pl": ("Latin",),
    "cs": ("Latin",),
    "ro": ("Latin",),
    "hu": ("Latin",),
    "tr": ("Latin",),
    "id": ("Latin",),
    "ru": ("Cyrillic",),
    "uk": ("Cyrillic",),
    "el": ("Greek",),
    "ar": ("Arabic",),
    "he": ("Hebrew",),
    "fa": ("Arabic",),
    "hi": ("Devanagari",),
    "bn": ("Bengali",),
    "ta": ("Tamil",),
    "lo": ("Lao",),
    "km": ("Khmer",),
    "my": ("Myanmar",),
    "ka": ("Georgian",),
}

LANGUAGES: Final = sorted(load_background())

# Format characters have no glyph and no place here, except the joiners that Persian spelling needs.
UNSEEN: Final = regex.compile(r"[\p{C}\p{Zl}\p{Zp}--\u200c\u200d]", regex.VERSION1)


def test_note_states_the_licence() -> None:
    """The file says what it is and under which licence."""
    raw = resources.files("recall_worker").joinpath("data", "background.json").read_text(encoding="utf-8")
    assert "MIT" in json.loads(raw)["note"]


def test_every_language_has_a_known_script() -> None:
    """No language is in the file without an expectation here."""
    assert set(LANGUAGES) <= set(SCRIPTS)


def test_load_is_cached_and_read_only() -> None:
    """Two calls give the same mapping, and nobody can write to it."""
    background = load_background()
    assert load_background() is background
    with pytest.raises(TypeError):
        background["en"] = ()  # type: ignore[index]


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_complete_and_distinct(language: str) -> None:
    """Every language has the same number of sentences, none empty, none twice."""
    sentences = load_background()[language]
    assert len(sentences) == N_SENTENCES
    assert len(set(sentences)) == N_SENTENCES
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_clean_text(language: str) -> None:
    """Every sentence is NFC and free of control characters and of digits, which look alike everywhere."""
    for sentence in load_background()[language]:
        assert unicodedata.is_normalized("NFC", sentence), sentence
        assert not UNSEEN.search(sentence), sentence
        assert not regex.search(r"\p{Nd}", sentence), sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_letters_are_in_the_expected_script(language: str) -> None:
    """At least four letters in five of every language are in its own script."""
    text = "".join(load_background()[language])
    own = "".join(rf"\p{{Script={script}}}" for script in SCRIPTS[language])
    n_letters = len(regex.findall(r"\p{L}", text))
    n_own = len(regex.findall(rf"(?=[{own}])\p{{L}}", text))
    assert n_own / n_letters >= MIN_SCRIPT_RATIO


def test_no_sentence_is_shared_between_languages() -> None:
    """No text stands under two languages, as a paste into the wrong list would."""
    counts = Counter(s for sentences in load_background().values() for s in sentences)
    assert [s for s, n in counts.items() if n > 1] == []
