"""Hook bench: what one prompt costs, the whole process, beside a bare interpreter.

Flow:  bench_state → [bench_hook: bare, hook, bare, hook, …] → JSON
In:    flags.   Out: {"cases": {"no_worker": {"ratio": …}, …}} on stdout; words for people on stderr.
Never: a bare time and a hook's time that were not taken one right after the other.
Next:  hook/recall_hook/main.py

Cases, each against `python -I -S -c pass` run just before it:
    no_worker             nobody listens, autostart is off: the snapshot alone
    no_worker_autostart   ditto, and each run starts a process for next time
    echo                  a worker that answers at once with a fixed slot 4: the hook's own cost of asking
    warm_12, warm_400     the real worker, its index and encoder ready, another prompt of so many words each time
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_state import ROOT, build, circumstances, configure, recall, say, wait_until_ready
from bench_texts import make_notes, make_prompts
from recall_worker.config import Config
from recall_worker.frames import Mode, pack_answer, unpack_request

HOOK = ROOT / "hook" / "recall_hook" / "main.py"
CASES = ("no_worker", "no_worker_autostart", "echo", "warm")
RECORDS = 10_000
WORDS = (12, 400)
WARM_UP_RUNS = 10
DEADLINE_MS = 5_000  # a slow machine shall be measured, not cut off
ECHO_TEXT = "\n\n# Close to this prompt\n" + "- Take a dump before the migration.\n" * 20

Prompts = Iterator[bytes]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0; 1 if a hook printed nothing, or the warm worker never found anything: then nothing was measured.
    """
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch:
        config = configure(Path(scratch), model=args.model, models=args.models)
        notes = make_notes(max(args.records, 100), seed=args.seed)
        if not args.state:
            say(
                f"indexing the example vault and {args.records} made notes, with vectors in place of encoding them"
            )
            build(config, notes[: args.records], seed=args.seed)
        state = args.state or config.state_dir
        prompts = {words: _prompts(notes, words, random.Random(args.seed)) for words in args.words}
        cases = {}
        for name in args.case or CASES:
            for words in args.words if name == "warm" else args.words[:1]:
                full_name = f"{name}_{words}" if name == "warm" else name
                say(f"{full_name}: {args.pairs} pairs")
                cases[full_name] = _measure(name, args, config, state, prompts[words])
        report = {"cases": cases, **circumstances(), "records": args.records, "words": args.words}
        report |= {"seed": args.seed, "snapshot_bytes": _snapshot_bytes(state)}
    print(json.dumps(report, indent=2) if args.json else _table(report))
    silent = any(case["digests"] < case["pairs"] for case in cases.values())
    blind = any(case["with_slot_4"] == 0 for name, case in cases.items() if name.startswith("warm"))
    return int(silent or blind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench hook", description="Time the hook against a bare interpreter."
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--records", type=int, default=RECORDS, help="made notes beside the example vault")
    parser.add_argument("--words", type=_numbers, default=list(WORDS), help="lengths of the prompts: 12,400")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of runs in each case")
    parser.add_argument(
        "--case", choices=CASES, action="append", help="measure this one only (may be repeated)"
    )
    parser.add_argument("--model", help="encoder, as in recall.toml; `none` is BM25 alone")
    parser.add_argument("--models", type=Path, help="folder of converted models to use, else the checkout's")
    parser.add_argument("--state", type=Path, help="state folder of a worker that runs already")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _measure(
    name: str, args: argparse.Namespace, config: Config, state: Path, prompts: Prompts
) -> dict[str, Any]:
    """Run one case: pairs of a bare interpreter and the hook, one right after the other."""
    bare_command = [sys.executable, "-I", "-S", "-c", "pass"]
    command = [sys.executable, "-I", "-S", str(HOOK), "claude-code", "prompt"]
    command += ["--state", str(state), "--deadline", str(DEADLINE_MS)]
    bare, hook, outputs = [], [], []
    with _worker(name, args, config, state) as (tail, before_each):
        for run in range(-WARM_UP_RUNS, args.pairs):
            prompt = next(prompts)
            before_each()
            bare_ms, _ = _timed(bare_command, prompt)
            hook_ms, output = _timed([*command, *tail], prompt)
            if run >= 0:
                bare.append(bare_ms)
                hook.append(hook_ms)
                outputs.append(output)
    longest_alone = _snapshot_bytes(state) + 100  # the wrapper around it
    ratios = [ours / theirs for ours, theirs in zip(hook, bare, strict=True)]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "ratio_p95": round(_percentile(ratios, 95), 3),
        "bare_ms": round(statistics.median(bare), 2),
        "hook_ms": round(statistics.median(hook), 2),
        "hook_p95_ms": round(_percentile(hook, 95), 2),
        "pairs": args.pairs,
        "digests": sum(bool(output) for output in outputs),
        "with_slot_4": sum(len(output) > longest_alone for output in outputs),
    }


@contextlib.contextmanager
def _worker(
    name: str, args: argparse.Namespace, config: Config, state: Path
) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """What a case has at the other end: arguments for the hook, and what to do before each run."""
    if name == "no_worker_autostart":
        stamp = state / "starting"
        yield ["--start", "/usr/bin/env", "true"], lambda: stamp.unlink(missing_ok=True)
    elif name == "echo":
        with _echo_worker(state):
            yield [], lambda: None
    elif name == "warm" and not args.state:
        recall(config, "start", "--wait", "120")
        try:
            wait_until_ready(config)
            yield [], lambda: None
        finally:
            recall(config, "stop")
    else:
        yield [], lambda: None


@contextlib.contextmanager
def _echo_worker(state: Path) -> Iterator[None]:
    """A thread that answers every request at once with the same slot 4."""
    here = Path.cwd()
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(state)  # a socket's address may not pass 107 bytes
    listener.bind("worker.sock")
    os.chdir(here)
    listener.listen(16)

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                line.sendall(_echo(line))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        (state / "worker.sock").unlink()


def _echo(line: socket.socket) -> bytes:
    """Read a request to its end and give it the fixed answer."""
    parts = []
    while part := line.recv(1 << 20):
        parts.append(part)
    request = unpack_request(b"".join(parts))
    return pack_answer(
        mode=Mode.SNAPSHOT_AND_PAYLOAD,
        text=ECHO_TEXT,
        total_units=9_800,
        snapshot_sha256=request.snapshot_sha256,
    )


def _prompts(notes: Sequence[Any], words: int, rng: random.Random) -> Prompts:
    """The client's JSON, made of pieces of notes, another prompt each time so that no cache of answers helps."""
    while True:
        (text,) = make_prompts(notes, 1, words=words, rng=rng)
        session = f"bench-{rng.randrange(1 << 32):08x}"
        event = {
            "session_id": session,
            "cwd": "/",
            "hook_event_name": "UserPromptSubmit",
            "prompt": text,
        }
        yield json.dumps(event, ensure_ascii=False).encode()


def _timed(command: list[str], stdin: bytes) -> tuple[float, bytes]:
    """Milliseconds from start to end of a process, and what it printed."""
    began = time.perf_counter()
    run = subprocess.run(command, input=stdin, capture_output=True, check=True, cwd="/", env={})
    took_ms = (time.perf_counter() - began) * 1_000
    if run.stderr:
        raise SystemExit(f"{command}: stderr was not empty: {run.stderr.decode(errors='replace')}")
    return took_ms, run.stdout


def _percentile(values: list[float], percent: int) -> float:
    return (
        statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]
    )


def _snapshot_bytes(state: Path) -> int:
    return (state / "snapshots" / "everywhere.snap").stat().st_size


def _table(report: dict[str, Any]) -> str:
    lines = [f"{'case':<20} {'× bare':>7} {'p95':>7} {'hook ms':>8} {'p95 ms':>8}"]
    for name, case in report["cases"].items():
        times = f"{case['hook_ms']:>8.1f} {case['hook_p95_ms']:>8.1f}"
        lines.append(f"{name:<20} {case['ratio']:>7.2f} {case['ratio_p95']:>7.2f} {times}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
