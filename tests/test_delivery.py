"""Delivery: a session is sent only what it lacks, and everything again once something no longer stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.delivery import added_lines

OLD = "Head\n\n## Rules\n- one\n- two\n\n## Latest\n- six"


@pytest.mark.parametrize(
    ("now", "added"),
    [
        (OLD, []),
        (f"{OLD}\n- seven", ["", "## Latest", "- seven"]),
        (OLD.replace("- two", "- two\n- three"), ["", "## Rules", "- three"]),
        (
            OLD.replace("- two", "- two\n- three") + "\n- seven",
            ["", "## Rules", "- three", "", "## Latest", "- seven"],
        ),
        (f"{OLD}\n\n## Other\n- new", ["", "## Other", "- new"]),
        (OLD.replace("- one\n", ""), None),
        (OLD.replace("- six", "- six, corrected"), None),
        (OLD.replace("- one\n- two", "- two\n- one"), None),
        ("", None),
    ],
)
def test_what_is_new(now: str, added: list[str] | None) -> None:
    """Added lines come under their heading; a line that is gone, changed or moved calls for all of it."""
    assert added_lines(OLD, now) == added


@given(st.lists(st.text("ab", min_size=1), unique=True, min_size=1), st.lists(st.integers(0, 20)))
def test_additions_are_found_wherever_they_stand(lines: list[str], places: list[int]) -> None:
    """Whatever is put between the lines, exactly that is sent."""
    now = list(lines)
    fresh = [f"new {number}" for number in range(len(places))]
    for line, place in zip(fresh, places, strict=True):
        now.insert(min(place, len(now)), line)
    added = added_lines("\n".join(lines), "\n".join(now))
    assert added is not None
    assert sorted(added) == sorted(fresh)
