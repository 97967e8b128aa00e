"""Cost plot: the picture in docs/caching.md, drawn from what `scripts/bench cost --json` printed.

Flow:  bench cost → [plot cost] → docs/caching.svg
In:    the JSON on stdin, a number of turns.   Out: SVG on stdout, for light and dark pages.
Never: a figure that is not in the JSON.
Next:  docs/caching.md

    scripts/bench cost --json >cost.json
    python scripts/plot_cost.py 50 <cost.json >docs/caching.svg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final
from xml.sax.saxutils import escape

WAYS: Final = {
    "naive": ("naive digest, by hook", "hook"),
    "every_turn": ("every-turn", "ours"),
    "once_per_session": ("once-per-session", "ours"),
    "naive_api": ("naive digest, system prompt", "hook"),
    "api_blocks": ("blocks, fresh each turn", "ours"),
    "api_blocks_kept": ("blocks, kept", "ours"),
}
"""Way of sending → its label, and the class of its bar."""

GROUPS: Final = {"naive": "Claude Code, through the hook", "naive_api": "A request of your own"}
PANELS: Final = {"cost": "Cost of the digest", "context_ratio": "Context it fills"}
WIDTH, LEFT, PANEL, GAP, ROW, BAR = 760, 226, 216, 62, 28, 16
TOP, GROUP = 44, 30
STYLE: Final = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
    .head { font-weight: 600; } .soft { fill: #59636e; } .grid { stroke: #d1d9e0; }
    .ours { fill: #0a7ea4; } .hook { fill: #a8b1bb; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .soft { fill: #9198a1; } .grid { stroke: #3d444d; }
      .ours { fill: #4fb8d8; } .hook { fill: #59636e; }
    }
"""


def draw(report: Mapping[str, Mapping[str, Mapping[str, float]]], turns: str) -> str:
    """An SVG with a bar for each way of sending the digest, relative to every turn.

    Args:
        report: What `scripts/bench cost --json` printed.
        turns: Which of its rows.
    """
    rows = report[turns]
    most = {panel: max(1.0, *(rows[way][panel] for way in WAYS)) for panel in PANELS}
    height = TOP + len(GROUPS) * GROUP + len(WAYS) * ROW + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>Cost and context of the digest in a session of {turns} turns, every-turn being 1</title>",
        f"<style>{STYLE}</style>",
    ]
    for number, (panel, title) in enumerate(PANELS.items()):
        left = LEFT + number * (PANEL + GAP)
        one = left + PANEL / most[panel]
        parts += [
            f'<text class="head" x="{left}" y="20">{escape(title)}</text>',
            f'<line class="grid" x1="{left}" x2="{left}" y1="{TOP - 8}" y2="{height - 12}"/>',
            f'<line class="grid" x1="{one:.1f}" x2="{one:.1f}" y1="{TOP - 8}" y2="{height - 12}" '
            'stroke-dasharray="3 3"/>',
        ]
    y = TOP
    for way, (label, kind) in WAYS.items():
        if way in GROUPS:
            parts.append(f'<text class="soft" x="8" y="{y + 16}">{escape(GROUPS[way])}</text>')
            y += GROUP
        parts.append(f'<text x="{LEFT - 12}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        for number, panel in enumerate(PANELS):
            value, left = rows[way][panel], LEFT + number * (PANEL + GAP)
            width = PANEL * value / most[panel]
            parts += [
                f'<rect class="{kind}" x="{left}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>',
                f'<text x="{left + width + 6:.1f}" y="{y + 13}">{value:.2f}</text>',
            ]
        y += ROW
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(draw(json.load(sys.stdin), sys.argv[1] if len(sys.argv) > 1 else "50"))
