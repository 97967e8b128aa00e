"""Alike: whether two stretches of text say the same, and in what they differ, in any script.

Flow:  search → digest → [alike] → digest
In:    texts as a person wrote them.   Out: shares from 0 to 1 and plain yes or no.
Never: a dictionary, a model, a guess: what cannot be told from the letters counts as different
       (docs/decisions/0010-near-duplicates.md has the pairs and the measures).
Next:  worker/recall_worker/digest.py
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import regex
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import LCSseq

from recall_worker.text import one_line

SAME_PERCENT: Final = 95.0
"""rapidfuzz percent from which the shorter of two texts stands in the longer."""

_LEAST_COMMON: Final = 0.9
"""Share of the shorter text that must be found in the longer, in order, or the window cannot reach SAME_PERCENT."""

_REMEMBERED: Final = 512

_NO_SPACES: Final = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Han}\p{Hiragana}\p{Katakana}"
_WORDS: Final = regex.compile(rf"(?V1)[\p{{L}}\p{{M}}--[{_NO_SPACES}]]+")
_DAYS: Final = regex.compile(r"\d{4}-\d\d-\d\d")
_LAST_WORD: Final = regex.compile(
    rf"(?V1)[\p{{L}}\p{{M}}\p{{N}}--[{_NO_SPACES}]]*+[^\p{{L}}\p{{M}}\p{{N}}]*+$"
)
_NUMBERS: Final = regex.compile(r"\p{N}+|[一二三四五六七八九十百千万億两半]")
_CODES: Final = regex.compile(r"(?V1)(?<![\w.])(?!v\d)[\p{L}--[" + _NO_SPACES + r"]]+[-_]?\d[\w-]*+(?!\.\d)")
_TURNS: Final = regex.compile(
    r"""(?V1)
      \b(?: not | no | never | none | nor | neither | without | cannot | avoid | stop | except | unless | \p{L}+n['’]t
          | before | after | above | below | on | off | enable[ds]? | disable[ds]? | allow(?:ed|s)? | den(?:y|ied|ies)
          | nicht | kein\p{L}* | nie | niemals | ohne | vor | nach
          | ne | pas | jamais | sans | avant | après | nunca | sin | antes | después | não | nem | sem
          | không | đừng | chưa | не | нет | никогда | без | нельзя | δεν | μην | ποτέ | χωρίς
          | لا | لم | لن | ليس | بدون | नहीं | मत | बिना | 안 | 못 )\b
      | ไม่ | ห้าม | อย่า | งด | เลิก | ยกเว้น | เว้นแต่ | ก่อน | หลัง | เปิด | ปิด
      | ない | なく | なけ | なし | ません | ずに | せず | 禁止 | だめ | ダメ | 避け | 以外 | 前 | 後
      | 不 | 没 | 沒 | 勿 | 别 | 別 | 無 | 无 | 未 | 非 | 禁 | 免 | 后 | 않 | 없 | 말 | 금지
    """,
    regex.VERBOSE,
)
"""Words that turn a sentence round. They are counted, not understood: in two texts that are otherwise alike, one
more or one less means that they do not say the same."""

_SMALL: Final = frozenset({
    *("a", "an", "and", "are", "be", "been", "by", "for", "in", "is", "it", "its", "of", "or", "so", "that"),
    *("the", "then", "there", "this", "to", "was", "were", "which", "with"),
})  # fmt: skip
_STOPS: Final = tuple(".!?;。！？；｡．")
_SENTENCE_ENDS: Final = regex.compile(
    rf"[{''.join(_STOPS)}](?=\s|$|[^\x00-\x7f])|(?<=[\p{{Thai}}\p{{Lao}}])\s"
)
_NEAR: Final = 40
"""Characters around a place in which a word that turns it round is looked for."""

_STEM: Final = 5
"""Letters that two words must begin with in common to be forms of one word."""


@lru_cache(_REMEMBERED)
def comparable(text: str) -> str:
    """What is compared: neither case nor white space make a text another. One that was cut ends with "…"."""
    return one_line(text).casefold()


def most_in_common(texts: Sequence[str], others: Sequence[str]) -> NDArray[np.int32]:
    """Upper bound of `in_common` for all pairs in one call, shape (n_texts, n_others).

    Only the low byte of each UTF-16 unit is looked at. Letters that share one count as equal, so the bound is never too
    low, and Thai or Chinese costs no more than English: rapidfuzz counts 64 bytes at a time but looks other characters
    up one by one (24 × 24 Thai texts of 400: 2.4 ms as text, 0.7 ms as bytes).
    """
    if not texts or not others:
        return np.zeros((len(texts), len(others)), np.int32)
    rows = [_low_bytes(text) for text in texts]
    columns = rows if others is texts else [_low_bytes(text) for text in others]
    return process.cdist(rows, columns, scorer=LCSseq.similarity, dtype=np.int32)


def in_common(text: str, other: str) -> int:
    """Characters that two texts share in the same order.

    Source: Hyyrö, Bit-Parallel LCS-length Computation Revisited, AWOCA 2004; rapidfuzz documentation, LCSseq.
    """
    return LCSseq.similarity(text, other)


def _low_bytes(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")[::2]


def may_repeat(candidates: Sequence[str], earlier: Sequence[str], *, least: float) -> NDArray[np.bool_]:
    """False where `repeated_share` would be below `least`, all pairs in one call; shape (n_candidates, n_earlier).

    Args:
        least: Ratio 0 to 1.
    """
    lengths = np.array([len(text) for text in candidates], np.float32)[:, None]
    others = np.array([len(text) for text in earlier], np.float32)[None, :]
    found = most_in_common(candidates, earlier)
    return (
        (found > 0) & (found >= _LEAST_COMMON * np.minimum(lengths, others) - 2) & (others >= least * lengths)
    )


def repeated_share(candidate: str, earlier: str) -> float:
    """How much of `candidate` stands in `earlier`, ratio 0 to 1; both `comparable`.

    The shorter is slid along the longer. A place counts if nothing there differs but small words, forms of a word and
    marks: a number, a "not" or another name make it another statement. A match counts for as much of the candidate as
    it covers, so that a short earlier line inside a long candidate does not hide the rest of it.

    Source: rapidfuzz documentation, fuzz.partial_ratio_alignment.
    """
    if not candidate or not earlier:
        return 0.0
    if candidate == earlier:
        return 1.0
    shorter, longer = sorted((candidate, earlier), key=len)
    is_cut = shorter.endswith("…")
    if is_cut:
        shorter = _LAST_WORD.sub("", shorter)
    place = fuzz.partial_ratio_alignment(shorter, longer, score_cutoff=SAME_PERCENT)
    if place is None:
        return 0.0
    window = _whole_words(longer, place.dest_start, place.dest_end)
    around = _sentence(longer, place.dest_start, place.dest_end, onwards=not is_cut)
    if (
        _marks(_NUMBERS, shorter) != _marks(_NUMBERS, window)
        or _marks(_TURNS, shorter) != _marks(_TURNS, around)
        or _has_new_word(shorter, window)
        or _has_new_word(window, shorter)
    ):
        return 0.0
    return place.score / 100 * min(1.0, len(earlier) / len(candidate))


def says_nothing_new(title: str, text: str) -> bool:
    """True if every word and number of a title stands in a text; both `comparable`."""
    return all(word in text for word in (*_title_words(title), *_NUMBERS.findall(title)))


def differ_in_facts(one: str, two: str) -> bool:
    """True if two texts that are otherwise alike differ in a number or in a word that turns them round."""
    return _marks(_NUMBERS, one) != _marks(_NUMBERS, two) or _marks(_TURNS, one) != _marks(_TURNS, two)


@lru_cache(2 * _REMEMBERED)
def _marks(pattern: regex.Pattern[str], text: str) -> tuple[str, ...]:
    """What a pattern finds in a text, whatever the order."""
    return tuple(sorted(pattern.findall(text)))


def differ_in_subject(one: str, two: str, *, titles: tuple[str, str]) -> bool:
    """True if two texts of one pattern are about different things.

    Each names a code that the other does not (`db-01`, `E1101`); or only the word they open with was put in another's
    place ("Anna prefers …", "Marek prefers …"); or each title has a word that stands in its own text and not in the
    other's; or the titles are different days. A number alone may be what changed, and so may a word in the middle:
    those do not tell.

    Args:
        one: A `comparable` text.
        two: Another.
        titles: Theirs, `comparable` as well, empty where there is none.
    """
    codes, other_codes = set(_marks(_CODES, one)), set(_marks(_CODES, two))
    if (codes - other_codes and other_codes - codes) or _open_differently(one, two):
        return True
    days = _marks(_DAYS, titles[0]), _marks(_DAYS, titles[1])
    if all(days) and days[0] != days[1]:
        return True
    return _names_itself(titles[0], one, two) and _names_itself(titles[1], two, one)


def _open_differently(one: str, two: str) -> bool:
    """True if two sentences go on alike after another first word, or, without spaces, after two other characters."""
    opening, other = _opening(one), _opening(two)
    if opening is None or other is None or opening[1] != other[1]:
        return False
    first, second = opening[0], other[0]
    turned = any(_TURNS.search(word) or _NUMBERS.search(word) for word in (first, second))
    return not turned and first[:_STEM] != second[:_STEM] and set(first) != set(second)


@lru_cache(_REMEMBERED)
def _opening(text: str) -> tuple[str, str] | None:
    """The first word that says something and the one after it."""
    if regex.match(rf"[{_NO_SPACES}]{{3}}", text):
        return text[:2], text[2]
    words = [word for word in _WORDS.findall(text[:_NEAR]) if word not in _SMALL]
    return (words[0], words[1]) if len(words) > 1 else None


def _names_itself(title: str, own: str, other: str) -> bool:
    """True if a word of the title is in its own text and not in the other."""
    return any(word in own and word not in other for word in _title_words(title))


@lru_cache(_REMEMBERED)
def _title_words(title: str) -> tuple[str, ...]:
    """Words of a title; where there are no spaces, its pairs of characters."""
    words = [word for word in _WORDS.findall(title) if word not in _SMALL]
    for run in regex.findall(rf"[{_NO_SPACES}]{{2,}}", title):
        words += [run[place : place + 2] for place in range(len(run) - 1)]
    return tuple(words)


def _whole_words(text: str, start: int, end: int) -> str:
    """A stretch of a text, widened by what is left of a word or number at either edge."""

    def inside(place: int) -> bool:
        pair = text[place - 1 : place + 1]
        return len(pair) == 2 and (pair.isdecimal() or _WORDS.fullmatch(pair) is not None)

    while start > 0 and inside(start):
        start -= 1
    while end < len(text) and inside(end):
        end += 1
    return text[start:end]


def _sentence(text: str, start: int, end: int, *, onwards: bool) -> str:
    """A stretch of a text with what its sentence says before it and, if wanted, after it: "not" may stand there."""
    before = regex.split(_SENTENCE_ENDS, text[max(0, start - _NEAR) : start])[-1]
    ended = text[start:end].rstrip().endswith(_STOPS)
    after = regex.split(_SENTENCE_ENDS, text[end : end + _NEAR])[0] if onwards and not ended else ""
    return before + text[start:end] + after


def _has_new_word(text: str, other: str) -> bool:
    """True if a word of `text` is in `other` in no form; words of scripts with spaces only."""
    known = set(_WORDS.findall(other))
    stems = {word[:_STEM] for word in known if len(word) >= _STEM}
    return any(
        word not in known and word not in _SMALL and word[:_STEM] not in stems
        for word in _WORDS.findall(text)
    )
