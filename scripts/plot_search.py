"""Plot search: what slot 4 costs by the size of the vault, as a picture for the docs.

Flow:  bench search → [plot search] → docs/search.svg
In:    the bench's JSON on stdin.   Out: on stdout an SVG, readable on light and dark pages, or tables in Markdown.
Never: a number that the bench did not print.
Next:  docs/benchmarks.md

    scripts/bench search --json >docs/search.json
    python scripts/plot_search.py <docs/search.json >docs/search.svg
    python scripts/plot_search.py --tables <docs/search.json
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

WIDTH: Final = 820
HEIGHT: Final = 330
TOP: Final = 56
BOTTOM: Final = 280
PANELS: Final = ((56, 300), (470, 714))
ENGINES: Final = (("ms", "Recall"), ("tantivy_ms", "tantivy"), ("bm25s_ms", "bm25s"), ("fts5_ms", "FTS5"))
STAGES: Final = ("encode", "lexical", "dense", "fuse", "dedupe")
LEAST_GAP: Final = 15
STYLE: Final = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
    .head { font-weight: 600; } .soft { fill: #59636e; } .grid { stroke: #d1d9e0; }
    polyline { fill: none; stroke-width: 2; stroke: #8b949e; } circle { fill: #8b949e; }
    polyline.c0 { stroke: #0a7ea4; stroke-width: 3; } circle.c0 { fill: #0a7ea4; }
    polyline.c1 { stroke: #bc5b1d; } circle.c1 { fill: #bc5b1d; }
    polyline.c2 { stroke: #5a7f2b; } circle.c2 { fill: #5a7f2b; }
    polyline.c3 { stroke: #8250a8; } circle.c3 { fill: #8250a8; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .soft { fill: #9198a1; } .grid { stroke: #3d444d; }
      polyline.c0 { stroke: #4fb8d8; } circle.c0 { fill: #4fb8d8; }
      polyline.c1 { stroke: #e58a4e; } circle.c1 { fill: #e58a4e; }
      polyline.c2 { stroke: #97c15c; } circle.c2 { fill: #97c15c; }
      polyline.c3 { stroke: #bf94e4; } circle.c3 { fill: #bf94e4; }
    }
"""

Curve = tuple[str, list[float]]


def main() -> int:
    """Read the report, print the picture or the tables."""
    report = json.load(sys.stdin)
    print(tabulate(report) if "--tables" in sys.argv[1:] else draw(report))
    return 0


def tabulate(report: dict[str, Any]) -> str:
    """The figures as they stand in docs/benchmarks.md."""
    found = {int(key): value for key, value in report.items() if key.isdigit()}
    rows = ["| records | words | × tantivy | Recall | tantivy | bm25s | FTS5 | new | × tantivy | first |"]
    for size, each in found.items():
        for words in (8, 32):
            got = each[f"lexical_{words}"]
            times = [f"{got[key]:.2f}" for key, _ in ENGINES]
            rows.append(
                _row(
                    f"{size:,}",
                    words,
                    f"**{got['ratio_to_tantivy']:.2f}**",
                    *times,
                    f"{got['new_ms']:.2f}",
                    f"{got['new_ratio_to_tantivy']:.2f}",
                    f"{got['first_ms']:.1f}",
                )
            )
    stages = [*STAGES[:4], "read", "dedupe", "trim", "rest", "total"]
    answers = [_row("records", "", *stages)]
    for size, each in found.items():
        for percent in ("p50", "p95"):
            times = [f"{each['answer'][f'{percent}_ms'][stage]:.2f}" for stage in stages]
            answers.append(_row(f"{size:,}", percent, *times))
    sizes = [
        "| records | worker MB | encoder MB | index on disk MB | bulk records/s | 10 records p50 / p95 ms |"
    ]
    for size, each in found.items():
        memory, commit = each["memory"], each["commit_10_records_ms"]
        sizes.append(
            _row(
                f"{size:,}",
                memory["worker_mb"],
                memory["encoder_mb"],
                each["index_mb"],
                each["bulk_records_per_s"],
                f"{commit['p50']} / {commit['p95']}",
            )
        )
    tables = (
        [table[0], "|" + "---|" * (table[0].count("|") - 1), *table[1:]] for table in (rows, answers, sizes)
    )
    return "\n\n".join("\n".join(table) for table in tables)


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def draw(report: dict[str, Any]) -> str:
    """The picture: BM25 of 32 words beside its peers, and the answer by stage, both axes by powers of ten."""
    sizes = sorted(int(key) for key in report if key.isdigit())
    found = [report[str(size)] for size in sizes]
    engines = [(name, [each["lexical_32"][key] for each in found]) for key, name in ENGINES]
    stages = [("all", [each["answer"]["p50_ms"]["total"] for each in found])]
    stages += [(stage, [each["answer"]["p50_ms"][stage] for each in found]) for stage in STAGES]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Milliseconds of a search by the number of records</title>",
        f"<style>{STYLE}</style>",
        *_panel(PANELS[0], "BM25, 32 words: ms by records", sizes, engines),
        *_panel(PANELS[1], "The whole answer, 12 words: ms by records", sizes, stages),
        "</svg>",
    ]
    return "\n".join(parts)


def _panel(span: tuple[int, int], title: str, sizes: Sequence[int], curves: Sequence[Curve]) -> list[str]:
    left, right = span
    values = [max(value, 0.01) for _, curve in curves for value in curve]
    across = _scale(min(sizes), max(sizes), left, right)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    up = _scale(10.0**low, 10.0**high, BOTTOM, TOP)
    parts = [f'<text class="head" x="{left}" y="28">{title}</text>']
    for power in range(low, high + 1):
        y = up(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text class="soft" x="{left - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g}</text>'
        )
    for size in sizes:
        parts.append(
            f'<text class="soft" x="{across(size)}" y="{BOTTOM + 22}" text-anchor="middle">{size:,}</text>'
        )
    ends = _apart([up(max(curve[-1], 0.01)) for _, curve in curves])
    for number, (name, curve) in enumerate(curves):
        points = [(across(size), up(max(value, 0.01))) for size, value in zip(sizes, curve, strict=True)]
        path = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline class="c{number}" points="{path}"/>')
        parts += [f'<circle class="c{number}" cx="{x}" cy="{y}" r="3"/>' for x, y in points]
        parts.append(f'<text x="{right + 10}" y="{ends[number] + 4}">{name} {curve[-1]:.3g}</text>')
    return parts


def _scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Positions on an axis of powers of ten."""
    span = math.log10(high) - math.log10(low) or 1.0
    return lambda value: round(start + (math.log10(value) - math.log10(low)) / span * (stop - start), 1)


def _apart(places: Sequence[float]) -> list[float]:
    """Labels' places moved down until none covers another."""
    moved = list(places)
    order = sorted(range(len(places)), key=places.__getitem__)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + LEAST_GAP)
    return moved


if __name__ == "__main__":
    sys.exit(main())
