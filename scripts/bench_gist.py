"""Gist bench: is a question still answered when it stands in the middle of 400 pasted words?

Flow:  a judged corpus, another corpus's text → [bench_gist: search whole, search gist] → JSON
In:    a dataset in BEIR layout, a folder of Markdown to paste from.   Out: recall@5 of each way to search.
Never: a paste of the same corpus: what surrounds a question shall have nothing to do with it.
Next:  worker/recall_worker/gist.py, docs/decisions/0011-long-prompts.md

    scripts/bench gist ../shared/data/xquad-en --paste ../shared/data/vault-til --json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recall_worker.asking import fit
from recall_worker.dataset import read_dataset
from recall_worker.encoder import Encoder, load_encoder
from recall_worker.evaluate import document_ids, fill_ledger
from recall_worker.gist import take_gist
from recall_worker.hybrid import HybridIndex, View
from recall_worker.languages import load_language_space
from recall_worker.ledger import Ledger
from recall_worker.rebuild import embed_all
from recall_worker.search import order, weigh

PASTE_WORDS = 400
PLACES = ("start", "middle", "end")
TOP_K = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    args = _parser().parse_args(argv)
    dataset = read_dataset(args.folder)
    encoder = load_encoder("multilingual-e5-small", models_dir=args.models, allow_download=False)
    rng = random.Random(args.seed)
    questions = rng.sample(list(dataset.questions), min(args.queries, len(dataset.questions)))
    pastes = _pastes(args.paste)
    with (
        tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch,
        Ledger.open(Path(scratch) / "ledger.sqlite3") as ledger,
        HybridIndex(Path(scratch) / "index", ledger) as index,
    ):
        fill_ledger(ledger, dataset)
        index.follow()
        space = load_language_space(encoder, name=encoder.name, folder=args.models)
        index.attach(encoder.name, encoder.dimension, space)
        embed_all(index, encoder, progress=lambda *_: None)
        names = document_ids(dataset, index.view, ledger)
        report = _measure(index.view, names, questions, pastes, encoder, rng)
    print(json.dumps(report, indent=2) if args.json else _table(report))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench gist", description="Recall of questions inside pasted text.")
    parser.add_argument("folder", type=Path, help="judged corpus in BEIR layout")
    parser.add_argument("--paste", type=Path, required=True, help="folder of Markdown to paste from")
    parser.add_argument("--models", type=Path, default=Path(__file__).parents[1] / "state" / "models")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def _pastes(folder: Path) -> Callable[[random.Random], list[str]]:
    """Gives the lines of some notes, `PASTE_WORDS` words of them."""
    notes = [path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.rglob("*.md"))]

    def take(rng: random.Random) -> list[str]:
        lines: list[str] = []
        while sum(len(line.split()) for line in lines) < PASTE_WORDS:
            lines += rng.choice(notes)
        return lines

    return take


def _measure(
    view: View,
    names: Sequence[str],
    questions: Sequence[Any],
    pastes: Callable[[random.Random], list[str]],
    encoder: Encoder,
    rng: random.Random,
) -> dict[str, Any]:
    """Recall@5 by place of the question and by way of searching; milliseconds of the gist."""
    found = {way: dict.fromkeys(PLACES, 0) for way in ("alone", "whole", "gist")}
    took_ms = []
    for question in questions:
        for place in PLACES:
            lines = pastes(rng)
            middle = {"start": 0, "middle": len(lines) // 2, "end": len(lines)}[place]
            prompt = "\n".join([*lines[:middle], question.text, *lines[middle:]])
            began = time.perf_counter()
            gist = take_gist(prompt, view.lexical.idf, lambda piece: fit(view, piece))
            took_ms.append(1_000 * (time.perf_counter() - began))
            ways = {
                "alone": question.text,
                "whole": prompt,
                "gist": gist.text,
            }
            for way, searched in ways.items():
                found[way][place] += _finds(view, names, searched, question.gold, encoder)
    count = len(questions)
    recall = {
        way: {place: round(hits / count, 3) for place, hits in places.items()}
        for way, places in found.items()
    }
    return {"recall@5": recall, "queries": count, "gist_ms": round(sorted(took_ms)[len(took_ms) // 2], 2)}


def _finds(view: View, names: Sequence[str], searched: str, gold: Any, encoder: Encoder) -> bool:
    evidence = weigh(view, searched, encoder.encode_queries([searched])[0])
    rows = order(view, evidence.fused, view.corpus.live, top_k=TOP_K)
    return any(names[row] in gold for row in rows)


def _table(report: dict[str, Any]) -> str:
    lines = [f"{'recall@5':<8}" + "".join(f"{place:>8}" for place in PLACES)]
    for way, places in report["recall@5"].items():
        lines.append(f"{way:<8}" + "".join(f"{places[place]:>8.2f}" for place in PLACES))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
