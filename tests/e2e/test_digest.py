"""`recall digest`: the same bytes as the hook's, in the shape that was asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from e2e.conftest import RECALL, Place
from recall_worker.cli import main

HELP = Path(__file__).parents[1] / "golden" / "help" / "digest.txt"
PROMPT = "can I run the migration on the production database now?"


def fill(place: Place) -> None:
    """A note for each slot."""
    place.note("profile/me.md", "Backend engineer in Chiang Mai.", date="2026-01-01")
    place.note("lessons/dump.md", "Take a dump within the hour before.", priority="high", date="2026-01-02")
    place.note("lessons/retry.md", "Retries need a key: 🎉", date="2026-01-03")
    place.note("conclusions/queue.md", "The queue stays in Postgres.", date="2026-01-04")
    place.note(
        "knowledge/night.md",
        "Migrations of the production database run between 05:30 and 07:00.",
        date="2025-01-05",
    )


def joined(blocks: dict[str, Any]) -> str:
    """Texts of Anthropic's blocks."""
    return "".join(block["text"] for block in blocks["system"] + blocks["content"])


def test_help_is_golden() -> None:
    """The help text is a file, so that a change of it is seen."""
    assert CliRunner().invoke(
        main, ["digest", "--help"], prog_name="recall", terminal_width=100
    ).output == HELP.read_text(encoding="utf-8")


def test_blocks_are_what_the_hook_prints(place: Place) -> None:
    """With a worker: JSON's parts joined, the text form and the hook's own digest are one and the same."""
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["index"]["passages"] == 4)
    hooked = place.digest(PROMPT)
    assert "05:30" in hooked
    for form in ("text", "anthropic"):
        run = place.recall("digest", "--format", form, "--prompt", PROMPT, "--cwd", str(place.root))
        assert run.stderr == ""
        assert (run.stdout if form == "text" else joined(json.loads(run.stdout))) == hooked
    blocks = json.loads(place.recall("digest", "--format", "anthropic", "--prompt", PROMPT).stdout)
    assert [("cache_control" in block) for block in blocks["system"]] == [True, False, True]
    assert "05:30" in blocks["content"][0]["text"]
    assert "cache_control" not in blocks["content"][0]


def test_no_session_is_touched(place: Place) -> None:
    """Under once-per-session, too, each digest is whole, and the hook's own sessions lack nothing for it."""
    place.settings["snapshot"] = "once-per-session"
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["index"]["passages"] == 4)
    first, second = (
        place.recall("digest", "--prompt", PROMPT, "--cwd", str(place.root)).stdout for _ in "12"
    )
    assert first == second
    assert not (place.state / "sessions").exists()
    assert place.digest(PROMPT) == first


def test_without_worker(place: Place) -> None:
    """The snapshot alone on stdout, the reason on stderr, and no failure."""
    fill(place)
    place.recall("rebuild")
    run = place.recall("digest", "--format", "openai", "--prompt", PROMPT)
    blocks = json.loads(run.stdout)
    assert (len(blocks["input"][0]["content"]), blocks["content"]) == (3, [])
    assert run.stderr.startswith("Slot 4 is missing: ")
    assert "no worker runs here" in run.stderr
    assert place.recall("digest", "--format", "gemini").stderr == ""


def test_a_worker_that_hangs(place: Place) -> None:
    """A worker that is stopped in its tracks costs the time that was granted and slot 4."""
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["index"]["passages"] == 4)
    worker = int((place.state / "worker.lock").read_text(encoding="utf-8").split()[0])
    os.kill(worker, signal.SIGSTOP)
    try:
        run = place.recall("digest", "--prompt", PROMPT, "--wait", "0.3")
    finally:
        os.kill(worker, signal.SIGCONT)
    assert "Backend engineer" in run.stdout
    assert "did not answer within 0.3 s" in run.stderr


def test_nothing_is_published_yet(place: Place) -> None:
    """Before the first start there is nothing, which is said and is no failure."""
    run = place.recall("digest")
    assert (run.stdout, run.returncode) == ("", 0)
    assert "nothing is published here yet" in run.stderr


def test_wrong_options(place: Place) -> None:
    """A vendor nobody knows names those that are known; a mark without its vendor says whose it is."""
    run = place.recall("digest", "--format", "mistral", check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert "anthropic" in run.stderr
    run = place.recall("digest", "--openai-breakpoints", check=False)
    assert run.returncode != 0
    assert "--format openai" in run.stderr


def test_a_prompt_from_stdin(place: Place) -> None:
    """`-` keeps a prompt out of the process list; bytes that are no text do not matter."""
    fill(place)
    place.recall("rebuild")
    command = [str(RECALL), "digest", "--prompt", "-", *place.options()]
    run = subprocess.run(command, input=b"\xff prompt", capture_output=True, check=True, timeout=60)
    assert b"Backend engineer" in run.stdout
    assert b"Slot 4 is missing" in run.stderr


def test_nobody_reads(place: Place) -> None:
    """A pipe closed early, or no stdout at all, is no traceback."""
    fill(place)
    place.recall("rebuild")
    command = [str(RECALL), "digest", "--format", "anthropic", *place.options()]
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert b"Traceback" not in run.stderr
    shell = ["sh", "-c", '"$@" >&-', "sh", *command]
    run = subprocess.run(shell, stderr=subprocess.PIPE, check=False, timeout=60)
    assert b"Traceback" not in run.stderr
