"""Tear: find where an over-long block of a note may be torn, best places first.

Flow:  vault → notes → passages → [tear] → records → ledger
In:    a note's text and one of its blocks.   Out: stretches of the text, each short enough.
Never: a fence without its marks; a word or grapheme cluster torn where a better place is near.
Next:  worker/recall_worker/passages.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import regex

from recall_worker.markdown import Block, Kind, Range
from recall_worker.text import units

# In weight: UTF-16 units, letters of Chinese, Japanese and Korean twice. The encoder reads 512 tokens; one of
# multilingual-e5-small is 4.6 letters of English, 3.6 of Thai, 1.4 to 2 of those three. At this target XQuAD
# and JSQuAD give 150 to 270 tokens a passage, and none above 512 at the limit.
TARGET_WEIGHT: Final = 700
MAX_WEIGHT: Final = 1_200
SMALL_WEIGHT: Final = 200  # too little to stand alone

_DENSE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]++")

# Places where an over-long text may be torn, best first. Thai and Lao put a space between phrases.
_LINE: Final = regex.compile(r"\n++")
_SENTENCE: Final = regex.compile(
    r"""(?<![!?…]) [!?…]++ [\p{Pe}\p{Pf}"']*+ \s++
      | (?<!\.) \.++ [\p{Pe}\p{Pf}"']*+ \s++ (?!\p{Ll})
      | [。！？｡．]++ [\p{Pe}\p{Pf}]*+ \s*+
      | [।॥؟۔။།]++ \s*+
      | (?<=[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]) \s++
      | \n{2,}+""",
    regex.VERBOSE,
)
_SPACE: Final = regex.compile(r"\s++")
_CLUSTER: Final = regex.compile(r"\X")
_CHARACTER: Final = regex.compile(r"(?s:.)")
_PROSE: Final = (_SENTENCE, _SPACE, _CLUSTER, _CHARACTER)
_LINES: Final = (_LINE, *_PROSE)
_CODE: Final = (_LINE, _SPACE, _CLUSTER, _CHARACTER)

_FENCE_MARK: Final = regex.compile(r"(?<![`~])(?P<mark>`{3,10}+|~{3,10}+)[^`\n]{0,40}+$", regex.MULTILINE)


def weigh(text: str) -> int:
    """How much of an encoder's attention a text takes: UTF-16 units, letters of dense scripts twice.

    Args:
        text: Any text.

    Returns:
        At least its UTF-16 units.
    """
    if text.isascii():
        return len(text)
    return units(text) + sum(match.end() - match.start() for match in _DENSE.finditer(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a text.

    Attributes:
        start: Offset in the text.
        stop: Offset after it.
        before: Put ahead of it: the opening of a fence whose earlier part stands elsewhere.
        after: Put behind it: the closing of a fence whose later part stands elsewhere.
    """

    start: int
    stop: int
    before: str = ""
    after: str = ""


def tear_block(text: str, starts: Sequence[int], block: Block) -> Iterator[Stretch]:
    """Tear a block only as far as it must be: a list at its items, an item at its paragraphs, and so on.

    Args:
        text: The whole text.
        starts: Offset of each of its lines.
        block: Where it stands in it.

    Yields:
        Stretches of at most `MAX_WEIGHT`, what is put before and after included; together they hold every
        word of the block.
    """
    start, stop = starts[block.start], starts[block.stop] - 1
    if weigh(text[start:stop]) <= MAX_WEIGHT:
        yield Stretch(start=start, stop=stop)
    elif block.children:
        for child in block.children:
            yield from tear_block(text, starts, child)
    elif (opening := _fence_opening(text, starts, block)) is not None:
        yield from _tear_fence(text, start, stop, opening)
    else:
        places = {Kind.PARAGRAPH: _PROSE, Kind.INDENTED: _CODE}.get(block.kind, _LINES)
        for first, last in _tear(text, start, stop, places, MAX_WEIGHT):
            yield Stretch(start=first, stop=last)


def _fence_opening(text: str, starts: Sequence[int], block: Block) -> regex.Match[str] | None:
    """The mark of a fence that has lines, with the language; None if that is no use above every part."""
    if block.kind is not Kind.FENCE or block.stop - block.start < 2:
        return None
    return _FENCE_MARK.search(text, starts[block.start], starts[block.start + 1] - 1)


def _tear_fence(text: str, start: int, stop: int, opening: regex.Match[str]) -> Iterator[Stretch]:
    """Tear a fence at lines; each part gets an opening and a closing of its own."""
    mark = opening["mark"]
    last_line = text.rindex("\n", start, stop) + 1
    closed = last_line > opening.end() + 1 and text[last_line:stop].strip("> \t").startswith(mark)
    limit = (
        MAX_WEIGHT - weigh(opening[0]) - 2 * len(mark) - 4
    )  # both marks, newlines, a closing mark longer by two
    torn = list(_tear(text, opening.end() + 1, last_line if closed else stop, _CODE, limit))
    for index, (first, last) in enumerate(torn):
        is_first, is_last = index == 0, index == len(torn) - 1
        yield Stretch(
            start=start if is_first else first,
            stop=stop if is_last else last,
            before="" if is_first else opening[0] + "\n",
            after="" if is_last else "\n" + mark,
        )


def _tear(
    text: str, start: int, stop: int, places: Sequence[regex.Pattern[str]], limit: int
) -> Iterator[Range]:
    """Tear a stretch at the best places, filling each part up to the target.

    Args:
        text: The whole text.
        start: Where the stretch starts.
        stop: Where it ends.
        places: Where it may be torn, best first.
        limit: Most weight of a part.

    Yields:
        Start and stop of the parts, which touch.
    """
    if weigh(text[start:stop]) <= limit:
        yield start, stop
        return
    place, *worse = places
    ends = chain((match.end() for match in place.finditer(text, start, stop)), (stop,))
    begin, reached, held = start, start, 0
    for end in ends:
        weight = weigh(text[reached:end])
        if held and held + weight > TARGET_WEIGHT:
            yield begin, reached
            begin, held = reached, 0
        held += weight
        if held > limit:
            yield from _tear(text, begin, end, worse, limit)
            begin, held = end, 0
        reached = end
    if begin < stop:
        yield begin, stop
