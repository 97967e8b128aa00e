"""Front matter: text values with their lines, faults with theirs, and nothing that YAML makes of a value."""

from __future__ import annotations

import itertools

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.errors import NoteError
from recall_worker.frontmatter import (
    FASTEST_LOADER,
    Header,
    Loader,
    find_front_matter,
    misplaced_front_matter,
    parse_front_matter,
)
from recall_worker.markdown import Body


def read(text: str, *, loader: Loader = FASTEST_LOADER) -> Header | None:
    """The header of some lines between fences."""
    return parse_front_matter("a.md", Body.of(text), loader=loader)


def items(text: str) -> dict[str, tuple[str, ...]]:
    """Its values by key."""
    header = read(text)
    assert header is not None
    return {key: value.items for key, value in header.values.items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("---\na: b\n---\nbody", (1, 2)),
        ("---\na: b\n...\nbody", (1, 2)),
        ("--- \na: b\n---", (1, 2)),
        ("---\n---\nbody", (1, 1)),
        ("\n\n---\na: b\n---\nbody", (3, 4)),
        ("—\ntype: lesson\n—\nbody", (1, 2)),
        ("-----\ntype: lesson\n-----\nbody", (1, 2)),
        ("body\n---\na: b\n---", None),
        ("\n---\nwords\n---", None),
        ("---\n\nwords after a rule", None),
        ("", None),
    ],
)
def test_where_it_stands(text: str, found: tuple[int, int] | None) -> None:
    """Front matter opens the file and is closed; a rule is not front matter."""
    assert find_front_matter("a.md", Body.of(text)) == found


def test_never_closed() -> None:
    """Keys below an opening fence without a closing one are a fault at the opening fence."""
    with pytest.raises(NoteError) as caught:
        find_front_matter("a.md", Body.of("\n---\ntype: lesson\n\nbody"))
    assert (caught.value.line, caught.value.problem) == (2, "front matter is never closed")


def test_values_are_what_stands_there() -> None:
    """No value turns into a number, a date, a truth or nothing; impossible dates do not raise."""
    text = (
        "a: 007\nb: no\nc: 2026-13-45\nd: 1_000\ne: ~\nf:\ng: [x, [y, 2]]\nh:\n- p\n- q\ni: |\n  one\n  two"
    )
    assert items(text) == {
        "a": ("007",),
        "b": ("no",),
        "c": ("2026-13-45",),
        "d": ("1_000",),
        "e": (),
        "f": (),
        "g": ("x", "y", "2"),
        "h": ("p", "q"),
        "i": ("one\ntwo",),
    }


def test_keys_and_lines() -> None:
    """Keys are folded, and each knows its line."""
    header = read("# comment\n\nDate_Created: x\n'TAGS': [a,\n  b]\nlast-modified: y")
    assert header is not None
    assert {key: value.line for key, value in header.values.items()} == {
        "date created": 3,
        "tags": 4,
        "last modified": 6,
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tags:\n\t- a\n\t- b", {"tags": ("a", "b")}),
        ("type：lesson", {"type": ("lesson",)}),
        ("type:\u00a0lesson", {"type": ("lesson",)}),
        ("type:\u3000lesson", {"type": ("lesson",)}),
        ("\ufefftype: lesson", {"type": ("lesson",)}),
        ("type: les\x08son", {"type": ("les son",)}),
        ("a: b\u2028c", {"a": ("b c",)}),
        ("date: {{date}}", {"date": ("{{date}}",)}),
        ("key: value\n{{content}}: x", {"key": ("value",)}),
        ("a: !!python/object/apply:os.system [echo]", {"a": ("echo",)}),
        ("? [a]\n: b\nc: d", {"c": ("d",)}),
    ],
)
def test_sensible_readings(text: str, found: dict[str, tuple[str, ...]] | None) -> None:
    """What only looks like YAML to a person is read as that person meant it; tags construct nothing."""
    assert (items(text) if found else read(text)) == found


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("tags: #postgres #sql", ("postgres sql",)),
        ("tags: [#a, '#b', 🔥, c#] # all", ("a", "#b", "🔥", "c#")),
        ("Tags:\n- #a\n- b # mine", ("a", "b")),
        ("tags: # none yet", ()),
        ("tags: c# #", ("c#",)),
    ],
)
def test_tags_with_their_mark(text: str, tags: tuple[str, ...]) -> None:
    """The "#" of a tag starts no comment, wherever people put it; a "#" before a space does."""
    assert items(text)["tags"] == tags


def misplaced(text: str) -> int | None:
    """Line on which words look like front matter."""
    problem = misplaced_front_matter("a.md", Body.of(text))
    assert problem is None or not problem.fatal
    return problem and problem.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\ntype: lesson\n---\nwords", 1),
        ("\n  ---\n  priority: high\n  ---\nwords", 2),
        ("> ---\n> date: 2026-11-02\n> ---", 1),
        ("```markdown\n---\ntype: lesson\n---\n```", 2),
        ("# Title\n\n---\ntags: [a]\n---\nwords", 3),
        ("type: lesson\npriority: high\n\nwords", 1),
        ("type:: lesson", 1),
        ("- **Priority**: high", 1),
        ("words\n\n---\ntype: lesson\n---", None),
        ("# Jekyll\n\nBegin a page with\n\n```\n---\ntype: post\n---\n```", None),
        ("---\nwords\n---", None),
        ("Date: Monday", None),
        ("Types: a, b", None),
        ("", None),
    ],
)
def test_misplaced_front_matter(text: str, line: int | None) -> None:
    """Front matter that a person put in a place where it is not read is told; talk of it is not."""
    assert misplaced(text) == line


def test_claude_code_metadata() -> None:
    """Keys below `metadata:` count where the note does not state them itself."""
    found = items("name: x\nmetadata:\n  type: user\n  modified: 2026-01-02\ntype: lesson")
    assert (found["type"], found["modified"]) == (("lesson",), ("2026-01-02",))


def test_a_key_that_stands_twice() -> None:
    """The last one counts, and the person is told where."""
    header = read("a: 1\nb: 2\nA: 3")
    assert header is not None
    assert header.values["a"].items == ("3",)
    assert [(problem.line, problem.fatal) for problem in header.problems] == [(3, False)]


@pytest.mark.parametrize("text", ["words between two rules", "- one\n- two", "type lesson", "# heading"])
def test_words_are_no_front_matter(text: str) -> None:
    """Lines without a key are left to the body."""
    assert read(text) is None


BROKEN = [
    ("title: Foo: bar\ntype: x", 1, "mapping values", "Put the value in quotes, because it holds a colon."),
    ("a: b\npriority high\ndate: 1", 2, "could not find expected ':'", "Write it as `key: value`."),
    ('a: b\nc: "open\nd: e', 2, "unexpected end of stream", "Close the quotes, or leave them out."),
    ("a: b\ntags: [x, y\nd: e", 2, "expected ',' or ']'", "Close the bracket, or write one item a line."),
    (
        "a: b\nc: @me",
        2,
        "cannot start any token",
        "Put the value in quotes, because of the sign it starts with.",
    ),
    (
        "a: b\nc: *bold*",
        2,
        "alphabetic or numeric",
        "Put the value in quotes, because of the sign it starts with.",
    ),
    ("a: b\n- c", 2, "expected", "Indent this line like the ones around it, or put its value in quotes."),
    (
        "a: b\n<<<<<<< HEAD\nc: d\n=======\nc: e\n>>>>>>> x",
        2,
        "merge conflict",
        "Keep one side and remove the marks.",
    ),
    ("a: &x [1]\nb: *x", 2, "alias", "Write the value out, or quote it."),
    ("a: b\nc: " + "[" * 500, 2, "nested too deep", "Keep to `key: value` lines."),
    ("a: " + "x" * 70_000, 1, "70,003 characters", "Move the text below the closing ---."),
]


@pytest.mark.parametrize("loader", [FASTEST_LOADER, yaml.SafeLoader])
@pytest.mark.parametrize(("text", "line", "problem", "fix"), BROKEN)
def test_faults_name_their_line_and_cure(
    loader: Loader, text: str, line: int, problem: str, fix: str
) -> None:
    """Both of PyYAML's loaders lead to the line that a person must mend, with the same cure."""
    with pytest.raises(NoteError, match="kept its last good version") as caught:
        read(text, loader=loader)
    assert (caught.value.path, caught.value.line, caught.value.fix) == ("a.md", line, fix)
    assert problem in caught.value.problem


def test_alias_bomb_is_refused_at_once() -> None:
    """A billion values in nine lines are never built."""
    names = "abcdefghi"
    bomb = ["a: &a [x, x]"] + [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in itertools.pairwise(names)
    ]
    with pytest.raises(NoteError, match="alias"):
        read("\n".join(bomb))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(list("ab:-[]{}#&*!|>'\"%@`?, \t\n\u2028\u0e01\x00")), max_size=60).map("".join)
)
def test_anything_is_a_header_or_a_note_error(text: str) -> None:
    """Whatever stands between the fences, the only exception is one with a place."""
    lines = range(1, text.count("\n") + 2)
    try:
        header = read(text)
    except NoteError as error:
        found = {error.line}
    else:
        found = {value.line for value in header.values.values()} if header else set()
    assert found <= set(lines)
