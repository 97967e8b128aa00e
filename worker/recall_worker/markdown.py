"""Markdown: the block structure of a note, and for every line of it the line of the file.

Flow:  vault → [markdown] → passages, notes → records → ledger
In:    a note's text.   Out: a tree of blocks as ranges of lines, so that a part of a note is always a slice.
Never: rendering; a text that differs from what the person wrote.
Next:  worker/recall_worker/withheld.py, passages.py
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from recall_worker.text import one_line, units

Range = tuple[int, int]
"""Start and stop, half open: offsets of characters or indexes of lines."""

# A longer "heading" is a paragraph with `---` right below it, or a sentence that somebody made big.
_HEADING_UNITS: Final = 120

# Inline rules and reference definitions are off: we want ranges of lines, and every line in some block.
_PARSER: Final = MarkdownIt("commonmark").enable("table").disable("reference")
_PARSER.core.ruler.enableOnly(["normalize", "block"])

_BLOCK_ID: Final = re.compile(r"\s\^[\w-]+$")
_TICKS: Final = re.compile(r"`+")
_HIDDEN: Final = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Lines of a note that know where in the file they stand; never a NUL among their characters.

    Attributes:
        lines: Without their newlines.
        numbers: 1-based line of the file for each of `lines`.
    """

    lines: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Body:
        """A whole file; only `\\n` ends a line."""
        lines = tuple(text.split("\n"))
        return cls(lines=lines, numbers=tuple(range(1, len(lines) + 1)))

    @property
    def text(self) -> str:
        """The lines, joined."""
        return "\n".join(self.lines)

    @property
    def starts(self) -> list[int]:
        """Offset in `text` of each line, and last that of the line which would come next."""
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    @property
    def first_number(self) -> int:
        """Line of the file where the first word stands, 1 if there is none."""
        return next((n for line, n in zip(self.lines, self.numbers, strict=True) if line.strip()), 1)

    def part(self, start: int, stop: int | None = None) -> Body:
        """Some of the lines, by index."""
        return Body(lines=self.lines[start:stop], numbers=self.numbers[start:stop])

    def blanked(self, start: int, stop: int) -> Body:
        """Some lines emptied, by index."""
        blank = ("",) * (stop - start)
        return Body(lines=self.lines[:start] + blank + self.lines[stop:], numbers=self.numbers)

    def without(self, ranges: Sequence[Range]) -> Body:
        """Cut ranges of characters out; what stood before and after one closes up on one line.

        Args:
            ranges: Offsets in `text`, ascending, not overlapping.

        Returns:
            The rest. Lines that have nothing left become one blank line with the blank lines around them,
            so that the paragraphs on both sides do not run together.
        """
        if not ranges:
            return self
        lines: list[str] = []
        numbers: list[int] = []
        starts, offset, closing_up = self.starts, 0, False
        for piece in _hide(self.text, ranges).split("\n"):
            line = piece.replace(_HIDDEN, "")
            closing_up = not line.strip() and (closing_up or line != piece)
            if not closing_up or (lines and lines[-1].strip()):
                first_kept = offset + len(piece) - len(piece.lstrip(_HIDDEN))
                lines.append("" if closing_up else line)
                numbers.append(self.numbers[bisect_right(starts, first_kept, hi=len(self.lines)) - 1])
            offset += len(piece) + 1
        return Body(lines=tuple(lines), numbers=tuple(numbers))


def _hide(text: str, ranges: Sequence[Range]) -> str:
    """The text with every character of the ranges, newlines too, replaced by a NUL."""
    kept, position = [], 0
    for start, stop in ranges:
        kept += [text[position:start], _HIDDEN * (stop - start)]
        position = stop
    return "".join([*kept, text[position:]])


class Kind(StrEnum):
    """What a block is; what is none of these is a paragraph."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    FENCE = "fence"
    INDENTED = "code_block"
    LIST = "list"
    ITEM = "list_item"
    QUOTE = "blockquote"
    TABLE = "table"
    HTML = "html_block"
    RULE = "hr"


_KINDS: Final = {kind.value: kind for kind in Kind} | {"bullet_list": Kind.LIST, "ordered_list": Kind.LIST}
_CONTAINERS: Final = (Kind.LIST, Kind.ITEM, Kind.QUOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a note.

    Attributes:
        kind: What it is.
        start: Index of its first line.
        stop: Index after its last line that is not blank.
        level: 1 to 6 for a heading, else 0.
        heading: A heading's text on one line without its marks and block id, else empty.
        children: Blocks inside a list, list item or quote, in order.
    """

    kind: Kind
    start: int
    stop: int
    level: int = 0
    heading: str = ""
    children: tuple[Block, ...] = ()


def parse_blocks(body: Body) -> tuple[Block, ...]:
    """Find the blocks of a note.

    Args:
        body: Any lines.

    Returns:
        Top-level blocks in order; together they hold every line that is not blank. A heading longer than
        120 units counts as a paragraph.

    Source: CommonMark 0.31 with GitHub's tables, as markdown-it-py reads them.
    """
    return tuple(_read_blocks(iter(_PARSER.parse(body.text)), body))


def _read_blocks(tokens: Iterator[Token], body: Body) -> Iterator[Block]:
    """Blocks up to the token that closes the container they stand in."""
    for token in tokens:
        if token.nesting < 0:
            return
        kind = _KINDS.get(token.type.removesuffix("_open"), Kind.PARAGRAPH)
        children: tuple[Block, ...] = ()
        content = ""
        if kind in _CONTAINERS:
            children = tuple(_read_blocks(tokens, body))
        elif token.nesting > 0:
            content = _skip_to_close(tokens)
        if token.map is not None:
            yield _block(kind, token, content, children, body)


def _skip_to_close(tokens: Iterator[Token]) -> str:
    """Leave a block without looking at its inside; its inline text is what comes back."""
    depth, content = 1, ""
    while depth and (token := next(tokens, None)):
        depth += token.nesting
        content += token.content
    return content


def _block(kind: Kind, token: Token, content: str, children: tuple[Block, ...], body: Body) -> Block:
    start, stop = token.map or (0, 0)
    while stop > start + 1 and not body.lines[stop - 1].strip():
        stop -= 1
    if kind is not Kind.HEADING:
        return Block(kind=kind, start=start, stop=stop, children=children)
    heading = _BLOCK_ID.sub("", one_line(content))
    if "\n" in content or not heading or units(heading) > _HEADING_UNITS:
        return Block(kind=Kind.PARAGRAPH, start=start, stop=stop)
    return Block(kind=kind, start=start, stop=stop, level=int(token.tag[1:]), heading=heading)


def code_ranges(body: Body, blocks: Sequence[Block]) -> list[Range]:
    """Where a note is code rather than words: fenced and indented blocks and code spans.

    Args:
        body: The lines that the blocks were found in.
        blocks: Its blocks.

    Returns:
        Offsets in `body.text`, ascending, not overlapping.
    """
    text, starts = body.text, body.starts
    found: list[Range] = []
    for block in leaves(blocks):
        start, stop = starts[block.start], starts[block.stop] - 1
        if block.kind in (Kind.FENCE, Kind.INDENTED):
            found.append((start, stop))
        elif block.kind is not Kind.HTML:
            found += _code_spans(text, start, stop)
    return found


def leaves(blocks: Sequence[Block]) -> Iterator[Block]:
    """Blocks without children, in order."""
    for block in blocks:
        if block.children:
            yield from leaves(block.children)
        else:
            yield block


def _code_spans(text: str, start: int, stop: int) -> list[Range]:
    """Pairs of backtick runs of one length; an unpaired or escaped run is plain text."""
    runs = [match.span() for match in _TICKS.finditer(text, start, stop)]
    later: dict[int, int] = {}
    closers = [0] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closers[index] = later.get(length, 0)
        later[length] = index
    spans: list[Range] = []
    index = 0
    while index < len(runs):
        opener = runs[index][0]
        if closers[index] and not (opener and text[opener - 1] == "\\"):
            spans.append((opener, runs[closers[index]][1]))
            index = closers[index]
        index += 1
    return spans


def is_inside(offset: int, ranges: Sequence[Range]) -> bool:
    """Whether an offset lies in one of some ascending ranges."""
    index = bisect_right(ranges, offset, key=lambda span: span[0]) - 1
    return index >= 0 and offset < ranges[index][1]
