"""Scripts: which writing system a text is in, from its code points alone.

Flow:  ledger, prompt → [script] → languages → fusion
In:    any text.   Out: one script, the one that carries most of what it says.
Never: a guess at the language: that is left to the encoder, which knows better.
Next:  worker/recall_worker/languages.py
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

LOOKED_AT: Final = 2_000
"""Characters of a text that decide."""


class Script(IntEnum):
    """Writing systems that are told apart; OTHER holds digits, emoji and the rest."""

    OTHER = 0
    LATIN = 1
    GREEK = 2
    CYRILLIC = 3
    ARMENIAN = 4
    HEBREW = 5
    ARABIC = 6
    DEVANAGARI = 7
    BENGALI = 8
    TAMIL = 9
    THAI = 10
    LAO = 11
    MYANMAR = 12
    GEORGIAN = 13
    HANGUL = 14
    KHMER = 15
    KANA = 16
    HAN = 17


# First code point of each block, and the script from there on.
_BLOCKS: Final = (
    (0x0000, Script.OTHER), (0x0041, Script.LATIN), (0x005B, Script.OTHER), (0x0061, Script.LATIN),
    (0x007B, Script.OTHER), (0x00C0, Script.LATIN), (0x0300, Script.OTHER), (0x0370, Script.GREEK),
    (0x0400, Script.CYRILLIC), (0x0530, Script.ARMENIAN), (0x0590, Script.HEBREW), (0x0600, Script.ARABIC),
    (0x0700, Script.OTHER), (0x0750, Script.ARABIC), (0x0780, Script.OTHER), (0x08A0, Script.ARABIC),
    (0x0900, Script.DEVANAGARI), (0x0980, Script.BENGALI), (0x0A00, Script.OTHER), (0x0B80, Script.TAMIL),
    (0x0C00, Script.OTHER), (0x0E00, Script.THAI), (0x0E80, Script.LAO), (0x0F00, Script.OTHER),
    (0x1000, Script.MYANMAR), (0x10A0, Script.GEORGIAN), (0x1100, Script.HANGUL), (0x1200, Script.OTHER),
    (0x1780, Script.KHMER), (0x1800, Script.OTHER), (0x1E00, Script.LATIN), (0x1F00, Script.GREEK),
    (0x2000, Script.OTHER), (0x3040, Script.KANA), (0x3100, Script.OTHER), (0x3130, Script.HANGUL),
    (0x3190, Script.OTHER), (0x31F0, Script.KANA), (0x3200, Script.OTHER), (0x3400, Script.HAN),
    (0xA000, Script.OTHER), (0xAC00, Script.HANGUL), (0xD7B0, Script.OTHER), (0xF900, Script.HAN),
    (0xFB00, Script.OTHER), (0xFB50, Script.ARABIC), (0xFE00, Script.OTHER), (0xFE70, Script.ARABIC),
    (0xFF00, Script.OTHER), (0xFF66, Script.KANA), (0xFFA0, Script.OTHER), (0x20000, Script.HAN),
    (0x32000, Script.OTHER),
)  # fmt: skip
_STARTS: Final = np.array([start for start, _ in _BLOCKS], dtype=np.uint32)
_SCRIPTS: Final = np.array([script for _, script in _BLOCKS], dtype=np.int64)

# How much a letter says beside a Latin one: a Thai note full of English names and commands is still Thai.
_WEIGHTS: Final = np.array([0.0, 1.0, *[3.0] * (len(Script) - 2)])
_WEIGHTS[[Script.HAN, Script.KANA, Script.HANGUL]] = 4.0

_KANA_RATIO: Final = 1 / 12
"""Han with at least this much kana beside it is Japanese."""


def script_of(text: str) -> Script:
    """The script that carries most of a text.

    Japanese is KANA even where most of its characters are Han.

    Source: Unicode blocks, Blocks.txt.
    """
    points = np.frombuffer(text[:LOOKED_AT].encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes = _SCRIPTS[np.searchsorted(_STARTS, points, side="right") - 1]
    weight = np.bincount(codes, minlength=len(Script)) * _WEIGHTS
    if weight[Script.KANA] and weight[Script.KANA] >= _KANA_RATIO * weight[Script.HAN]:
        weight[Script.KANA] += weight[Script.HAN]
        weight[Script.HAN] = 0
    return Script(int(weight.argmax())) if weight.any() else Script.OTHER
