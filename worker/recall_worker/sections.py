"""Sections: the title of a note, and the parts of one that holds several records.

Flow:  vault → notes → [sections] → passages → records → ledger
In:    the lines of a note below its front matter.   Out: parts, each with the headings above it.
Never: words lost. What stands outside the parts comes last, as a part of its own.
Next:  worker/recall_worker/notes.py
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from recall_worker.dates import date_in_heading, split_leading_date
from recall_worker.markdown import Block, Body, Kind, parse_blocks
from recall_worker.passages import Heading
from recall_worker.text import one_line

_MAY_BE_TITLE: Final = re.compile(r"^ {0,3}(?:#\s|=+\s*$)", re.MULTILINE)
_MARKER: Final = re.compile(r"\s*(?:[-+*]|\d{1,9}[.)])(?:\s+|$)")
_CHECKBOX: Final = re.compile(r"\[[^\[\]]\]\s+")
_BLOCK_ID: Final = re.compile(r"(?:^|\s)(\^[\w-]+)\s*$", re.MULTILINE)
_FIRST_WORDS: Final = regex.compile(r"(?:\S++\s?+){1,8}")
_FIRST_CLUSTERS: Final = regex.compile(r"\X{1,48}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What becomes one record.

    Attributes:
        body: Its lines, without its own heading.
        headings: What stands above its words, outermost first; its own heading is the last.
        anchor: Tells it from the other parts of the file; empty for a whole file.
        heading: Its own heading as the note has it; empty if it has none.
        heading_line: 1-based line of the file where that stands.
        date: The day stated for this part alone.
        is_remainder: True for what stands outside the parts: an introduction, words between lists.
    """

    body: Body
    headings: tuple[Heading, ...]
    anchor: str = ""
    heading: str = ""
    heading_line: int = 1
    date: dt.date | None = None
    is_remainder: bool = False


def whole_note(body: Body, *, title: str) -> Part:
    """A note that is one record.

    Its title is the first heading of level 1 if that opens the note or is the only one; its line is left
    out of the body.

    Args:
        body: The lines below the front matter.
        title: What to call a note without such a heading.

    Returns:
        The part.
    """
    opening = next((index for index, line in enumerate(body.lines) if line.strip()), 0)
    first_line = parse_blocks(body.part(opening, opening + 1))
    if first_line and first_line[0].level == 1:  # the usual case, without parsing the note twice
        block, rest = first_line[0], body.part(opening + 1)
        return _titled(rest, block.heading, body.numbers[opening])
    blocks = parse_blocks(body) if _MAY_BE_TITLE.search(body.text) else ()
    titles = [block for block in blocks if block.level == 1]
    if titles and (len(titles) == 1 or blocks[0] is titles[0]):
        block = titles[0]
        return _titled(body.blanked(block.start, block.stop), block.heading, body.numbers[block.start])
    return Part(body=body, headings=((0, title),))


def _titled(rest: Body, heading: str, line: int) -> Part:
    """A note below its heading of level 1: another one further down stands beside it, not under it."""
    return Part(body=rest, headings=((1, heading),), heading=heading, heading_line=line)


def split_headings(body: Body, *, title: str, today: dt.date) -> list[Part]:
    """One part for each heading of the shallowest level that is repeated.

    Where no level is, as in a file that was just begun, it is the shallowest below a single heading of
    level 1, so that the first record keeps its key when a second one comes.

    Args:
        body: The lines below the front matter.
        title: What to call a file without a single heading of level 1.
        today: The last day that a date in a heading can mean.

    Returns:
        The parts in order, then what stands outside them; empty if there is no heading.
    """
    blocks = parse_blocks(body)
    counts = Counter(block.level for block in blocks if block.level)
    if not counts:
        return []
    repeated = [level for level, count in counts.items() if count > 1]
    level = min(repeated or [other for other in counts if other > 1] or counts)
    path: tuple[Heading, ...] = ((0, title),)
    outside: list[Block] = []
    parts: list[Part] = []
    index = 0
    while index < len(blocks):
        block = blocks[index]
        index += 1
        if not block.level or block.level > level:
            outside.append(block)
            continue
        path = _step(path, block, is_title=block.level == 1 and counts[1] == 1 and level > 1)
        if block.level == level:
            start = index
            while index < len(blocks) and not 0 < blocks[index].level <= level:
                index += 1
            parts.append(_section(body, blocks[start:index], block, path, today))
    return parts + _remainder(body, outside, path[:1])


def _step(path: tuple[Heading, ...], block: Block, *, is_title: bool) -> tuple[Heading, ...]:
    """The path below one more heading."""
    if is_title:
        return ((0, block.heading),)
    return (*(above for above in path if above[0] < block.level), (block.level, block.heading))


def _section(
    body: Body, blocks: Sequence[Block], block: Block, path: tuple[Heading, ...], today: dt.date
) -> Part:
    """A heading and the blocks below it; rules that part it from the next one belong to neither."""
    held = list(blocks)
    while held and held[-1].kind is Kind.RULE:
        held.pop()
    return Part(
        body=body.part(held[0].start, held[-1].stop) if held else body.part(0, 0),
        headings=path,
        anchor=block.heading,
        heading=block.heading,
        heading_line=body.numbers[block.start],
        date=date_in_heading(block.heading, today=today),
    )


def split_items(body: Body, *, title: str, today: dt.date) -> list[Part]:
    """One part for each item of the lists that stand in no other block.

    An item's anchor is its Obsidian block id, else its first words, so that a new item above it changes
    nothing. A date that it starts with is its own.

    Args:
        body: The lines below the front matter.
        title: What to call a file without a heading of level 1.
        today: The last day that can be meant.

    Returns:
        The parts in order, then what stands outside the lists; empty if there is no list.
    """
    note = whole_note(body, title=title)
    path: tuple[Heading, ...] = ((0, note.headings[0][1]),)
    outside: list[Block] = []
    parts: list[Part] = []
    for block in parse_blocks(note.body):
        if block.level:
            path = _step(path, block, is_title=False)
        elif block.kind is Kind.LIST:
            parts += _items(note.body, block, tuple((0, text) for _, text in path), today)
        else:
            outside.append(block)
    return parts + _remainder(note.body, outside, path[:1]) if parts else []


def _items(body: Body, block: Block, path: tuple[Heading, ...], today: dt.date) -> Iterator[Part]:
    """The items of one list that have words."""
    for item in block.children:
        first, *more = body.lines[item.start : item.stop]
        width = match.end() if (match := _MARKER.match(first)) else 0
        date, first = split_leading_date(_CHECKBOX.sub("", first[width:], count=1), today=today)
        dedented = [line[width:] if not line[:width].strip() else line.lstrip() for line in more]
        lines = Body(lines=(first, *dedented), numbers=body.numbers[item.start : item.stop])
        if lines.text.strip():
            yield Part(body=lines, headings=path, anchor=_item_anchor(lines.text), date=date)


def _item_anchor(text: str) -> str:
    if block_id := _BLOCK_ID.search(text):
        return block_id[1]
    words = _FIRST_WORDS.match(one_line(text.partition("\n")[0]))
    clusters = _FIRST_CLUSTERS.match(words[0]) if words else None
    return clusters[0].strip() if clusters else ""


def _remainder(body: Body, blocks: Sequence[Block], path: tuple[Heading, ...]) -> list[Part]:
    """What stands outside the parts, as long as it has words of its own."""
    lines: list[str] = []
    numbers: list[int] = []
    for block in blocks:
        if block.kind is not Kind.RULE:
            lines += [*body.lines[block.start : block.stop], ""]
            numbers += [*body.numbers[block.start : block.stop], body.numbers[block.stop - 1]]
    rest = Body(lines=tuple(lines), numbers=tuple(numbers))
    return [Part(body=rest, headings=path, is_remainder=True)] if rest.text.strip() else []
