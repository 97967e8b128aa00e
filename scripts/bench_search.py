"""Search bench: what slot 4 costs at 1,000, 10,000 and 100,000 records, beside tantivy, bm25s and SQLite FTS5.

Flow:  bench_state → [bench_search: one process for each case] → JSON
In:    flags.   Out: {"records": {"100000": {"lexical_8": {"ratio_to_tantivy": …}, …}}, …} on stdout.
Never: two engines timed on different prompts, or one long after the other.
Next:  scripts/bench_answer.py

Cases, for each number of records:
    build     vault → ledger → postings, and vectors that look like the encoder's: `bulk_records_per_s`
    lexical   a prompt's text → the numbers of its twenty best notes, each engine in turn on each prompt, all of them
              warm. `new_ms`: each prompt for the first time, after a hundred others. `first_ms`: in a fresh process.
    answer    a request's bytes → an answer frame, by stage: `rest` is parsing, planning and packing
    memory    resident size of a real worker and its encoder after a hundred prompts
    commit    ten changed records → ledger → index
and once:
    encode    passages per second
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import bench_state
from bench_state import build, circumstances, configure, open_index, running_encoder, say
from bench_texts import Note, make_notes, make_prompts
from recall_worker.config import Config

SIZES: Final = (1_000, 10_000, 100_000)
WORDS: Final = (8, 32)
CASES: Final = ("build", "lexical", "answer", "memory", "commit", "encode")
TOP_K: Final = 20
PROMPTS: Final = 60
WARM_UP: Final = 100
FIRST: Final = 10
COMMITS: Final = 20
COMMITTED: Final = 10
ENCODED: Final = 2_000

Result = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns 0, or 1 if an engine found nothing."""
    args = _parser().parse_args(argv)
    if args.case:
        print(json.dumps(_run_case(args)))
        return 0
    with tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch:
        work = args.work or Path(scratch)
        sizes: dict[str, Result] = {}
        for size in args.records:
            sizes[str(size)] = found = {}
            for case in CASES[:-1]:
                found.update(_spawn(args, case, size, work))
        once = {} if args.no_encode or args.model == "none" else _spawn(args, "encode", ENCODED, work)
    report = {**sizes, **once, **circumstances(), "seed": args.seed}
    print(json.dumps(report, indent=2) if args.json else _table(report))
    return int(
        any(size[f"lexical_{words}"]["shared_hits"] == 0 for size in sizes.values() for words in WORDS)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench search", description="Time the search beside its peers.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--records", type=_sizes, default=list(SIZES), help="sizes, by default 1000,10000,100000"
    )
    parser.add_argument("--no-encode", action="store_true", help="leave out the rate of encoding")
    parser.add_argument("--model", help="encoder, as in recall.toml; `none` is BM25 alone")
    parser.add_argument("--models", type=Path, help="folder of converted models to use, else the checkout's")
    parser.add_argument("--work", type=Path, help="keep the made vaults here and use those that are there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    return parser


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _spawn(args: argparse.Namespace, case: str, size: int, work: Path) -> Result:
    """Run one case in a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--case", case, "--records", str(size), "--work", str(work)]
    command += ["--seed", str(args.seed)]
    command += ["--model", args.model] if args.model else []
    command += ["--models", str(args.models)] if args.models else []
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=bench_state.single_threaded())
    say(f"{size} {case}: {time.perf_counter() - began:.0f} s")
    found: Result = json.loads(run.stdout)
    return found


def _run_case(args: argparse.Namespace) -> Result:
    size = args.records[0]
    folder = args.work / f"{size}-{args.seed}"
    config = configure(folder, model=args.model, models=args.models)
    if args.case == "encode":
        return _encode(config, make_notes(size, seed=args.seed))
    notes = make_notes(size, seed=args.seed)
    cases: dict[str, Callable[[Config, list[Note], int], Result]] = {
        "build": _build,
        "lexical": _lexical,
        "answer": _answer,
        "memory": _memory,
        "commit": _commit,
    }
    return cases[args.case](config, notes, args.seed)


def _build(config: Config, notes: list[Note], seed: int) -> Result:
    kept = config.state_dir.parent / "build.json"
    if not kept.exists():
        bulk = build(config, notes, seed=seed)
        rates = {"bulk_records_per_s": round(bulk.index), "bulk_read_records_per_s": round(bulk.read)}
        kept.write_text(json.dumps(rates), encoding="utf-8")
    rates = json.loads(kept.read_text(encoding="utf-8"))
    return {**rates, "index_mb": _megabytes(config.state_dir / "generations")}


def _lexical(config: Config, notes: list[Note], seed: int) -> Result:
    """Ours and the peers, each in turn on each prompt."""
    from bench_peers import PEERS

    with open_index(config, None) as (_, index):
        view = index.view
        numbers = np.array([_number(view.corpus.record_id(row)) for row in range(len(view.corpus))])

        def ours(prompt: str) -> list[int]:
            scores = view.lexical.scores(prompt, view.corpus.ids).values
            rows = np.argpartition(scores, -TOP_K)[-TOP_K:]
            return numbers[rows[np.argsort(-scores[rows], kind="stable")]].tolist()

        first = {words: [] for words in WORDS}
        for words in WORDS:
            for prompt in _prompts(notes, words, FIRST, seed + 1):
                first[words].append(_timed(ours, prompt))
        engines = {"ours": ours} | {name: make(notes) for name, make in PEERS.items()}
        for words in WORDS:
            for prompt in _prompts(notes, words, WARM_UP, seed + 2):
                for name, ask in engines.items():
                    if name != "fts5":  # keeps nothing between prompts, and takes its time
                        ask(prompt)
        return {f"lexical_{words}": _race(engines, notes, words, seed, first[words]) for words in WORDS}


def _number(record_id: str) -> int:
    """Number of a made note; -1 for one of the example vault."""
    name = Path(record_id).stem
    return int(name) if name.isdigit() else -1


def _race(
    engines: dict[str, Callable[[str], list[int]]],
    notes: list[Note],
    words: int,
    seed: int,
    first: list[float],
) -> Result:
    """Time every engine on the same prompts, twice, the order turning."""
    prompts = _prompts(notes, words, PROMPTS, seed + 3)
    new, again = _round(engines, prompts), _round(engines, prompts)
    same = [set(engines["ours"](prompt)) & set(engines["tantivy"](prompt)) for prompt in prompts[:10]]
    result: Result = {"ms": _median(again["ours"]), "p95_ms": _p95(again["ours"])}
    for name in engines:
        if name != "ours":
            result |= {f"{name}_ms": _median(again[name]), f"ratio_to_{name}": _ratio(again, name)}
    result |= {"new_ms": _median(new["ours"]), "new_ratio_to_tantivy": _ratio(new, "tantivy")}
    result |= {"first_ms": _median(first), "shared_hits": round(statistics.mean(map(len, same)), 1)}
    return result


def _round(engines: dict[str, Callable[[str], list[int]]], prompts: list[str]) -> dict[str, list[float]]:
    """Milliseconds of every engine on every prompt."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    names = list(engines)
    for place, prompt in enumerate(prompts):
        turn = place % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(_timed(engines[name], prompt))
    return times


def _ratio(times: dict[str, list[float]], name: str) -> float:
    """Median of our time over a peer's on the same prompt."""
    pairs = zip(times["ours"], times[name], strict=True)
    return round(statistics.median(ours / theirs for ours, theirs in pairs), 2)


def _answer(config: Config, notes: list[Note], seed: int) -> Result:
    from bench_answer import time_answers

    prompts = _prompts(notes, 12, PROMPTS + FIRST, seed + 4)
    return {"answer": time_answers(config, prompts, warm_up=FIRST)}


def _memory(config: Config, notes: list[Note], seed: int) -> Result:
    from bench_answer import weigh_worker

    return {"memory": weigh_worker(config, _prompts(notes, 12, 100, seed + 5))}


def _commit(config: Config, notes: list[Note], seed: int) -> Result:
    """Ten changed notes, again and again: the follower's part, from the ledger's log to a view that has them."""
    from bench_answer import time_commits

    fresh = make_notes(COMMITS * COMMITTED, seed=seed + 6)
    return {"commit_10_records_ms": time_commits(config, fresh, each=COMMITTED)}


def _encode(config: Config, notes: list[Note]) -> Result:
    texts = [f"{note.title}\n{note.text}" for note in notes]
    with running_encoder(config) as encoder:
        encoder.encode_passages(texts[:64])
        began = time.perf_counter()
        encoder.encode_passages(texts)
        took_s = time.perf_counter() - began
    return {"encode_texts_per_s": round(len(texts) / took_s, 1)}


def _prompts(notes: list[Note], words: int, count: int, seed: int) -> list[str]:
    return make_prompts(notes, count, words=words, rng=random.Random(seed * 1_000 + words))


def _timed(ask: Callable[[str], object], prompt: str) -> float:
    began = time.perf_counter()
    ask(prompt)
    return (time.perf_counter() - began) * 1_000


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


def _p95(values: Sequence[float]) -> float:
    return round(float(np.percentile(values, 95)), 3)


def _megabytes(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def _table(report: Result) -> str:
    """For people: one block for each size."""
    lines = []
    for size, found in ((key, value) for key, value in report.items() if key.isdigit()):
        lines.append(f"\n{int(size):,} records")
        for words in WORDS:
            got = found[f"lexical_{words}"]
            peers = "  ".join(f"{name} {got[f'{name}_ms']:.2f}" for name in ("tantivy", "bm25s", "fts5"))
            lines.append(
                f"  lexical, {words:2} words  {got['ms']:.2f} ms ({got['ratio_to_tantivy']:.2f} × tantivy)"
                f"  {peers}  new {got['new_ms']:.2f}  first {got['first_ms']:.1f}"
            )
        for percent in ("p50_ms", "p95_ms"):
            stages = "  ".join(f"{name} {value:.2f}" for name, value in found["answer"][percent].items())
            lines.append(f"  answer {percent[:3]}  {stages}")
        memory = "  ".join(
            f"{name.removesuffix('_mb')} {value} MB" for name, value in found["memory"].items()
        )
        lines.append(f"  memory  {memory}  index on disk {found['index_mb']} MB")
        commit = found["commit_10_records_ms"]
        lines.append(
            f"  bulk {found['bulk_records_per_s']} records/s, 10 records p50 {commit['p50']} p95 {commit['p95']} ms"
        )
    if "encode_texts_per_s" in report:
        lines.append(f"\nencoding {report['encode_texts_per_s']} texts/s")
    lines.append(
        f"\n{report['commit']}, {report['cpu']}, Python {report['python']}, load {report['load_1min']}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
