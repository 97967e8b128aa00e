"""Verify: show that the same notes give the same bytes, whatever the process, host and file system around them.

Flow:  state folder and vault → copies → [verify: a child in each environment] → the bytes that are published?
In:    the config.   Out: the environments tried and the first place that differs, if one does.
Never: a change to the state folder or vault; a word of a note in what it says.
Next:  worker/recall_worker/verify_child.py

What can be equal, and to what:
    ledger       the ledger's records rendered again equal what is published.
    vault copy   every note of a copied vault parsed again, into a copy of the ledger, equals what is published.
                 Not without the ledger: slot 3's window, the order in which notes were first seen and the days of
                 undated ones are history that the vault does not tell (docs/decisions/0004-striding-window.md).
    fresh build  a copied vault parsed into an empty ledger equals another such build.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from recall_worker.client import ask
from recall_worker.config import Config
from recall_worker.errors import FrameError, RecallError, WorkerError
from recall_worker.frames import HEADER_BYTES, unpack_snapshot
from recall_worker.locks import is_locked
from recall_worker.publish import snapshot_name
from recall_worker.verify_child import Job, Order
from recall_worker.verify_copies import copy_vault, take_copy

Source = Literal["ledger", "vault copy", "fresh build"]
CHILD_S: Final = 600.0
"""Longest that one rendering may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What surrounds one rendering.

    Attributes:
        source: What is rendered: see the head of this module.
        tz: `TZ` of its process.
        lc_all: `LC_ALL`.
        hash_seed: `PYTHONHASHSEED`.
        directory: Its working directory: `root`, `state` or `scratch`, a folder made for this.
        order: In which a copied vault's files are made, and in which records are handed to the renderer.
        umask: Octal.
    """

    source: Source
    tz: str
    lc_all: str
    hash_seed: int
    directory: Literal["root", "state", "scratch"]
    order: Order
    umask: int

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.source}, TZ={self.tz} LC_ALL={self.lc_all} PYTHONHASHSEED={self.hash_seed} "
            f"cwd={self.directory} files {self.order}, umask {self.umask:03o}"
        )


def _environment(
    source: Source, tz: str, lc_all: str, hash_seed: int, directory: str, order: Order, umask: int
) -> Environment:
    return Environment(
        source=source,
        tz=tz,
        lc_all=lc_all,
        hash_seed=hash_seed,
        directory=directory,  # type: ignore[arg-type]
        order=order,
        umask=umask,
    )


# A row each: source, TZ, LC_ALL, PYTHONHASHSEED, working directory, order of files, umask.
ENVIRONMENTS: Final = (
    _environment("ledger", "UTC", "C", 0, "root", "as stored", 0o022),
    _environment("ledger", "Pacific/Kiritimati", "C.UTF-8", 1, "scratch", "reversed", 0o077),
    _environment("ledger", "America/St_Johns", "tr_TR.UTF-8", 4_294_967_295, "state", "shuffled", 0o000),
    _environment("vault copy", "UTC", "C.UTF-8", 2, "root", "as stored", 0o022),
    _environment("vault copy", "Asia/Kathmandu", "POSIX", 3, "state", "reversed", 0o027),
    _environment("vault copy", "Etc/GMT+12", "th_TH.UTF-8", 4, "scratch", "shuffled", 0o077),
    _environment("fresh build", "UTC", "C", 5, "root", "as stored", 0o022),
    _environment("fresh build", "Pacific/Apia", "de_DE.UTF-8", 6, "scratch", "shuffled", 0o077),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where two renderings part.

    Attributes:
        file: Name of the snapshot file.
        environment: Index in the verdict's environments of the rendering that differs.
        byte: Offset in the file, 0-based; None if one of them has no such snapshot, or none that can be read.
        line: Line of the text, 1-based.
        column: Character of that line, 1-based.
    """

    file: str
    environment: int
    byte: int | None
    line: int | None
    column: int | None

    def __str__(self) -> str:
        """The place in words."""
        if self.byte is None:
            return f"{self.file}: not there, or not readable, on one side"
        return f"{self.file}: line {self.line}, column {self.column} (byte {self.byte})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it.

    Attributes:
        environments: All that were tried, in order.
        differences: The first one of each environment and scope that differs; empty if all is identical.
        snapshots: File name of each published snapshot to its SHA-256 (of the payload), hexadecimal.
        unread: Files of the vault that are not as the ledger last read them; with any, copied vaults are compared
            with each other and not with what is published.
    """

    environments: tuple[Environment, ...]
    differences: tuple[Difference, ...]
    snapshots: Mapping[str, str]
    unread: int


def verify(
    config: Config,
    *,
    environments: Sequence[Environment] = ENVIRONMENTS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Render every snapshot in every environment and compare.

    Works with and without a running worker; one that runs is asked to read the vault first.

    Args:
        environments: What to try.
        progress: Called with renderings done and in all.

    Raises:
        RecallError: Nothing was published yet, or a child failed.
    """
    if not (config.state_dir / "ledger.sqlite3").exists():
        raise RecallError(f"{config.state_dir}: nothing is published yet. Run `recall rebuild` first.")
    if is_locked(config.state_dir):
        _ask_for_scan(config)
    with tempfile.TemporaryDirectory(prefix="recall-verify-") as folder:
        scratch = Path(folder)
        published, unread = take_copy(config, scratch / "ledger.sqlite3")
        expected: dict[Source, dict[str, bytes]] = {"ledger": published}
        if not unread:
            expected["vault copy"] = published
        differences: list[Difference] = []
        for number, environment in enumerate(environments):
            progress(number, len(environments))
            rendered = _render(config, environment, scratch)
            wanted = expected.setdefault(environment.source, rendered)
            differences += _compare(wanted, rendered, number)
        progress(len(environments), len(environments))
    return Verdict(
        environments=tuple(environments),
        differences=tuple(differences),
        snapshots={
            snapshot_name(scope): _sha256(data)
            for scope, data in sorted(published.items())
            if data is not None
        },
        unread=unread,
    )


def _ask_for_scan(config: Config) -> None:
    """What the worker has not read yet would differ; a rebuild that holds the lock instead is no worker."""
    try:
        ask(config.state_dir, {"do": "scan"}, timeout_s=CHILD_S)
    except WorkerError:
        return


def _render(config: Config, environment: Environment, scratch: Path) -> dict[str, bytes]:
    """Start a child in the environment and take what it renders."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder)
        if environment.source != "fresh build":
            shutil.copyfile(scratch / "ledger.sqlite3", place / "ledger.sqlite3")
        vault = None
        if environment.source != "ledger":
            vault = place / "vault"
            copy_vault(config, vault, order=environment.order, seed=environment.hash_seed)
        job = Job(
            ledger=str(place / "ledger.sqlite3"),
            vault=None if vault is None else str(vault),
            windows="new" if environment.source == "fresh build" else "kept",
            order=environment.order,
            seed=environment.hash_seed,
            today=dt.date.today().isoformat(),
            max_note_bytes=config.max_note_bytes,
            budget=config.budget,
        )
        directories = {"root": Path("/"), "state": config.state_dir, "scratch": place}
        return _run_child(job, environment, cwd=directories[environment.directory])


def _run_child(job: Job, environment: Environment, *, cwd: Path) -> dict[str, bytes]:
    variables = {
        "TZ": environment.tz,
        "LC_ALL": environment.lc_all,
        "PYTHONHASHSEED": str(environment.hash_seed),
        "OPENBLAS_NUM_THREADS": "1",
    }
    child = subprocess.run(
        [sys.executable, "-P", "-m", "recall_worker.verify_child"],
        input=job.to_json(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=cwd,
        env={key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ} | variables,
        umask=environment.umask,
        timeout=CHILD_S,
    )
    if child.returncode:
        said = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        raise RecallError(f"verify: rendering failed in: {environment}. {said[-1]}")
    frames = json.loads(child.stdout)["frames"]
    return {scope: base64.b64decode(data) for scope, data in frames.items()}


def _compare(wanted: Mapping[str, bytes], got: Mapping[str, bytes], environment: int) -> list[Difference]:
    """First difference of each scope."""
    found = []
    for scope in sorted(wanted.keys() | got.keys()):
        one, two = wanted.get(scope, b""), got.get(scope, b"")
        if one != two:
            found.append(_locate(snapshot_name(scope), one, two, environment))
    return found


def _locate(name: str, one: bytes, two: bytes, environment: int) -> Difference:
    """Where two snapshot files part: the header always does, so what counts is the payload."""
    try:
        texts = [json.loads(b'"' + unpack_snapshot(data).payload + b'"') for data in (one, two)]
    except FrameError:
        return Difference(file=name, environment=environment, byte=None, line=None, column=None)
    same = texts[0][: _common(*texts)]
    return Difference(
        file=name,
        environment=environment,
        byte=HEADER_BYTES + _common(one[HEADER_BYTES:], two[HEADER_BYTES:]),
        line=same.count("\n") + 1,
        column=len(same) - same.rfind("\n"),
    )


def _sha256(frame: bytes) -> str:
    try:
        return unpack_snapshot(frame).sha256.hex()
    except FrameError:
        return ""


def _common(one: Sequence[object], two: Sequence[object]) -> int:
    """Length of the beginning that two texts share."""
    shorter = min(len(one), len(two))
    return next((place for place in range(shorter) if one[place] != two[place]), shorter)
