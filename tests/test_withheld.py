"""Withheld: private parts never pass, comments do not either, code keeps what looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.markdown import Body
from recall_worker.withheld import Withheld, drop_comments, withhold_private


def private(text: str) -> Withheld:
    """Some lines without their private parts."""
    return withhold_private("a.md", Body.of(text))


def shown(text: str) -> str:
    """Some lines without their comments."""
    return drop_comments("a.md", Body.of(text)).body.text


@pytest.mark.parametrize(
    "text",
    [
        "a <private>SECRET</private> z",
        "a <PRIVATE>SECRET</Private> z",
        "a <private >SECRET</private > z",
        "a < private >SECRET< / private > z",
        'a <private reason="pay">SECRET</private> z',
        "a ＜private＞SECRET＜／private＞ z",
        "a <private>\n\nSECRET\n\n</private> z",
        "a <private>SECRET<private>SECRET</private>SECRET</private> z",
        "a <private>SECRET</private><private>SECRET</private> z",
        "a `<private>SECRET</private>` z",
        "a\n```\n<private>SECRET</private>\n```\nz",
        "a <!-- <private>SECRET</private> --> z",
    ],
)
def test_private_parts_go(text: str) -> None:
    """However the tags are written, nest or stand in code, only what is outside them is left."""
    result = private(text)
    assert "SECRET" not in result.body.text
    assert (result.body.text[0], result.body.text[-1]) == ("a", "z")
    assert not result.problems


@pytest.mark.parametrize(
    ("text", "left", "line", "is_open"),
    [
        ("a\nb <private>SECRET\nSECRET", "a\nb ", 2, True),
        ("a <private>SECRET <private>SECRET</private> SECRET", "a ", 1, True),
        ("SECRET\nSECRET</private> z", " z", 2, False),
        ("SECRET <private\nSECRET\n</private>\nz", "z", 3, False),
        ("SECRET <private>SECRET</private> SECRET </private>z", "z", 1, False),
    ],
)
def test_a_tag_without_its_partner_shows_less(text: str, left: str, line: int, is_open: bool) -> None:
    """A doubt about where a private part starts or ends is settled by leaving more out, and told."""
    result = private(text)
    assert (result.body.text.lstrip("\n"), result.is_open) == (left, is_open)
    assert [(problem.line, problem.fatal) for problem in result.problems] == [(line, False)]
    assert "SECRET" not in result.problems[0].message


@pytest.mark.parametrize(
    "text",
    [
        "ssh -i <private key> host",
        "<private-key>",
        "<private_key>",
        "<privately>",
        "private</b>",
        "&lt;private>",
    ],
)
def test_what_is_no_private_tag(text: str) -> None:
    """Gaps to fill in and other names are ordinary words."""
    assert private(text) == Withheld(body=Body.of(text))


@given(st.lists(st.sampled_from(["<private>", "</private>", "s", "\n", "`", "```\n", "<!--"]), max_size=20))
def test_nothing_inside_or_beside_a_stray_tag_passes(pieces: list[str]) -> None:
    """A letter is left only if it stands at depth 0 and no later tag is without an opener."""
    depth, kept = 0, []
    for piece in pieces:
        if piece == "<private>":
            depth += 1
        elif piece == "</private>" and depth == 0:
            kept.clear()
        elif piece == "</private>":
            depth -= 1
        elif depth == 0 and piece == "s":
            kept.append(piece)
    assert private("".join(pieces)).body.text.count("s") == len(kept)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <!-- HIDDEN --> z", "a  z"),
        ("a %%HIDDEN%% z", "a  z"),
        ("a\n\n%%\nHIDDEN\n\nHIDDEN\n%%\n\nz", "a\n\nz"),
        ("a\n<!--\nHIDDEN\n-->\nz", "a\n\nz"),
        ("a <!--> z", "a  z"),
        ("a %%HIDDEN `%%` HIDDEN%% z", "a  z"),
        ("a\n%%\n```\nHIDDEN\n```\n%%\nz", "a\n\nz"),
    ],
)
def test_comments_go(text: str, left: str) -> None:
    """Comments of HTML and Obsidian are left out, over lines and blocks."""
    assert shown(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "a `<!-- kept -->` z",
        "```html\n<!-- kept -->\n```",
        "~~~matlab\n%% kept %%\n~~~",
        "- x\n\n  ```mermaid\n  %% kept\n  a --> b %%\n  ```",
        "    <!-- kept -->",
        "100 %% sure",
        "open with <!-- and",
        "plain",
    ],
)
def test_what_is_no_comment(text: str) -> None:
    """Code and openers without a partner inside a line stay."""
    assert drop_comments("a.md", Body.of(text)) == Withheld(body=Body.of(text))


def test_a_comment_that_is_never_closed() -> None:
    """At the start of a line it hides what follows, as on the rendered page, and the person is told."""
    result = drop_comments("a.md", Body.of("a %%x%%\n\n<!-- HIDDEN\n\nHIDDEN"))
    assert result.body.text.rstrip() == "a"
    assert [(problem.line, problem.fatal) for problem in result.problems] == [(3, False)]
