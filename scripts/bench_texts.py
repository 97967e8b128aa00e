"""Bench texts: notes and prompts in any number, of the words and frequencies of real ones.

Flow:  bundled notes, ../shared/data if it is there → [bench_texts] → bench_search
In:    a seed and a number.   Out: notes (title, text) and prompts.
Never: two runs with one seed that differ, but where ../shared/data comes or goes.
Next:  scripts/bench_search.py

A note is two to four sentences somebody wrote, of which every seventh word was changed for another, each as often as
it is used. Half of them name something that no other does: a file, a ticket, a function. So common words are as common
as in the sources, and the vocabulary grows with the number of notes, as it does in a vault.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from recall_worker.background import load_background

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = ROOT / "../shared/data"
SHARED_SETS: Final = ("xquad-en", "locomo-26", "locomo-30", "locomo-41")
CHANGED_SHARE: Final = 1 / 7
NAMING_SHARE: Final = 1 / 2

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEAD: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.!?:])\s+|\n+")
_WORD: Final = re.compile(r"[^\W\d_]{2,24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A made note."""

    title: str
    text: str


def make_notes(count: int, *, seed: int) -> list[Note]:
    """Make notes; those of a smaller count are the first of a larger one."""
    rng = random.Random(seed)
    sentences = _sentences()
    words = [word for sentence in sentences for word in sentence.split()]
    notes = []
    for number in range(count):
        said = [_varied(rng.choice(sentences), words, rng) for _ in range(rng.randint(2, 4))]
        if rng.random() < NAMING_SHARE:
            said.append(f"See {_name(rng.choice(words), rng.choice(words), number)}.")
        title = " ".join(_WORD.findall(rng.choice(sentences))[:5]).capitalize()
        notes.append(Note(title=title or "Note", text=" ".join(said)))
    return notes


def make_prompts(notes: Sequence[Note], count: int, *, words: int, rng: random.Random) -> list[str]:
    """Take prompts out of notes: so many different words, small, from where one note says them, then the next."""
    prompts = []
    while len(prompts) < count:
        said: dict[str, None] = {}
        while len(said) < words:
            found = _WORD.findall(rng.choice(notes).text.lower())
            start = rng.randrange(max(1, len(found) - words))
            said |= dict.fromkeys(found[start:])
        prompts.append(" ".join(list(said)[:words]))
    return prompts


@cache
def _sentences() -> list[str]:
    """Every sentence of six to forty words that the sources hold, in a fixed order."""
    texts = [*load_background()["en"]]
    folders = [ROOT / "docs", SHARED / "vault-til"]
    for path in sorted(path for folder in folders for path in folder.rglob("*.md")):
        texts.append(_FENCE.sub("", _HEAD.sub("", path.read_text(encoding="utf-8"))))
    for corpus in (SHARED / name / "corpus.jsonl" for name in SHARED_SETS):
        if corpus.is_file():
            texts += [json.loads(line)["text"] for line in corpus.read_text(encoding="utf-8").splitlines()]
    sentences = (
        re.sub(r"[#>|`*\[\]]+|\s+", " ", part).strip(" -") for text in texts for part in _SENTENCE.split(text)
    )
    return list(dict.fromkeys(said for said in sentences if 6 <= len(_WORD.findall(said)) <= 40))


def _varied(sentence: str, words: Sequence[str], rng: random.Random) -> str:
    return " ".join(
        rng.choice(words) if rng.random() < CHANGED_SHARE else word for word in sentence.split(" ") if word
    )


def _name(first: str, second: str, number: int) -> str:
    """Something that only one note names."""
    parts = [_WORD.findall(word)[:1] or ["item"] for word in (first, second)]
    stem = "_".join(part[0].lower() for part in parts)
    return (f"{stem}_{number:x}", f"src/{stem}{number}.py", f"OPS-{number}")[number % 3]
