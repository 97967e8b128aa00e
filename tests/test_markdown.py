"""Markdown: blocks as ranges of lines, code as ranges of characters, lines that keep their numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.markdown import Block, Body, Kind, code_ranges, is_inside, parse_blocks

NOTE = """\
# Title #

Some *words* with `code` and ``co`de``.

- item
  more

  ```sh
  # no heading
  ```
- [x] two

> quote

| a | b |
|---|---|
| 1 | 2 |

    indented

Second ^block-1
------

```
open
"""

MARKUP = st.lists(
    st.sampled_from(
        [
            *(
                "# a\n",
                "## b\n",
                "text\n",
                "\n",
                "- i\n",
                "  - j\n",
                "1. k\n",
                "> q\n",
                ">\n",
                "```\n",
                "~~~py\n",
            ),
            *(
                "    code\n",
                "\tx\n",
                "|a|\n|-|\n",
                "***\n",
                "===\n",
                "---\n",
                "<div>\n",
                "[a]: b\n",
                "`",
                "``",
                "\\`",
            ),
        ]
    ),
    max_size=25,
).map("".join)


def test_kinds_and_lines() -> None:
    """Every kind of block is found, with its first line and the line after its last."""
    blocks = parse_blocks(Body.of(NOTE))
    assert [(block.kind, block.start, block.stop) for block in blocks] == [
        (Kind.HEADING, 0, 1),
        (Kind.PARAGRAPH, 2, 3),
        (Kind.LIST, 4, 11),
        (Kind.QUOTE, 12, 13),
        (Kind.TABLE, 14, 17),
        (Kind.INDENTED, 18, 19),
        (Kind.HEADING, 20, 22),
        (Kind.FENCE, 23, 25),
    ]
    assert [(item.kind, item.start, item.stop) for item in blocks[2].children] == [
        (Kind.ITEM, 4, 10),
        (Kind.ITEM, 10, 11),
    ]


def test_headings_without_their_marks() -> None:
    """A heading's text has no closing marks and no block id; its level is that of the page."""
    headings = [(block.level, block.heading) for block in parse_blocks(Body.of(NOTE)) if block.level]
    assert headings == [(1, "Title"), (2, "Second")]


def test_a_paragraph_above_a_rule_is_no_heading() -> None:
    """Long or wrapped words right above `---` stay a paragraph, whatever CommonMark makes of them."""
    for words in ("one line\nand another", "word " * 40):
        (block,) = parse_blocks(Body.of(f"{words}\n---\n"))
        assert (block.kind, block.level) == (Kind.PARAGRAPH, 0)


def test_code_is_found_where_it_is() -> None:
    """Fences, indented blocks and paired backticks are code; all else is not."""
    body = Body.of(NOTE)
    code = code_ranges(body, parse_blocks(body))
    inside = [body.text[start:stop] for start, stop in code]
    assert [text.split()[0] for text in inside] == ["`code`", "``co`de``", "```sh", "indented", "```"]
    assert is_inside(body.text.index("no heading"), code)
    assert not is_inside(body.text.index("words"), code)


def test_unpaired_and_escaped_backticks_are_words() -> None:
    """A backtick without a partner, or behind a backslash, opens nothing."""
    for text in ("a ` b", "a `` b ` c", "\\`a`", "one `\n\nanother ` paragraph"):
        body = Body.of(text)
        assert code_ranges(body, parse_blocks(body)) == []


def test_cutting_out_keeps_line_numbers() -> None:
    """What is left knows its line in the file, and paragraphs around a cut stay apart."""
    body = Body.of("one\n\nCUT a\nb CUT two\nthree CUT four\n\nCUT all CUT\n\nfive")
    text = body.text
    cuts = [(text.index("CUT"), text.index(" two"))]
    cuts += [(text.index("CUT four"), text.index(" four"))]
    cuts += [(text.index("CUT all"), text.index("\n\nfive"))]
    rest = body.without(cuts)
    assert rest.lines == ("one", "", " two", "three  four", "", "five")
    assert rest.numbers == (1, 2, 4, 5, 6, 9)


def test_cutting_everything_out() -> None:
    """A note may have nothing left."""
    body = Body.of("a\nb")
    assert body.without([(0, 3)]).text == ""
    assert body.without([(0, 3)]).first_number == 1


@settings(deadline=None)
@given(MARKUP)
def test_blocks_hold_every_line(text: str) -> None:
    """Top-level blocks are in order, do not overlap, and leave out blank lines only."""
    body = Body.of(text)
    blocks = parse_blocks(body)
    held = [index for block in blocks for index in range(block.start, block.stop)]
    assert held == sorted(set(held))
    assert all(index in held or not line.strip() for index, line in enumerate(body.lines))


@settings(deadline=None)
@given(MARKUP)
def test_children_lie_inside(text: str) -> None:
    """Blocks in a block lie within its lines, and code ranges are ascending and apart."""

    def check(block: Block) -> None:
        for child in block.children:
            assert block.start <= child.start < child.stop <= block.stop
            check(child)

    body = Body.of(text)
    blocks = parse_blocks(body)
    for block in blocks:
        check(block)
    assert all(a[0] < a[1] <= b[0] for a, b in pairwise([*code_ranges(body, blocks), (10**9, 10**9)]))
