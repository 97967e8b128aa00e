"""Sections: which heading is the title, and where one record of a file ends and the next begins."""

from __future__ import annotations

import datetime as dt

import pytest
import regex

from recall_worker.markdown import Body
from recall_worker.sections import Part, split_headings, split_items, whole_note

TODAY = dt.date(2026, 11, 30)


def headings(text: str) -> list[Part]:
    """Parts of a file split at headings."""
    return split_headings(Body.of(text), title="file", today=TODAY)


def list_items(text: str) -> list[Part]:
    """Parts of a file split at list items."""
    return split_items(Body.of(text), title="file", today=TODAY)


def brief(parts: list[Part]) -> list[tuple[str, str]]:
    """Anchor and first words of each part."""
    return [(part.anchor, " ".join(part.body.text.split())) for part in parts]


@pytest.mark.parametrize(
    ("text", "title", "left"),
    [
        ("# T\n\nwords", "T", "words"),
        ("\n\n# T #\nwords", "T", "words"),
        ("T\n===\nwords", "T", "words"),
        ("intro\n\n# T\n\nwords", "T", "intro words"),
        ("# A\n\nwords\n\n# B\n\nmore", "A", "words # B more"),
        ("intro\n\n# A\n\n# B", "file", "intro # A # B"),
        ("```sh\n# comment\n```", "file", "```sh # comment ```"),
        ("## Not\nwords", "file", "## Not words"),
        ("#hashtag words", "file", "#hashtag words"),
        ("", "file", ""),
    ],
)
def test_title_of_a_note(text: str, title: str, left: str) -> None:
    """The heading of level 1 that opens the note, or the only one, is its title and leaves the body."""
    part = whole_note(Body.of(text), title="file")
    assert part.headings[0][1] == title
    assert " ".join(part.body.text.split()) == left


def test_shallowest_repeated_level() -> None:
    """The file is split at the shallowest level that is repeated; deeper headings stay inside."""
    parts = headings("# T\n\n## A\na\n\n### deep\nb\n\n---\n\n## B\nc")
    assert brief(parts) == [("A", "a ### deep b"), ("B", "c")]
    assert [part.headings for part in parts] == [((0, "T"), (2, "A")), ((0, "T"), (2, "B"))]
    assert [part.heading_line for part in parts] == [3, 11]


def test_level_one_repeated() -> None:
    """A file of equal top headings is named by its name."""
    parts = headings("# A\na\n# B\nb")
    assert brief(parts) == [("A", "a"), ("B", "b")]
    assert parts[0].headings == ((0, "file"), (1, "A"))


@pytest.mark.parametrize(
    ("text", "next_heading"), [("# T\n## A\na", "## B"), ("## A\na", "## B"), ("# A\na", "# B")]
)
def test_a_file_just_begun(text: str, next_heading: str) -> None:
    """The only entry of a file has the anchor that it will keep when more come."""
    assert brief(headings(text)) == [("A", "a")]
    assert brief(headings(f"{text}\n\n{next_heading}\nb")) == [("A", "a"), ("B", "b")]


def test_words_outside_the_headings() -> None:
    """An introduction and words below a shallower heading are one part at the end, not part of a record."""
    parts = headings("# T\nintro\n\n### A\na\n\n## Big\nbetween\n\n### B\nb")
    assert brief(parts) == [("A", "a"), ("B", "b"), ("", "intro between")]
    assert [part.is_remainder for part in parts] == [False, False, True]
    assert parts[1].headings == ((0, "T"), (2, "Big"), (3, "B"))


def test_dates_in_headings() -> None:
    """A day in a heading is that of its record."""
    parts = headings("## 2026-11-02 A\na\n## B\nb")
    assert [part.date for part in parts] == [dt.date(2026, 11, 2), None]


def test_headings_in_code_split_nothing() -> None:
    """A comment in a shell script is no heading."""
    assert headings("```sh\n# a\n# b\n```") == []


def test_items() -> None:
    """Each item of a list at top level is a part, with all that is nested in it, dedented."""
    parts = list_items(
        "# T\n\n## S\n\n- one\n  more\n  - nested\n\n  ```sh\n  x\n  ```\n- [ ] two\n\n10. ten\n"
    )
    assert [part.body.text.rstrip() for part in parts] == [
        "one\nmore\n- nested\n\n```sh\nx\n```",
        "two",
        "ten",
    ]
    assert [part.body.numbers[0] for part in parts] == [5, 12, 14]
    assert parts[0].headings == ((0, "T"), (0, "S"))


def test_anchors_of_items() -> None:
    """An item is known by its block id, else by its first words, never by its place."""
    items = (
        "- 2026-11-02: Never drop a table by hand, ask for a second pair of eyes",
        "- other words ^ab-1",
        "- " + "ห้ามลบข้อมูล" * 20,
    )
    text = "\n".join(items)
    before = [part.anchor for part in list_items(text)]
    assert before[:2] == ["Never drop a table by hand, ask for", "^ab-1"]
    assert len(regex.findall(r"\X", before[2])) == 48
    assert [part.anchor for part in list_items(f"- new\n{text} and more")][1:] == before


def test_dates_of_items() -> None:
    """A date ahead of an item is that of its record and leaves its text."""
    (part,) = list_items("- 2026-11-02: one\n")
    assert (part.date, part.body.text) == (dt.date(2026, 11, 2), "one")


def test_words_outside_the_lists() -> None:
    """Sentences around lists are one part at the end; headings alone are none, and quoted lists are words."""
    parts = list_items("# T\nThese hold:\n\n- one\n- \n\n***\n\n## S\n\n> - quoted\n")
    assert brief(parts) == [("one", "one"), ("", "These hold: > - quoted")]


def test_no_list() -> None:
    """Without a list there is nothing to split."""
    assert list_items("# T\nwords") == []
