"""Secret passages: a passage with a secret is withheld from all of a record, the rest of the note stays."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planted import KEY_BODY, MIXED, PLANTED, PRIVATE_KEY
from recall_worker.errors import NoteError
from recall_worker.notes import ParsedNote, parse_note

TOKEN = PLANTED["GitHub"][1]


def parse(text: str) -> ParsedNote:
    """A note as the scan reads it."""
    return parse_note("notes/a.md", text.encode(), max_bytes=1_000_000, today=dt.date(2026, 6, 1))


def words(name: str) -> str:
    """A section long enough to be a passage of its own."""
    return f"## {name}\n" + f"{name.lower()} words. " * 60


@pytest.mark.parametrize("name", PLANTED)
def test_the_passage_goes_and_its_neighbours_stay(name: str) -> None:
    """No character of the value is anywhere in what was read; the sections around it are."""
    _, line, value = PLANTED[name]
    note = parse(f"# Title\n\n{words('One')}\n\n{words('Two')}\n{line}\n\n{words('Three')}\n")
    assert value not in repr(note)
    assert "two words" not in repr(note.records)
    assert [passage.title_path for passage in note.records[0].passages] == ["Title › One", "Title › Three"]
    assert {(problem.path, problem.line, problem.fatal) for problem in note.problems} == {
        ("notes/a.md", 8, False)
    }


def test_a_long_key_takes_every_passage_it_reaches_into() -> None:
    """A key of several kilobytes in a fence is torn into passages: none of them is left, nor half a fence."""
    body = "\n".join([KEY_BODY] * 12)
    key = PRIVATE_KEY.replace(KEY_BODY, body)
    note = parse(f"# Title\n\n{words('One')}\n\n## Two\n```\nbefore\n{key}\nafter\n```\n\n{words('Three')}\n")
    (record,) = note.records
    assert MIXED not in repr(note)
    assert "```" not in record.text
    assert "three words" in record.text
    assert len(note.problems) == 1


def test_a_line_torn_into_passages_goes_whole() -> None:
    """A secret in the middle of a line of several passages: all of that line goes."""
    note = parse(
        f"# Title\n\n{words('One')}\n\n## Two\n{'some words. ' * 200}{TOKEN}{' more words.' * 200}\n"
    )
    assert "one words" in note.records[0].text
    assert "some words" not in repr(note)
    assert "more words" not in repr(note)


def test_a_short_note_goes_whole_and_leaves_no_empty_title() -> None:
    """Where the passage is all of a record, there is no record."""
    note = parse(f"# Deploying\n\nUse {TOKEN} for it.\n")
    assert note.records == ()
    assert len(note.problems) == 1


def test_a_heading_loses_its_words() -> None:
    """A heading stands above passages that hold no secret: they stay, below "…"."""
    note = parse(f"# Title\n\n{words('One')}\n\n## Key {TOKEN}\n{'two words. ' * 90}\n")
    assert [passage.title_path for passage in note.records[0].passages] == ["Title › One", "Title › …"]
    assert TOKEN not in repr(note)


def test_front_matter_loses_its_line() -> None:
    """A tag, an id or any other key with a secret is not there; the other keys hold."""
    note = parse(f"---\ntype: lesson\nid: {TOKEN}\ntags:\n  - {TOKEN}\n  - db\n---\nWords.\n")
    (record,) = note.records
    assert (record.type, record.tags, record.key) == ("lesson", ("db",), "notes/a.md")
    assert TOKEN not in repr(note)
    assert [problem.line for problem in note.problems] == [3, 5]


@pytest.mark.parametrize("split", ["items", "headings"])
def test_in_a_split_note_one_record_goes(split: str) -> None:
    """Its neighbours stay, with the keys they had."""
    mark = "- " if split == "items" else "## "
    texts = [f"{mark}{name} thing\n\n  Details of it.\n" for name in ("First", "Second", "Third")]
    before = parse(f"---\nsplit: {split}\n---\n{''.join(texts)}")
    texts[1] += f"\n  {TOKEN}\n"
    after = parse(f"---\nsplit: {split}\n---\n{''.join(texts)}")
    keys = [record.key for record in before.records]
    assert [record.key for record in after.records] == [keys[0], keys[2]]
    assert TOKEN not in repr(after)


@pytest.mark.parametrize("mark", ["<!-- pragma: allowlist secret -->", "# pragma: allowlist secret"])
def test_a_person_may_vouch_for_a_line(mark: str) -> None:
    """The mark of detect-secrets lets one line pass, and no other."""
    assert TOKEN in repr(parse(f"Words {TOKEN} {mark}\n"))
    assert TOKEN not in repr(parse(f"Words {TOKEN}\n\n{mark}\n"))


def test_a_secret_in_a_private_part_is_not_told() -> None:
    """What is withheld anyway is no problem."""
    assert parse(f"Words <private>{TOKEN}</private> words.\n").problems == ()


MARKUP = st.sampled_from(
    ["\n", "\n\n", "# ", "- ", "> ", "```\n", "    ", "| ", "<!--", "-->", "---\n", "a: ", " "]
)


@given(st.lists(st.one_of(MARKUP, st.text(max_size=5)), max_size=15), st.lists(MARKUP, max_size=5))
def test_no_markup_lets_a_secret_pass(before: list[str], after: list[str]) -> None:
    """Whatever stands around it on other lines, the token is in no record, key, tag, title or message."""
    text = f"{''.join(before)}\nwords\n{''.join(after[:2])}{TOKEN} {''.join(after[2:])}"
    try:
        note = parse(text)
    except NoteError:
        return
    assert TOKEN[4:] not in repr(note)
