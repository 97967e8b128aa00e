"""Scripts: told by code points, whichever else stands in the text."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.background import load_background
from recall_worker.scripts import Script, script_of

EXPECTED = {
    "th": Script.THAI, "ja": Script.KANA, "zh": Script.HAN, "ko": Script.HANGUL, "ru": Script.CYRILLIC,
    "uk": Script.CYRILLIC, "el": Script.GREEK, "ar": Script.ARABIC, "fa": Script.ARABIC, "he": Script.HEBREW,
    "hi": Script.DEVANAGARI, "bn": Script.BENGALI, "ta": Script.TAMIL, "lo": Script.LAO, "km": Script.KHMER,
    "my": Script.MYANMAR, "ka": Script.GEORGIAN,
}  # fmt: skip


@pytest.mark.parametrize("language", sorted(load_background()))
def test_every_background_sentence_is_in_its_script(language: str) -> None:
    """Each of the sentences that travel in the package is told right, Latin being the rest."""
    wanted = EXPECTED.get(language, Script.LATIN)
    if language == "ja":
        assert {script_of(line) for line in load_background()[language]} <= {Script.KANA, Script.HAN}
    else:
        assert {script_of(line) for line in load_background()[language]} == {wanted}


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", Script.OTHER),
        ("1234 — 😀", Script.OTHER),
        ("ใช้ pgbouncer กับ prepared statement ไม่ได้", Script.THAI),
        ("在生产环境里不要用 Redis 的 KEYS 命令", Script.HAN),
        ("本番で`kubectl delete`を打たない", Script.KANA),
        ("東京都千代田区", Script.HAN),
        ("ＡＢＣ", Script.OTHER),
        ("\ud800 lone", Script.LATIN),
    ],
)
def test_mixed_text_is_told_by_what_says_most(text: str, script: Script) -> None:
    """Names and commands in Latin letters do not make a Thai, Chinese or Japanese note English."""
    assert script_of(text) == script


@given(st.characters(categories=["Ll", "Lu", "Lo"]))
def test_one_letter_agrees_with_unicode(letter: str) -> None:
    """What is called Thai, Greek or Han is that by Unicode's own property."""
    found = script_of(letter)
    if found in (Script.OTHER, Script.KANA):
        return
    assert regex.fullmatch(
        rf"[\p{{sc={found.name}}}\p{{scx={found.name}}}\p{{Common}}\p{{Inherited}}]", letter
    ), letter
