"""Passages: parts of a record small enough to be searched, encoded and shown on their own.

Flow:  vault → notes → [passages] → records → ledger → indexes
In:    the lines of a record and its blocks.   Out: passages that together hold every word of it.
Never: a torn code fence, word or grapheme cluster where a better place is near; a heading's words lost.
Next:  worker/recall_worker/ledger.py
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from recall_worker.markdown import Block, Body, Kind, Range, parse_blocks
from recall_worker.records import PassageDraft
from recall_worker.tear import MAX_WEIGHT, SMALL_WEIGHT, TARGET_WEIGHT, Stretch, tear_block, weigh
from recall_worker.text import tidy

TITLE_SEPARATOR: Final = " › "

_GAP_WEIGHT: Final = 2  # what joins two pieces

Heading = tuple[int, str]
"""Level and text; level 0 for what no heading in the note can end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A stretch of the record that is never torn.

    Attributes:
        stretch: Where it stands, trimmed of blank lines.
        path: Headings it stands under; a heading counts itself.
        is_heading: True for a heading's own line.
        weight: Of its text and what joins it to the next.
    """

    stretch: Stretch
    path: tuple[Heading, ...]
    is_heading: bool
    weight: int


_Chunk = list[_Piece]


def split_passages(body: Body, *, headings: tuple[Heading, ...]) -> tuple[PassageDraft, ...]:
    """Split a record at its headings and paragraphs.

    A passage aims at 700 of weight and has at most 1,200, heading path not counted. It is as long as one
    section where that fits; sections too small to stand alone join their neighbours, with their headings
    in the text. A fence goes whole unless it alone is too long: then at lines, each part fenced again.

    Args:
        body: The record's lines, without the heading that is its title.
        headings: What stands above it, outermost first.

    Returns:
        At least one passage if the body has a word.
    """
    text, starts = body.text, body.starts
    chunks = _chunks(body, text, starts, headings)
    drafts = filter(None, (_draft(body, text, starts, chunk) for chunk in chunks))
    return tuple(replace(draft, ordinal=ordinal) for ordinal, draft in enumerate(drafts))


def passage_lines(body: Body, *, headings: tuple[Heading, ...]) -> tuple[Range, ...]:
    """Where `split_passages` would cut.

    Args:
        body: The record's lines, without the heading that is its title.
        headings: What stands above it, outermost first.

    Returns:
        For each passage the indexes of its first line and the one after its last. Two passages share a line
        that is torn between them.
    """
    text, starts = body.text, body.starts
    return tuple(
        (
            bisect_right(starts, chunk[0].stretch.start) - 1,
            bisect_right(starts, max(chunk[-1].stretch.stop - 1, 0)),
        )
        for chunk in _chunks(body, text, starts, headings)
    )


def _chunks(body: Body, text: str, starts: list[int], headings: tuple[Heading, ...]) -> list[_Chunk]:
    if weigh(text) <= TARGET_WEIGHT:
        whole = Stretch(start=len(text) - len(text.lstrip()), stop=len(text))
        return [[_Piece(stretch=whole, path=headings, is_heading=False, weight=0)]]
    sections = _sections(_pieces(text, starts, parse_blocks(body), headings))
    return _merge_small(list(chain.from_iterable(map(_pack, sections))))


def _pieces(
    text: str, starts: Sequence[int], blocks: Sequence[Block], headings: tuple[Heading, ...]
) -> Iterator[_Piece]:
    """Every block as one piece, or as several if it is too long."""
    path = headings
    for block in blocks:
        is_heading = block.kind is Kind.HEADING
        if is_heading:
            path = (*(above for above in path if above[0] < block.level), (block.level, block.heading))
        for stretch in tear_block(text, starts, block):
            words = text[stretch.start : stretch.stop].rstrip()
            start, stop = stretch.start + len(words) - len(words.lstrip("\n")), stretch.start + len(words)
            if start < stop:
                weight = weigh(stretch.before + text[start:stop] + stretch.after) + _GAP_WEIGHT
                trimmed = replace(stretch, start=start, stop=stop)
                yield _Piece(stretch=trimmed, path=path, is_heading=is_heading, weight=weight)


# --- pack: pieces into passages ------------------------------------------------------------------


def _sections(pieces: Iterable[_Piece]) -> Iterator[_Chunk]:
    """Headings, each below the one before, and what follows up to the next heading."""
    section: _Chunk = []
    for piece in pieces:
        goes_deeper = section and section[-1].is_heading and piece.path[:-1] == section[-1].path
        if piece.is_heading and section and not goes_deeper:
            yield section
            section = []
        section.append(piece)
    if section:
        yield section


def _pack(section: _Chunk) -> list[_Chunk]:
    """Fill passages with the pieces of one section; what would be left small joins the passage before."""
    chunks: list[_Chunk] = [[]]
    for piece in section:
        held, weight = _words_weight(chunks[-1]), _words_weight([piece])
        room = MAX_WEIGHT if held < SMALL_WEIGHT else TARGET_WEIGHT
        if held and held + weight > room:
            chunks.append([])
        chunks[-1].append(piece)
    *_, before, tail = ([], *chunks)
    if before and _words_weight(tail) < SMALL_WEIGHT and _words_weight(before + tail) <= MAX_WEIGHT:
        chunks[-2:] = [before + tail]
    return chunks


def _merge_small(chunks: list[_Chunk]) -> list[_Chunk]:
    """Join a small passage with its neighbour of another section, as long as both fit the target."""
    merged: list[_Chunk] = []
    for chunk in chunks:
        weights = [_words_weight(part) for part in (*merged[-1:], chunk)]
        headings = sum(piece.weight for piece in chain(*merged[-1:], chunk) if piece.is_heading)
        fits = min(weights) < SMALL_WEIGHT and sum(weights) + headings <= TARGET_WEIGHT
        if merged and fits and merged[-1][0].path[:1] == chunk[0].path[:1]:  # never across two titles
            merged[-1] = merged[-1] + chunk
        else:
            merged.append(chunk)
    return merged


def _words_weight(chunk: _Chunk) -> int:
    """Weight of a passage but for its headings."""
    return sum(piece.weight for piece in chunk if not piece.is_heading)


# --- draft: pieces into text ---------------------------------------------------------------------


def _draft(body: Body, text: str, starts: list[int], chunk: _Chunk) -> PassageDraft | None:
    """A passage under the headings that all of its pieces share; the other headings stay in its text."""
    path = _shared_path(chunk)
    shown = [p.stretch for p in chunk if not (p.is_heading and path[: len(p.path)] == p.path)]
    parts: list[str] = []
    reached = shown[0].start
    for stretch in shown:
        joint = _joint(text[reached : stretch.start]) if parts else ""
        parts += [joint, stretch.before, text[stretch.start : stretch.stop], stretch.after]
        reached = stretch.stop
    words = tidy("".join(parts))
    if not words:
        return None
    line = body.numbers[bisect_right(starts, shown[0].start) - 1]
    return PassageDraft(
        ordinal=0, title_path=TITLE_SEPARATOR.join(heading for _, heading in path), text=words, line=line
    )


def _joint(gap: str) -> str:
    """What stands between two pieces: a blank line, a newline, a space or nothing."""
    return "\n\n" if gap.strip() or gap.count("\n") > 1 else "\n" if "\n" in gap else " " if gap else ""


def _shared_path(chunk: _Chunk) -> tuple[Heading, ...]:
    """The longest path above every piece; a heading that stands above none of them counts its own parent."""
    paths = [piece.path for piece in chunk if not piece.is_heading]
    for piece in chunk:
        if piece.is_heading and not any(path[: len(piece.path)] == piece.path for path in paths):
            paths.append(piece.path[:-1])
    first, *others = paths
    length = len(first)
    while any(path[:length] != first[:length] for path in others):
        length -= 1
    return first[:length]
