"""Hook bench: what one prompt costs, the whole process, beside a bare interpreter.

Flow:  a vault → recall rebuild → [bench_hook: bare, hook, bare, hook, …] → JSON
In:    flags.   Out: {"cases": {"no_worker": {"ratio": …}, …}} on stdout; words for people on stderr.
Never: a bare time and a hook's time that were not taken one right after the other.
Next:  hook/recall_hook/main.py

Cases, each against `python -I -S -c pass` run just before it:
    no_worker             nobody listens, autostart is off: the snapshot alone
    no_worker_autostart   ditto, and each run starts a process for next time
    echo                  a worker that answers at once with a fixed slot 4: the hook's own cost of asking
    warm                  the real worker, its index and encoder ready, another prompt each time
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import re
import shutil
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

from recall_worker.frames import Mode, pack_answer, unpack_request

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "hook" / "recall_hook" / "main.py"
EXAMPLE_VAULT = ROOT / "docs" / "example-vault"
CASES = ("no_worker", "no_worker_autostart", "echo", "warm")
WARM_UP_RUNS = 5
DEADLINE_MS = 5_000  # a slow machine shall be measured, not cut off
PATIENCE_S = 3_600
ECHO_TEXT = "\n\n# Close to this prompt\n" + "- Take a dump before the migration.\n" * 20

Prompts = Iterator[bytes]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0; 1 if a hook printed nothing, or the warm worker never found anything: then nothing was measured.
    """
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch:
        state = args.state or _built_state(args, Path(scratch))
        vault = EXAMPLE_VAULT if args.state else Path(scratch) / "vault"
        prompts = _prompts(_note_words(vault), args.words, random.Random(args.seed))
        cases = {}
        for name in args.case or CASES:
            _say(f"{name}: {args.pairs} pairs")
            cases[name] = _measure(name, args, state, prompts)
        report = {"cases": cases, **_circumstances(args, state)}
    print(json.dumps(report, indent=2) if args.json else _table(report))
    silent = any(case["digests"] < case["pairs"] for case in cases.values())
    return int(silent or ("warm" in cases and cases["warm"]["with_slot_4"] == 0))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench hook", description="Time the hook against a bare interpreter."
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--records", type=int, default=0, help="size of a made vault; 0 is the example vault")
    parser.add_argument("--words", type=int, default=12, help="length of the prompts")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of runs in each case")
    parser.add_argument(
        "--case", choices=CASES, action="append", help="measure this one only (may be repeated)"
    )
    parser.add_argument("--model", help="encoder, as in recall.toml; `none` is BM25 alone")
    parser.add_argument("--models", type=Path, help="folder of converted models to use, else the checkout's")
    parser.add_argument("--state", type=Path, help="state folder of a worker that runs already")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _measure(name: str, args: argparse.Namespace, state: Path, prompts: Prompts) -> dict[str, Any]:
    """Run one case: pairs of a bare interpreter and the hook, one right after the other."""
    bare_command = [sys.executable, "-I", "-S", "-c", "pass"]
    command = [sys.executable, "-I", "-S", str(HOOK), "claude-code", "prompt"]
    command += ["--state", str(state), "--deadline", str(DEADLINE_MS)]
    bare, hook, outputs = [], [], []
    with _worker(name, args, state) as (tail, before_each):
        for run in range(-WARM_UP_RUNS, args.pairs):
            prompt = next(prompts)
            before_each()
            bare_ms, _ = _timed(bare_command, prompt)
            hook_ms, output = _timed([*command, *tail], prompt)
            if run >= 0:
                bare.append(bare_ms)
                hook.append(hook_ms)
                outputs.append(output)
    longest_alone = (state / "snapshots" / "everywhere.snap").stat().st_size + 100  # the wrapper around it
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
    name: str, args: argparse.Namespace, state: Path
) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """What a case has at the other end: arguments for the hook, and what to do before each run."""
    if name == "no_worker_autostart":
        stamp = state / "starting"
        yield ["--start", "/usr/bin/env", "true"], lambda: stamp.unlink(missing_ok=True)
    elif name == "echo":
        with _echo_worker(state):
            yield [], lambda: None
    elif name == "warm" and not args.state:
        _recall(args, "start", "--wait", "60", state=state)
        try:
            _wait_until_ready(args, state)
            yield [], lambda: None
        finally:
            _recall(args, "stop", state=state)
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


def _built_state(args: argparse.Namespace, scratch: Path) -> Path:
    """A state folder rebuilt from the example vault, and from made notes beside it if records are asked for."""
    state = scratch / "state"
    state.mkdir(mode=0o700)
    vault = scratch / "vault"
    shutil.copytree(EXAMPLE_VAULT, vault)
    if args.records:
        _make_notes(vault, args.records, random.Random(args.seed))
    models = args.models or ROOT / "state" / "models"
    if models.is_dir():
        (state / "models").symlink_to(models.resolve())
    _say("indexing the example vault" + (f" and {args.records} made notes" if args.records else ""))
    _recall(args, "rebuild", state=state)
    return state


def _make_notes(vault: Path, records: int, rng: random.Random) -> None:
    """Notes of a title and three sentences, recombined from the example vault's own words."""
    words = sorted({word for note in _note_words(vault) for word in note})
    for number in range(records):
        sentences = [" ".join(rng.sample(words, rng.randint(8, 20))).capitalize() + "." for _ in range(3)]
        path = vault / "knowledge" / "made" / f"{number // 500:03}" / f"{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"---\ntype: knowledge\ndate: 2025-{number % 12 + 1:02}-{number % 28 + 1:02}\n---\n"
        path.write_text(
            f"{head}# {' '.join(rng.sample(words, 4))}\n\n{' '.join(sentences)}\n", encoding="utf-8"
        )


def _note_words(vault: Path) -> list[list[str]]:
    """Words of up to 400 notes, each note a list, in the order they stand there."""
    notes = sorted(vault.rglob("*.md"))
    texts = [
        note.read_text(encoding="utf-8").rpartition("---\n")[2] for note in notes[:: len(notes) // 400 + 1]
    ]
    return [words for text in texts if len(words := re.findall(r"[^\W\d_]{2,24}", text)) > 3]


def _prompts(notes: list[list[str]], length: int, rng: random.Random) -> Prompts:
    """The client's JSON, made of pieces of notes, another prompt each time so that no cache of answers helps."""
    while True:
        words: list[str] = []
        while len(words) < length:
            note = rng.choice(notes)
            start = rng.randrange(len(note))
            words += note[start : start + min(40, length - len(words))]
        session = f"bench-{rng.randrange(1 << 32):08x}"
        event = {
            "session_id": session,
            "cwd": "/",
            "hook_event_name": "UserPromptSubmit",
            "prompt": " ".join(words),
        }
        yield json.dumps(event, ensure_ascii=False).encode()


def _wait_until_ready(args: argparse.Namespace, state: Path) -> None:
    """Wait until the encoder answers and nothing is left to embed, or it is known that neither will be."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        status = json.loads(_recall(args, "status", "--json", state=state, check=False))
        encoder, index = status.get("encoder") or {}, status.get("index") or {}
        mood = str(encoder.get("state", "starting"))
        left = index.get("passages", 0) - index.get("embedded", 0)
        if mood.startswith(("off", "none", "failed")) or (mood == "ready" and left <= 0):
            _say(f"warm: {index.get('passages', '?')} passages, encoder {mood}")
            return
        time.sleep(1)
    raise SystemExit(f"The worker was not ready after {PATIENCE_S} s. Look at {state}/worker.log.")


def _recall(args: argparse.Namespace, *arguments: str, state: Path, check: bool = True) -> str:
    """Run the person's tool on the bench's own state and vault; its words go to stderr."""
    command = [str(Path(sys.executable).parent / "recall"), *arguments, "--state", str(state)]
    command += ["--vault", str(state.parent / "vault"), "--config", str(_config(args, state))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECALL_")}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check, env=environment)
    return run.stdout


def _config(args: argparse.Namespace, state: Path) -> Path:
    path = state.parent / "recall.toml"
    if not path.exists():
        model = f"model = {json.dumps(args.model)}\n" if args.model else ""
        path.write_text(f"autostart = false\n{model}", encoding="utf-8")
    return path


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


def _circumstances(args: argparse.Namespace, state: Path) -> dict[str, Any]:
    """Everything that another run would have to share to be comparable."""
    return {
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
        "records": args.records,
        "words": args.words,
        "seed": args.seed,
        "snapshot_bytes": (state / "snapshots" / "everywhere.snap").stat().st_size,
    }


def _cpu() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return run.stdout.strip()


def _table(report: dict[str, Any]) -> str:
    lines = [f"{'case':<20} {'× bare':>7} {'p95':>7} {'hook ms':>8} {'p95 ms':>8}"]
    for name, case in report["cases"].items():
        times = f"{case['hook_ms']:>8.1f} {case['hook_p95_ms']:>8.1f}"
        lines.append(f"{name:<20} {case['ratio']:>7.2f} {case['ratio_p95']:>7.2f} {times}")
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
