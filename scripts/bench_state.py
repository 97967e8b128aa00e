"""Bench state: a vault of made notes, indexed as `recall rebuild` does, with vectors in a minute, not in twenty.

Flow:  bench_texts → [bench_state] → bench_search, bench_hook
In:    a folder, a number of notes, a seed.   Out: vault/, recall.toml and a state folder that a worker can serve.
Never: a vector that looks unlike the encoder's: each is a bundled sentence's own, moved a little at random.
Next:  scripts/bench_search.py
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench_texts import Note
from recall_worker.client import ask
from recall_worker.config import Config, load_config
from recall_worker.encoder_process import EncoderProcess
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import LanguageSpace, load_language_space
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.rebuild import rebuild, serving_generation
from recall_worker.refresh import Publisher

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLE_VAULT: Final = ROOT / "docs" / "example-vault"
MOVED: Final = 0.35
"""Length of the random part beside a sentence's unit vector: two notes about one sentence stay as near to each other
as two real ones are."""

NOTES_IN_FOLDER: Final = 500
PATIENCE_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """How fast a vault went in, records per second.

    Attributes:
        read: Vault to ledger.
        index: Ledger to postings.
    """

    read: float
    index: float


def write_vault(vault: Path, notes: Sequence[Note]) -> None:
    """Write the example vault and one file for each note."""
    shutil.copytree(EXAMPLE_VAULT, vault)
    for number, note in enumerate(notes):
        folder = vault / "knowledge" / "made" / f"{number // NOTES_IN_FOLDER:03}"
        folder.mkdir(parents=True, exist_ok=True)
        head = f"---\ntype: knowledge\ndate: 2025-{number % 12 + 1:02}-{number % 28 + 1:02}\n---\n"
        (folder / f"{number:06}.md").write_text(f"{head}# {note.title}\n\n{note.text}\n", encoding="utf-8")


def configure(folder: Path, *, model: str | None, models: Path | None) -> Config:
    """Settings of a bench's own folder; nobody's environment or file has a say."""
    state = folder / "state"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    models = models or ROOT / "state" / "models"
    if models.is_dir() and not (state / "models").exists():
        (state / "models").symlink_to(models.resolve())
    settings = {"autostart": "false"} | ({"model": model} if model else {})
    file = folder / "recall.toml"
    lines = [
        f'{key} = "{value}"' if key == "model" else f"{key} = {value}" for key, value in settings.items()
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = {"state_dir": str(state), "vault": str(folder / "vault")}
    return load_config(flags=flags, environ={}, config_file=file)


def build(config: Config, notes: Sequence[Note], *, seed: int) -> Bulk:
    """Make vault, ledger, index, vectors and snapshot."""
    write_vault(config.vault, notes)
    marks: dict[str, float] = {"read": time.perf_counter()}
    ends: dict[str, tuple[float, int]] = {}

    def tell(stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        marks.setdefault(stage, ends.get("read", (now, 0))[0])
        ends[stage] = (now, total)

    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        with rebuild(config, ledger, encoder=None, progress=tell):
            Publisher(config, ledger, Projects(config.projects, ledger)).publish()
        if config.model != "none":
            with running_encoder(config) as encoder:
                _give_vectors(ledger, encoder, space_of(config, encoder), seed=seed)
    took = {stage: total / max(now - marks[stage], 1e-9) for stage, (now, total) in ends.items()}
    return Bulk(read=took.get("read", 0.0), index=took.get("index", 0.0))


@contextlib.contextmanager
def running_encoder(config: Config) -> Iterator[EncoderProcess]:
    """The encoder's process, ready."""
    encoder = EncoderProcess(config)
    encoder.start()
    try:
        encoder.wait_ready(lambda state: say(f"encoder: {state}"))
        yield encoder
    finally:
        encoder.stop()


@contextlib.contextmanager
def open_index(config: Config, encoder: EncoderProcess | None) -> Iterator[tuple[Ledger, HybridIndex]]:
    """Ledger and index as the worker opens them."""
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(serving_generation(config.state_dir), ledger) as index,
    ):
        index.follow()
        if encoder is not None:
            index.attach(encoder.name, encoder.dimension, space_of(config, encoder))
        yield ledger, index


def single_threaded() -> dict[str, str]:
    """This process's environment, with one thread for each numerical library, as the worker sets it."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}


def space_of(config: Config, encoder: EncoderProcess) -> LanguageSpace:
    """The encoder's languages."""
    return load_language_space(encoder, name=encoder.name, folder=config.state_dir / "models")


def recall(config: Config, *arguments: str, check: bool = True) -> str:
    """Run the person's tool on a bench's folder; its words go to stderr."""
    command = [str(Path(sys.executable).parent / "recall"), *arguments, *config.as_arguments()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RECALL_")}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check, env=environment)
    return run.stdout


def wait_until_ready(config: Config) -> dict[str, Any]:
    """The worker's status once its encoder answers and every passage has its vector."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        status = ask(config.state_dir, {"do": "status"}, timeout_s=60)
        index, mood = status["index"] or {}, str(status["encoder"]["state"])
        loaded = index.get("passages") == index.get("embedded") and status["worker"]["last_scan"]
        if mood.startswith(("off", "failed")) or (mood == "ready" and loaded):
            say(f"worker: {index.get('passages')} passages, encoder {mood}")
            return status
        time.sleep(1)
    raise SystemExit(f"The worker was not ready after {PATIENCE_S} s. Look at {config.state_dir}/worker.log.")


def circumstances() -> dict[str, Any]:
    """Everything that another run would have to share to be comparable."""
    return {
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load_1min": round(os.getloadavg()[0], 2),
    }


def say(text: str) -> None:
    """Tell the person at the terminal; stdout is data."""
    print(text, file=sys.stderr, flush=True)


def _give_vectors(ledger: Ledger, encoder: EncoderProcess, space: LanguageSpace, *, seed: int) -> None:
    """Give every passage a vector near one of the English background sentences."""
    from recall_worker.background import load_background

    rng = np.random.default_rng(seed)
    sentences = space.vectors[list(load_background()).index("en")]
    missing = ledger.missing_vectors(encoder.name, 10**9)
    for batch in (missing[start : start + 4_096] for start in range(0, len(missing), 4_096)):
        near = sentences[rng.integers(len(sentences), size=len(batch))]
        noise = rng.standard_normal(near.shape, np.float32) * np.float32(MOVED / near.shape[1] ** 0.5)
        moved = near + noise
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        ledger.put_vectors(encoder.name, zip((sha256 for sha256, _ in batch), moved, strict=True))


def _cpu() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return run.stdout.strip()
