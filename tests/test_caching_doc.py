"""docs/caching.md: its examples run, its figures are those of the report beside it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plot_cost import draw
from recall_worker.cli import main
from recall_worker.publish import snapshot_name, write_snapshot
from test_snapshot import golden_records, rendered

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "caching.md").read_text(encoding="utf-8")
REPORT = json.loads((DOCS / "caching.json").read_text(encoding="utf-8"))
LABELS = {
    "naive, by hook": "naive",
    "every-turn": "every_turn",
    "once-per-session": "once_per_session",
    "naive, system prompt": "naive_api",
    "blocks, fresh each turn": "api_blocks",
    "blocks, kept": "api_blocks_kept",
}


def fenced(language: str) -> list[str]:
    """Contents of the page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def rows(columns: int) -> list[list[str]]:
    """Cells of table rows that begin with one of the labels."""
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "|" in line
    ]
    return [cells for cells in found if cells[0] in LABELS and len(cells) == columns]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a published snapshot in `state`, as the examples expect."""
    write_snapshot(tmp_path / "state" / "snapshots", snapshot_name(None), rendered(golden_records()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_examples(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as a reader would type them; each request carries the digest."""
    text = rendered(golden_records()).text
    names: dict[str, Any] = {}
    requests = []
    for number, example in enumerate(fenced("python")):
        exec(compile(example, f"caching.md, example {number}", "exec"), names)
        requests.append(names.get("request"))
    assert capsys.readouterr().out.startswith("slot 4 is missing: ")
    _, anthropic, openai, gemini, _ = requests
    assert "".join(block["text"] for block in anthropic["system"][1:]) == text
    assert "".join(part["text"] for part in openai["input"][0]["content"]) == text
    assert "".join(part["text"] for part in gemini["system_instruction"]["parts"]) == text
    assert [message["role"] for message in names["messages"]] == ["user", "assistant"] * 2
    assert names["messages"][0]["content"] == [{"type": "text", "text": names["PROMPT"]}]


def test_shell_examples(place: Path) -> None:
    """Every `recall digest` line is accepted and prints something."""
    lines = [
        line for block in fenced("sh") for line in block.splitlines() if line.startswith("recall digest")
    ]
    assert len(lines) == 5
    for line in lines:
        arguments = shlex.split(line, comments=True)[1:]
        run = CliRunner().invoke(main, [*arguments, "--state", str(place / "state")])
        assert (run.exit_code, bool(run.stdout)) == (0, True), line


def test_table_of_fifty_turns() -> None:
    """Each cell is the report's."""
    table = rows(6)
    assert len(table) == len(LABELS)
    for label, *cells in table:
        way = REPORT["50"][LABELS[label]]
        assert cells == [
            f"{way['cost']:.3f}",
            *(f"{way[key]:,}" for key in ("context", "written", "read")),
            f"{way['cost_with_conversation']:.3f}",
        ]


def test_table_of_lengths() -> None:
    """Costs at 10, 50 and 200 turns are the report's."""
    table = rows(4)
    assert len(table) == 3
    for label, *cells in table:
        assert cells == [f"{REPORT[turns][LABELS[label]]['cost']:.3f}" for turns in ("10", "50", "200")]


def test_claims_in_prose() -> None:
    """What the first table and the text promise is what was measured."""
    once, blocks = REPORT["50"]["once_per_session"], REPORT["50"]["api_blocks"]
    assert f"{once['cost']:.2f} of the cost, {once['context_ratio']:.2f} of the context" in PAGE
    assert f"once-per-session {once['cost']:.2f} and {once['context_ratio']:.2f}" in PAGE
    assert f"{REPORT['50']['every_turn']['context']:,}"[:2] + ",000 tokens of digests" in PAGE
    assert f"{blocks['snapshot_read_share']:.0%}".replace("%", " %") + " were read" in PAGE
    assert once["cost"] <= 0.35 >= once["context_ratio"]
    assert blocks["snapshot_read_share"] >= 0.9


def test_plot_is_drawn_from_the_report() -> None:
    """The picture shows the report's figures."""
    assert (DOCS / "caching.svg").read_text(encoding="utf-8") == draw(REPORT, "50")
