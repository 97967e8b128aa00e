"""Own digest: what we said ourselves is neither read from a note nor searched for again."""

from __future__ import annotations

import datetime as dt

import pytest

from planted import PLANTED
from recall_worker import digest, snapshot
from recall_worker.notes import parse_note
from recall_worker.own_digest import FIRST_LINE, LISTS, PROFILE_HEADING, without_digest
from recall_worker.prompts import searchable

DIGEST = f"""{FIRST_LINE}

{PROFILE_HEADING}
ECHO writes Thai and English.
ECHO is a night owl.

{LISTS[0]}
- ECHO never migrates without a dump.
+2 more prohibitions did not fit: run `recall status`

{LISTS[1]}
- (2026-05-01) ECHO: the cache was cold.

{LISTS[2]}
- (2025-09-18) ECHO: migrations wait. …"""


def test_the_marks_are_those_of_the_digest() -> None:
    """The lines looked for are those that snapshot and slot 4 write."""
    assert (FIRST_LINE, PROFILE_HEADING) == (snapshot.FIRST_LINE, snapshot.PROFILE_HEADING)
    assert (LISTS[0], LISTS[2]) == (snapshot.RULES_HEADING, digest.HEADING)
    assert LISTS[1] in snapshot.__dict__.values()


@pytest.mark.parametrize(
    "quoted",
    [
        DIGEST,
        "\n".join(f"> {line}" for line in DIGEST.split("\n")),
        f"```\n{DIGEST}\n```",
        DIGEST[DIGEST.index(LISTS[2]) :],
        DIGEST[DIGEST.index(LISTS[0]) :],
        f"<system-reminder>\nUserPromptSubmit hook additional context: {DIGEST}\n</system-reminder>",
        f"{DIGEST}\n\n{DIGEST}",
    ],
)
def test_a_quoted_digest_is_not_searched_for(quoted: str) -> None:
    """The person's own words before and after it are what a prompt asks."""
    found = searchable(f"Why do I see this?\n\n{quoted}\n\nPlease explain the order.")
    assert "ECHO" not in found
    assert found.startswith("Why do I see this?")
    assert found.endswith("Please explain the order.")
    assert "ECHO" not in searchable(quoted)


def test_a_note_that_holds_a_digest_keeps_the_rest() -> None:
    """What stands around the digest is a note like any other, and the person is told of the rest."""
    text = f"# Odd digest\n\nSeen on Monday.\n\n{DIGEST}\n\n## Conclusion\nSlot three was full.\n"
    note = parse_note("a.md", text.encode(), max_bytes=100_000, today=dt.date(2026, 6, 1))
    (record,) = note.records
    assert record.text == "Seen on Monday.\n\n## Conclusion\nSlot three was full."
    assert [(problem.line, problem.fatal) for problem in note.problems] == [(5, False)]
    assert "ECHO" not in repr(note)


def test_a_note_that_is_a_digest_gives_no_record() -> None:
    """There is nothing in it that is not in the vault already."""
    note = parse_note("a.md", DIGEST.encode(), max_bytes=100_000, today=dt.date(2026, 6, 1))
    assert note.records == ()


def test_other_texts_stay_as_they_are() -> None:
    """A heading of the same words without a list's mark, or a mention of Recall, is nobody's digest."""
    for text in (
        f"{PROFILE_HEADING}\nI write Thai.",
        "Recall: notes the user keeps",
        PLANTED["password"][1],
        "  a ",
    ):
        assert without_digest(text) == text
