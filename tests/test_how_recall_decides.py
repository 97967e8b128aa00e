"""How Recall decides: the report in docs/how-recall-decides.md is what the tool prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-recall-decides.md"
RECALL = Path(sys.executable).parent / "recall"


def without_figures(report: str) -> list[str]:
    """Its words: scores move with every change of the search, and with them where a line is broken."""
    return re.sub(r"\d+(\.\d+)?", "#", report).split()


def test_the_report_is_what_the_tool_prints(tmp_path: Path) -> None:
    """Same candidates, same fates, same words, on the example vault; RECALL_UPDATE_DOCS=1 writes it anew."""
    page = PAGE.read_text(encoding="utf-8")
    prompt = re.search(r'\$ recall explain "(.*)" --top 3', page)
    block = re.search(r"<!-- explain -->\n```\n(.*?)```", page, re.DOTALL)
    assert prompt is not None
    assert block is not None
    options = ["--state", tmp_path / "state", "--vault", ROOT / "docs/example-vault", "--set", "model=none"]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    subprocess.run([RECALL, "rebuild", *options], check=True, capture_output=True, cwd=tmp_path, timeout=120)
    run = subprocess.run(
        [RECALL, "explain", prompt[1], "--top", "3", *options],
        check=True, capture_output=True, encoding="utf-8", cwd=tmp_path, env=environment, timeout=60,
    )  # fmt: skip
    if os.environ.get("RECALL_UPDATE_DOCS"):
        PAGE.write_text(page[: block.start(1)] + run.stdout + page[block.end(1) :], encoding="utf-8")
    else:
        assert without_figures(block[1]) == without_figures(run.stdout)
