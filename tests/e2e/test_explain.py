"""`recall explain`: asked of a running worker, or read from its state folder when none runs."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from e2e.conftest import RECALL, Place

PROMPT = "the office vpn drops idle sessions"


def explained(place: Place, prompt: str, *options: str) -> dict[str, Any]:
    """`recall explain --json`."""
    return json.loads(place.recall("explain", prompt, "--json", *options).stdout)  # type: ignore[no-any-return]


@pytest.fixture
def told(place: Place) -> Place:
    """A worker that knows a note for everybody and one of a project."""
    place.note("knowledge/vpn.md", "The office VPN drops idle sessions: [bold]ping[/] it.", date="2026-01-01")
    place.note("knowledge/ours.md", "Sessions of billing idle on.", date="2026-01-02", project="billing")
    place.note("lessons/ไทย.md", "ห้ามปล่อยของวันศุกร์", date="2026-01-03")
    place.recall("start")
    place.wait(lambda: (place.status()["index"] or {}).get("passages") == 3)
    return place


def test_a_worker_and_its_state_folder_say_the_same(told: Place) -> None:
    """Also what the hook prints: one code answers all three."""
    hooked = told.digest(PROMPT)
    asked = explained(told, PROMPT)
    assert asked["worker"] is not None
    assert asked["relevant"]
    assert hooked.endswith(asked["relevant"])
    told.recall("stop")
    looked = explained(told, PROMPT)
    assert looked["worker"] is None
    assert {**looked, "worker": 0} == {**asked, "worker": 0}


def test_the_project_is_that_of_the_directory(told: Place) -> None:
    """`--project DIR`, as a hook in that directory."""
    inside = told.root / "billing"
    (inside / ".git").mkdir(parents=True)
    outside = {item["record"]: item["fate"] for item in explained(told, PROMPT)["candidates"]}
    assert outside["knowledge/ours.md"] == "other project"
    there = explained(told, PROMPT, "--project", str(inside))
    assert there["project"] == "billing"
    assert "other project" not in {item["fate"] for item in there["candidates"]}


@pytest.mark.parametrize("columns", [60, 80])
def test_it_can_be_read_in_a_pipe(told: Place, columns: int) -> None:
    """No colour, no trailing blanks, no line past the width but for what cannot be broken; vault text is no markup."""
    environment = os.environ | {"COLUMNS": str(columns)}
    run = subprocess.run(
        [str(RECALL), "explain", PROMPT, *told.options()],
        capture_output=True, text=True, check=True, timeout=60, env=environment,
    )  # fmt: skip
    assert "\x1b" not in run.stdout
    lines = run.stdout.splitlines()
    assert all(line == line.rstrip() and len(line) <= columns for line in lines)
    assert any("shown: " in line for line in lines)
    assert any("[bold]" in line or "vpn" in line for line in lines)


def test_without_an_index_it_says_what_to_do(place: Place) -> None:
    """One line on stderr, a failing exit code."""
    run = place.recall("explain", PROMPT, check=False)
    assert (run.returncode != 0, run.stdout) == (True, "")
    assert "recall start" in run.stderr
