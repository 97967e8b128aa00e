"""Background: sentences about nothing in particular, to know what "nothing in common" looks like.

Flow:  data/background.json → [background] → dense
In:    nothing; the file travels in the package.   Out: language code → parallel sentences.
Never: a sentence of the vault, or of the notes and questions that we measure on.
Next:  worker/recall_worker/data/background.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType


@cache
def load_background() -> Mapping[str, tuple[str, ...]]:
    """Read the background sentences, once per process.

    Returns:
        ISO 639-1 code → sentences, read-only; one index means the same thing in every language.
    """
    raw = resources.files("recall_worker").joinpath("data", "background.json").read_text(encoding="utf-8")
    sentences: dict[str, list[str]] = json.loads(raw)["sentences"]
    return MappingProxyType({language: tuple(lines) for language, lines in sentences.items()})
