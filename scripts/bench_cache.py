"""Cache bench: how much of the old snapshot every change leaves in place, beside a newest-first rendering.

Flow:  notes → seeded changes → [bench_cache: scan, publish, compare] → JSON
In:    flags.   Out: {"prefix_kept": {"additions": …, "all": …}, "common_prefix": …, "naive": {…}, "n": …}, ratios.
Never: a clock; a change that alters no byte, in any figure.
Next:  worker/recall_worker/refresh.py, docs/decisions/0004-striding-window.md

Each note becomes a dated lesson in the order of its path, several on one day. A change is an addition (80 %), an edit
of any earlier lesson's first words (15 %) or a new prohibition (5 %); each goes through a real vault, ledger and
publisher, as in a worker that nobody prompts: strides do not wait.
    prefix_kept     share of changes after which the whole old snapshot is a prefix of the new one
    common_prefix   mean share of the old snapshot that the two have in common at the start
    naive           the same for profile, prohibitions and lessons newest first, the newest N lessons at any moment
    n               records that slot 3 is chosen anew with
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from bench_state import circumstances
from recall_worker.config import Config
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.records import EVERYWHERE, Record
from recall_worker.refresh import Publisher, read_vault
from recall_worker.text import cut, one_line

ROOT = Path(__file__).resolve().parents[1]
TIL = ROOT.parent / "shared" / "data" / "vault-til"
EXAMPLE_VAULT = ROOT / "docs" / "example-vault"
FIRST_DAY: Final = dt.date(2020, 1, 1)
KINDS: Final = ("addition", "edit", "prohibition")
SHARES: Final = (80, 15, 5)

Kind = Literal["addition", "edit", "prohibition"]


@dataclass(slots=True, kw_only=True)
class Tally:
    """Figures of one rendering, over the changes that altered its bytes."""

    kept: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    common: float = 0.0

    def add(self, kind: Kind, before: str, after: str) -> None:
        """Count a change, if it is one."""
        if before == after:
            return
        self.seen[kind] += 1
        self.kept[kind] += after.startswith(before)
        self.common += common_units(before, after) / len(before)

    def report(self) -> dict[str, Any]:
        """Ratios from 0 to 1; None where nothing was counted."""
        count = self.seen.total()
        return {
            "prefix_kept": {
                "additions": _ratio(self.kept["addition"], self.seen["addition"]),
                "all": _ratio(self.kept.total(), count),
            },
            "common_prefix": _ratio(self.common, count),
        }


class Stream:
    """A vault that grows and changes by itself, the same for the same seed."""

    def __init__(self, vault: Path, notes: Sequence[str], seed: int, *, edited: int) -> None:
        """Draw from `notes` in order, again from the start when they end; edit among the last `edited`."""
        self._vault = vault
        self._notes = notes
        self._random = random.Random(seed)
        self._edited = edited
        self._paths: list[Path] = []
        self._day = FIRST_DAY

    def change(self) -> Kind:
        """Make one change on disk."""
        kind: Kind = self._random.choices(KINDS, SHARES)[0]  # type: ignore[assignment]
        if kind == "edit":
            self._edit()
        else:
            self.add(high=kind == "prohibition")
        return kind

    def add(self, *, high: bool = False) -> None:
        """Write the next note as a lesson; about four share a day."""
        number = len(self._paths)
        round_, place = divmod(number, len(self._notes))
        self._day += dt.timedelta(days=self._random.random() < 0.25)
        text = self._notes[place] + (f"\n\nWritten for the {round_ + 1}th time." if round_ else "")
        front = f"type: lesson\ndate: {self._day}\n" + "priority: high\n" * high
        path = self._vault / f"{number:05}.md"
        path.write_text(f"---\n{front}---\n{text}\n", encoding="utf-8")
        self._paths.append(path)

    def _edit(self) -> None:
        """Put a word before the text, so that an edit of a note that is shown always shows."""
        path = self._random.choice(self._paths[-self._edited :])
        front, text = path.read_text(encoding="utf-8").split("---\n", 2)[1:]
        lines = text.split("\n")
        at = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
        lines[at] = f"Corrected {self._random.randrange(1_000)}: {lines[at]}"
        path.write_text(f"---\n{front}---\n" + "\n".join(lines), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Replay and print.

    Returns:
        0; 1 if the changes ran out before enough of them altered bytes.
    """
    args = _parser().parse_args(argv)
    folder = args.notes or (TIL if TIL.is_dir() else EXAMPLE_VAULT)
    notes = list(_read_notes(folder))
    with tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch:
        ours, naive = replay(Path(scratch), notes, seed=args.seed, changes=args.changes, edited=args.edited)
    report = {
        **ours.report(),
        "naive": naive.report(),
        "n": Config(state_dir=ROOT, vault=ROOT).budget.recent_n,
        "changes": dict(ours.seen) | {"total": ours.seen.total()},
        "seed": args.seed,
        "notes": {"from": folder.name, "count": len(notes)},
        "circumstances": circumstances(),
    }
    print(json.dumps(report, indent=2) if args.json else _table(report))
    return 0 if ours.seen.total() >= args.changes else 1


def replay(
    scratch: Path, notes: Sequence[str], *, seed: int, changes: int, edited: int, start: int = 12
) -> tuple[Tally, Tally]:
    """Change a vault until enough changes altered the snapshot.

    Args:
        scratch: An empty folder.
        changes: How many must have.
        edited: Edits fall on one of this many latest notes.
        start: Notes that are there before the first change.

    Returns:
        Figures of the published snapshot and of the naive rendering.
    """
    config = Config(state_dir=scratch / "state", vault=scratch / "vault", model="none")
    config.vault.mkdir()
    stream = Stream(config.vault, notes, seed, edited=edited)
    ours, naive = Tally(), Tally()
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        publisher = Publisher(config, ledger, Projects({}, ledger))

        def texts() -> tuple[str, str]:
            read_vault(config, ledger)
            publisher.publish()
            return publisher.published[EVERYWHERE].snapshot.text, render_naively(ledger, config)

        for _ in range(start):
            stream.add()
        before = texts()
        for _ in range(20 * changes):
            kind = stream.change()
            after = texts()
            ours.add(kind, before[0], after[0])
            naive.add(kind, before[1], after[1])
            before = after
            if ours.seen.total() >= changes:
                break
    return ours, naive


def render_naively(ledger: Ledger, config: Config) -> str:
    """What one would write first: everything newest first, the newest N lessons at any moment."""
    records = sorted(ledger.snapshot_records(), key=lambda item: (item.date, item.first_seen), reverse=True)
    budget = config.budget
    rules = [_line(record, budget.prohibition_units) for record in records if record.high]
    lessons = [record for record in records if not record.high][: budget.recent_n]
    recent = [_line(record, budget.recent_record_units) for record in lessons]
    return "\n".join(["## Rules", *rules, "", "## Latest", *recent])


def common_units(one: str, two: str) -> int:
    """Length of the beginning that two texts share."""
    shorter = min(len(one), len(two))
    return next((place for place in range(shorter) if one[place] != two[place]), shorter)


@lru_cache(1_024)
def _line(record: Record, limit: int) -> str:
    return cut(f"- ({record.date.isoformat()}) {one_line(record.text)}", limit)


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _read_notes(folder: Path) -> Iterator[str]:
    """Texts of a folder's notes in the order of their paths, without front matter."""
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.startswith("---\n"):
            text = text.split("---\n", 2)[-1]
        if text.strip():
            yield text.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench cache", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--changes", type=int, default=500, help="changes that alter bytes (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="of the stream of changes (default: 1)")
    parser.add_argument(
        "--edited", type=int, default=1_000_000, help="edit only among so many latest notes (default: all)"
    )
    parser.add_argument(
        "--notes",
        type=Path,
        help="folder of notes (default: ../shared/data/vault-til, else the example vault)",
    )
    return parser


def _table(report: dict[str, Any]) -> str:
    rows = [("", "published", "naive")]
    for name, path in (
        ("additions that keep the prefix", ("prefix_kept", "additions")),
        ("all changes that do", ("prefix_kept", "all")),
        ("mean common prefix", ("common_prefix",)),
    ):
        figures = []
        for side in (report, report["naive"]):
            value: Any = side
            for key in path:
                value = value[key]
            figures.append(str(value))
        rows.append((name, *figures))
    return "\n".join(f"{name:<32}{one:>10}{two:>10}" for name, one, two in rows)


if __name__ == "__main__":
    sys.exit(main())
