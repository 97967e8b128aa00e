"""Gist: what a long prompt is about, cut out of what was pasted into it.

Flow:  prompt → [gist] → encoder, search → digest
In:    a prompt of any length and the weight of a word in this vault.   Out: its most informative pieces, in order.
Never: a sentence reworded; a person's own words crowded out by a log.
Next:  worker/recall_worker/asking.py

The encoder's time grows with tokens and its one vector blurs with topics; BM25's 32 terms fill up with what a log
says once. Both read the few pieces that some note answers best instead (docs/decisions/0011-long-prompts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from recall_worker.analysis import expand, runs
from recall_worker.analysis_stopwords import stop_words_of
from recall_worker.tear import weigh

SHORT_WEIGHT: Final = 320
"""A prompt up to here is its own gist. In `tear.weigh`: about 80 tokens, 20 ms of the encoder's time."""

GIST_WEIGHT: Final = 200
"""Most of a longer one that is kept: about 50 tokens, 15 ms."""

MAX_READ: Final = 120_000
"""Characters of a prompt that are read: as many of its head as of its tail. About 20,000 words."""

MAX_PIECES: Final = 160
"""Pieces that are looked at, typed ones first; of more, those of head and tail: a request stands at one end of what is
pasted."""

SEARCHED: Final = 16
"""Pieces that are searched for one by one, about a millisecond each."""

MAX_PIECE: Final = 400
"""Characters of a piece that count; what is longer (a minified line) is data."""

MAX_LINE: Final = 20_000

SENTENCE_WEIGHT: Final = 60
"""Sentences are joined until they have so much weight."""

MAX_SENTENCE: Final = 240
"""A longer one (dictated, or without any stop) is cut into windows of half of it."""

PASTED_SHARE: Final = 0.5
"""What an answer to a pasted piece counts beside one to a typed piece."""

EDGE_SHARE: Final = 1.5
"""The first and the last typed piece count so much more: a request stands there."""

ENOUGH_SHARE: Final = 0.6
"""Pieces that are answered less than this beside the best one are left out."""

KNOWN_LITTLE: Final = 0.15
"""Share of a piece's idf mass below which the notes' words cannot judge it: it may be in another language."""

WordWeight = Callable[[str], tuple[float, int]]
"""A word's idf, and how many passages have it."""

Fit = Callable[[str], float]
"""How well the best passage answers a piece, 0 for not at all."""

_FENCE: Final = regex.compile(r"^[ \t>]*(?:`{3,}|~{3,})")
_SENTENCE: Final = regex.compile(
    r"""(?<=[!?…][\p{Pe}\p{Pf}"']*) \s+
      | (?<=\.[\p{Pe}\p{Pf}"']*) \s+ (?!\p{Ll})
      | (?<=[。！？｡．।॥؟۔။][\p{Pe}\p{Pf}]*) \s*
      | (?<=[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]) \s+""",
    regex.VERBOSE,
)
_LOG_LINE: Final = regex.compile(
    r"""\s* (?:
        [\[(<]? \d{4}-\d\d-\d\d | [\[(<]? \d{1,2}:\d\d:\d\d | \w{3}\s+\d{1,2}\s\d\d:\d\d     # a time
      | [\[(<]? (?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b               # a level
      | File\s" | at\s+[\w$.<>/\\]+ .* [:(]\d+ | Caused\sby: | \.{3}\s\d+\smore | Traceback\s
      | [+-]{3}\s\S+ | @@\s-\d | [$%#>]\s\S | \w+@[\w-]+: | \d+\s*[|:]\s
      | \S+:\d+(?::\d+)?:\s | goroutine\s\d | \#\d+\s+0x
    )""",
    regex.VERBOSE,
)
_INDENTED: Final = regex.compile(r"(?: {2,}|\t)(?![ \t]*(?:[-*+•]|\d+[.)])\s)")
_LETTER_OR_SPACE: Final = regex.compile(r"[\p{L}\p{M} ]+")
_MIN_LETTERS: Final = 0.72
_DIGITS: Final = regex.compile(r"\d+|\b[0-9a-fA-F]{8,}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gist:
    """What a prompt is searched by.

    Attributes:
        text: The prompt itself if it is short; else pieces of it, a line each, at most `GIST_WEIGHT`.
        best: The one of them that some note answers best; `text` if there is only one.
    """

    text: str
    best: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A sentence or line of a prompt.

    Attributes:
        text: As it stands there.
        typed: False for code, logs and the like.
    """

    text: str
    typed: bool


def take_gist(prompt: str, word_weight: WordWeight, fit: Fit) -> Gist:
    """Choose what to search a prompt by.

    Args:
        prompt: As typed and pasted.
        word_weight: In this vault.
        fit: Called for at most `SEARCHED` pieces and the two edges.
    """
    if len(prompt) <= 2 * SHORT_WEIGHT and weigh(prompt) <= SHORT_WEIGHT:
        return Gist(text=prompt, best=prompt)
    if len(prompt) > MAX_READ:
        prompt = f"{prompt[: MAX_READ // 2]}\n{prompt[-MAX_READ // 2 :]}"
    pieces = list(cut_pieces(prompt))
    if len(pieces) > MAX_PIECES:
        typed, pasted = ([piece for piece in pieces if piece.typed is kind] for kind in (True, False))
        kept = set(_ends(typed, MAX_PIECES))
        kept |= set(_ends(pasted, MAX_PIECES - len(kept)))
        pieces = [piece for piece in pieces if piece in kept]
    worth = _worth(pieces, word_weight, fit)
    best = max(worth, key=lambda place: (worth[place], -place), default=None)
    return Gist(
        text="\n".join(_best(pieces, worth)),
        best="" if best is None else _beginning(pieces[best].text),
    )


def _ends(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """Head and tail of what is too long."""
    if len(pieces) <= limit:
        return pieces
    return [*pieces[: limit // 2], *pieces[len(pieces) - (limit - limit // 2) :]]


def cut_pieces(prompt: str) -> Iterator[Piece]:
    """Cut a prompt into sentences, and what was pasted into lines; a line seen before is left out.

    Lines that differ only in numbers are one: a log says the same thing a thousand times.
    """
    seen: set[str] = set()
    fenced = False
    for line in prompt.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        typed = not fenced and not looks_pasted(line)
        for text in _sentences(line[:MAX_LINE]) if typed else [line]:
            said = text.strip()[:MAX_PIECE]
            shape = _DIGITS.sub("0", said)
            if said and shape not in seen:
                seen.add(shape)
                yield Piece(text=said, typed=typed)


def _sentences(line: str) -> Iterator[str]:
    """Sentences of a line; short ones stay together: Thai puts its spaces between phrases."""
    held = ""
    for sentence in _SENTENCE.split(line):
        if weigh(sentence) > MAX_SENTENCE:
            yield held
            yield from _windows(sentence)
            held = ""
            continue
        held += sentence + " "
        if weigh(held) >= SENTENCE_WEIGHT:
            yield held
            held = ""
    yield held


def _windows(sentence: str) -> Iterator[str]:
    """A sentence without an end, cut at spaces, and where there are none, anywhere."""
    half = MAX_SENTENCE // 2
    held = ""
    for word in sentence.split():
        for start in range(0, len(word), half):
            held += word[start : start + half]
            if weigh(held) >= half:
                yield held
                held = ""
        held += " " * bool(held)
    yield held


def looks_pasted(line: str) -> bool:
    """True for a line that a program wrote, or that is meant for one."""
    if not line.strip():
        return False
    if _LOG_LINE.match(line) or _INDENTED.match(line):
        return True
    letters = sum(len(found) for found in _LETTER_OR_SPACE.findall(line))
    return letters < _MIN_LETTERS * len(line)


def known_mass(piece: Piece, word_weight: WordWeight) -> tuple[float, float]:
    """How much a piece says that the notes have words for.

    Returns:
        Idf mass of its known words, and their share of the mass of all its words, 0 to 1.
    """
    said = runs(piece.text)
    stops = stop_words_of(said)
    known = total = 0.0
    for term in {term for run in said if run.casefold() not in stops for term in expand(run).words}:
        idf, passages = word_weight(term)
        total += idf
        known += idf if passages else 0.0
    return known, known / total if total else 0.0


def _worth(pieces: Sequence[Piece], word_weight: WordWeight, fit: Fit) -> dict[int, float]:
    """What each piece that may be kept is worth, by its place.

    Words choose the pieces that are worth a search, for words are cheap: known mass times known share finds a
    question among 400 pasted words in the first 16 of 70 pieces for 88 of 100 questions, mass alone for 61.
    """
    typed = [place for place, piece in enumerate(pieces) if piece.typed]
    edges = {typed[0], typed[-1]} if typed else set()
    known = [known_mass(piece, word_weight) for piece in pieces]
    by_words = sorted(range(len(pieces)), key=lambda place: (-known[place][0] * known[place][1], place))
    worth = {}
    for place in sorted({*by_words[:SEARCHED], *edges}):
        share = (1.0 if pieces[place].typed else PASTED_SHARE) * (EDGE_SHARE if place in edges else 1.0)
        worth[place] = share * fit(pieces[place].text)
    enough = ENOUGH_SHARE * max(worth.values(), default=0.0)
    for place in edges:
        if known[place][1] < KNOWN_LITTLE:
            worth[place] = max(worth[place], enough)
    return {place: value for place, value in worth.items() if value >= enough}


def _best(pieces: Sequence[Piece], worth: Mapping[int, float]) -> list[str]:
    """The worthiest pieces that fit, in their original order; of one that is too long alone, its beginning."""
    by_worth = sorted(worth, key=lambda place: (-worth[place], place))
    chosen = by_worth[:1]
    left = GIST_WEIGHT - sum(weigh(pieces[place].text) for place in chosen)
    for place in by_worth[1:]:
        need = weigh(pieces[place].text)
        if need <= left:
            chosen.append(place)
            left -= need
    return [_beginning(pieces[place].text) for place in sorted(chosen)]


def _beginning(text: str) -> str:
    """As much of a text as weighs `GIST_WEIGHT`: letters of dense scripts weigh twice."""
    while (weight := weigh(text)) > GIST_WEIGHT:
        text = text[: len(text) * GIST_WEIGHT // weight]
    return text
