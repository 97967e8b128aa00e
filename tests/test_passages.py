"""Passages: short enough, whole at their edges, under their headings, and not a word lost."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.markdown import Body
from recall_worker.passages import split_passages
from recall_worker.records import PassageDraft
from recall_worker.tear import MAX_WEIGHT, TARGET_WEIGHT, weigh
from recall_worker.text import tidy, units

TITLE = ((0, "T"),)

SENTENCE = "The quick brown fox jumps over the lazy dog and is gone. "
THAI = "ห้ามสั่งลบข้อมูลบนฐานข้อมูลจริงโดยไม่มีใครดูด้วย "
JAPANESE = "本番のデータベースでは必ず誰かと一緒に作業する。"

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["# a\n", "## b\n", "### c\n", "## b\n", "text\n", "\n", "- i\n", "  - j\n", "> q\n", ">\n"]
        ),
        st.sampled_from(
            ["```\n", "~~~py\n", "    code\n", "|a|b|\n|-|-|\n", "|x|y|\n", "***\n", "===\n", "<div>\n"]
        ),
        st.sampled_from([SENTENCE, SENTENCE * 8, SENTENCE * 30, THAI, THAI * 20, JAPANESE, JAPANESE * 40]),
        st.sampled_from(
            ["x" * 1_500, "ก็" * 900, "👨‍👩‍👧" * 200, "line\n" * 300, "e\u0301" * 700, "- k\n" * 300]
        ),
    ),
    max_size=20,
).map(lambda pieces: tidy("".join(pieces)))


def split(text: str) -> tuple[PassageDraft, ...]:
    """Passages of a note called T."""
    return split_passages(Body.of(text), headings=TITLE)


def words(text: str) -> Counter[str]:
    """Letters and digits, counted; punctuation and marks of Markdown do not count."""
    return Counter(re.findall(r"\w", text))


def test_a_short_note_is_one_passage() -> None:
    """What fits the target stays whole, its headings in its text."""
    text = "intro\n\n## A\n\n```sh\n# x\n```\n\n- i\n- j"
    (passage,) = split(f"\n\n{text}\n\n")
    assert passage == PassageDraft(ordinal=0, title_path="T", text=text, line=3)


def test_sections_become_passages() -> None:
    """Sections long enough stand alone below their path, which their text does not repeat."""
    text = f"{SENTENCE * 5}\n\n## A\n\n{SENTENCE * 6}\n\n### B\n\n{SENTENCE * 7}\n\n## C\n\n{SENTENCE * 8}"
    found = split(text)
    assert [passage.title_path for passage in found] == ["T", "T › A", "T › A › B", "T › C"]
    assert [passage.line for passage in found] == [1, 5, 9, 13]
    assert [passage.text for passage in found] == [(SENTENCE * n).strip() for n in (5, 6, 7, 8)]
    assert [passage.ordinal for passage in found] == [0, 1, 2, 3]


def test_small_sections_join_with_their_headings() -> None:
    """Sections too small to stand alone share a passage under what stands above them all."""
    long = f"## C\n\n{SENTENCE * 13}"
    first, second, last = split(
        f"## A\n\none\n\n## B\n\ntwo\n\n{long}\n\n## D\n\n### E\n\nthree\n\n### F\n\nfour"
    )
    assert (first.title_path, first.text) == ("T", "## A\n\none\n\n## B\n\ntwo")
    assert second.title_path == "T › C"
    assert (last.title_path, last.text) == ("T › D", "### E\n\nthree\n\n### F\n\nfour")


def test_a_heading_with_nothing_below_it_is_not_lost() -> None:
    """A last heading without words stands in the text of a passage."""
    found = split(f"{SENTENCE * 13}\n\n## Later")
    assert found[-1].text.endswith("## Later")


def test_another_title_stands_beside_the_first() -> None:
    """Below a second heading of level 1 the first is no part of the path, nor do the two share a passage."""
    found = split_passages(Body.of(f"{SENTENCE * 13}\n\nshort\n\n# B\n\nshort"), headings=((1, "A"),))
    assert [passage.title_path for passage in found] == ["A", "B"]


def test_a_fence_goes_whole() -> None:
    """A fence that fits is never torn, even where the target would tear it."""
    fence = "```py\n" + "x = 1\n\n" * 140 + "```"
    assert TARGET_WEIGHT < weigh(fence) < MAX_WEIGHT
    found = split(f"{SENTENCE * 8}\n\n{fence}\n\n{SENTENCE * 8}")
    assert fence in [passage.text for passage in found]


@pytest.mark.parametrize(
    ("opening", "closing"), [("```py", "```"), ("~~~", "~~~~"), ("````sh title", "````")]
)
def test_an_over_long_fence_is_torn_at_lines(opening: str, closing: str) -> None:
    """Each part is a fence of its own with whole lines, the language kept."""
    lines = [f"call({number})" for number in range(400)]
    found = split("\n".join([opening, *lines, closing]))
    mark = re.match(r"`+|~+", opening)
    assert mark is not None
    inner = []
    for passage in found:
        first, *middle, last = passage.text.split("\n")
        assert (first, last) in [(opening, mark[0]), (opening, closing)]
        inner += middle
    assert len(found) > 1
    assert inner == lines


@pytest.mark.parametrize("opening", ["```" + "x" * 2_000, "`" * 1_500, "~~~"])
def test_fences_that_cannot_be_fenced_again(opening: str) -> None:
    """An opening too long to repeat, or a fence that is never closed, still gives short passages."""
    found = split(opening + "\n" + "line\n" * 400)
    assert all(units(passage.text) <= MAX_WEIGHT for passage in found)


@pytest.mark.parametrize("sentence", [SENTENCE, THAI, JAPANESE], ids=["en", "th", "ja"])
def test_an_over_long_paragraph_is_torn_at_sentences(sentence: str) -> None:
    """Parts of a paragraph are whole sentences, whatever the script marks them with."""
    found = split(sentence * 60)
    assert len(found) > 1
    assert all(
        regex.fullmatch(rf"(?:{regex.escape(sentence.strip())}\s*)+", passage.text) for passage in found
    )


def test_abbreviations_and_wrapped_lines() -> None:
    """Without a better place a text is torn at spaces, and after them alone."""
    found = split("e.g. this and i.e. that, " * 80)
    assert all(passage.text.split()[0] in ("e.g.", "this", "and", "i.e.", "that,") for passage in found)


@pytest.mark.parametrize("cluster", ["กำ", "\u1ec7\u0331", "👨‍👩‍👧‍👦", "क्षि"])
def test_clusters_are_never_torn(cluster: str) -> None:
    """A text without spaces is torn between grapheme clusters."""
    found = split(cluster * 700)
    assert len(found) > 1
    assert all(passage.text.replace(cluster, "") == "" for passage in found)


def test_a_monstrous_cluster() -> None:
    """One letter under a thousand accents is torn nevertheless: a passage has a limit."""
    found = split("a" + "\u0301" * 3_000)
    assert all(units(passage.text) <= MAX_WEIGHT for passage in found)


def test_long_lists_and_tables_are_torn_at_items_and_rows() -> None:
    """No item and no row is torn that is short enough."""
    items = split("\n".join(f"- item {n} {'word ' * 12}" for n in range(60)))
    assert all(line.startswith("- item") for passage in items for line in passage.text.split("\n"))
    rows = split("| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {'word ' * 12} |" for n in range(60)))
    assert all(line.startswith("|") and line.endswith("|") for p in rows for line in p.text.split("\n"))


def test_weight() -> None:
    """Weight counts UTF-16 units, and letters of Chinese, Japanese and Korean twice."""
    texts = ("abc", "äé", "👍", "ไทย", "日本", "한국", "a日")
    assert [weigh(text) for text in texts] == [3, 2, 2, 3, 4, 4, 3]


@settings(deadline=None, max_examples=100)
@given(PIECES)
def test_no_word_is_lost_and_no_passage_too_long(text: str) -> None:
    """Passages and their paths hold every word; each is tidy, within the limit, and knows its line."""
    body = Body.of(text)
    found = split_passages(body, headings=TITLE)
    held = words(" ".join(f"{passage.title_path} {passage.text}" for passage in found))
    assert not words(text) - held - Counter("abc")  # headings of one name share a path
    assert [passage.ordinal for passage in found] == list(range(len(found)))
    assert [passage.line for passage in found] == sorted(passage.line for passage in found)
    for passage in found:
        assert passage.text == tidy(passage.text) != ""
        assert units(passage.text) <= MAX_WEIGHT
        assert passage.title_path.startswith(("T", "a"))
        first_word = regex.search(r"\w+", passage.text.removeprefix("```").removeprefix("~~~py"))
        assert first_word is None or first_word[0][:1] in "\n".join(body.lines[passage.line - 1 :])
