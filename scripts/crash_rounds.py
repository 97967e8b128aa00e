"""Crash: kill -9 a real worker at random moments, start it again, compare what it serves with the vault.

Flow:  vault edits → worker → [kill -9] → worker → ledger, index, snapshot, digest → verdict
In:    a number of rounds and a seed.   Out: rounds, wrong digests, records lost; what was wrong, by round.
Never: help between kill and start; a look at the worker's own idea of what is right.
Next:  docs/reliability.md
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from recall_worker.client import ask, order
from recall_worker.commands.hook_config import hook_command
from recall_worker.config import Config
from recall_worker.errors import FrameError, RecallError
from recall_worker.frames import unpack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.publish import snapshot_name
from recall_worker.snapshot import render

ROUNDS_OF_A_LIFE: Final = 20
"""Rounds with one state folder; then a new one, so that first loads are killed as well."""

START_S: Final = 60.0
"""Longest time in which a worker must serve."""

SETTINGS: Final = {"model": "none", "scan_live_s": "0.1", "scan_idle_s": "0.1", "cache_ttl_s": "0.001"}
RECENT_N: Final = 6
SAMPLES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What one file says.

    Attributes:
        token: A word that no other note has, new with each edit.
        day: Rank of its date among all; 0 for an undated note.
    """

    kind: str
    token: str
    day: int
    high: bool = False

    def text(self) -> str:
        """The file's content."""
        priority = "priority: high\n" if self.high else ""
        date = f"date: {_date(self.day)}\n" if self.day else ""
        return (
            f"---\ntype: {self.kind}\n{priority}{date}---\n# About {self.token}\n\nRemember {self.token}.\n"
        )


def _name(path: str) -> str:
    """What stays of a path when the file moves."""
    return path.split("/")[1]


def _date(day: int) -> str:
    """A date of its own for each of the first twelve thousand notes."""
    return f"{1990 + day // 336}-{day // 28 % 12 + 1:02}-{day % 28 + 1:02}"


@dataclass
class Life:
    """One vault with its state folder, and what the vault ought to be remembered as."""

    root: Path
    chance: random.Random
    notes: dict[str, Note] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    made: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def vault(self) -> Path:
        """The folder of notes."""
        return self.root / "vault"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.root / "state"

    def options(self) -> list[str]:
        """Options of every command."""
        pairs = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        return ["--state", str(self.state), "--vault", str(self.vault), *pairs]

    def fill(self, count: int) -> None:
        """Write the first notes."""
        for kind, high, some in (("profile", False, 1), ("lesson", True, 3)):
            for _ in range(some):
                self.write(kind=kind, high=high)
        for _ in range(count):
            self.write()

    def write(self, *, kind: str = "", high: bool = False, path: str = "") -> None:
        """Write a note, or another content into one."""
        self.made += 1
        kind = kind or self.chance.choice(("lesson", "conclusion", "knowledge", "knowledge"))
        token = "".join(self.chance.choices("abcdefghijklmnopqrstuvwxyz", k=14))
        # Profiles and prohibitions have dates: their order then does not hang on when they were seen.
        day = self.made if high or kind == "profile" or self.chance.random() < 0.8 else 0
        note = Note(kind=kind, token=token, day=day, high=high)
        path = path or f"{self.chance.choice('abcdef')}/{self.made:05}.md"
        if path in self.notes:
            self.gone.append(self.notes[path].token)
            self.edited.add(_name(path))
        target = self.vault / path
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        fresh.write_text(note.text(), encoding="utf-8")
        fresh.replace(target)
        self.notes[path] = note

    def plain(self) -> list[str]:
        """Paths of notes that stand in no fixed slot."""
        return [path for path, note in sorted(self.notes.items()) if not note.high and note.kind != "profile"]

    def mutate(self) -> Iterator[None]:
        """A round's edits, one after the other."""
        for _ in range(self.chance.randint(1, 40)):
            some = self.chance.choice(self.plain())
            deed = self.chance.random()
            if deed < 0.5:
                self.write()
            elif deed < 0.8:
                self.write(path=some)
            elif deed < 0.9:
                self.gone.append(self.notes.pop(some).token)
                (self.vault / some).unlink()
            else:
                self.move(some)
            yield

    def move(self, old: str) -> None:
        """Rename a file; its record keeps its place in the order first seen."""
        new = f"{self.chance.choice('ghijk')}/{_name(old)}"
        if new in self.notes:
            return
        (self.vault / new).parent.mkdir(exist_ok=True)
        (self.vault / old).rename(self.vault / new)
        self.notes[new] = self.notes.pop(old)
        self.moved.add(_name(old))

    def start(self) -> None:
        """Start a worker and do not wait for it."""
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("recall-worker")), *self.options()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.root / "stderr").open("ab"),
            start_new_session=True,
        )

    def kill(self) -> None:
        """End the worker at once, whatever it does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self) -> None:
        """Wait until the worker serves and has looked at the vault as it is now.

        Raises:
            RuntimeError: It ended, or is not there in time.
        """
        assert self.process is not None
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"the worker ended with code {self.process.returncode}")
            with suppress(RecallError):
                ask(self.state, {"do": "scan"}, timeout_s=START_S)
                return
            time.sleep(0.02)
        raise RuntimeError("the worker does not serve")

    def rebuild(self) -> None:
        """Order a rebuild; the kill is expected to cut it off."""
        with suppress(RecallError):
            for _ in order(self.state, {"do": "rebuild"}):
                pass


def play(life: Life, errors: dict[str, list[str]]) -> None:
    """One round: edits, kill, perhaps another kill while it starts, start, look."""
    chance = life.chance
    if life.seen:
        rebuilding = threading.Thread(target=life.rebuild)
        if chance.random() < 0.3:
            rebuilding.start()
        until = time.monotonic() + chance.uniform(0, 0.8)
        pause = chance.choice((0, 0, 0.01, 0.05))
        for _ in life.mutate():
            time.sleep(pause)
        time.sleep(max(0.0, until - time.monotonic()))
    else:
        life.start()
        time.sleep(chance.uniform(0.3, 2.0))  # the first load
    life.kill()
    _check_snapshot_file(life, errors)
    while chance.random() < 0.3:
        life.start()
        time.sleep(chance.uniform(0, 1.5))
        life.kill()
    life.start()
    life.wait()
    _check_ledger(life, errors)
    _check_digests(life, errors)


def _check_snapshot_file(life: Life, errors: dict[str, list[str]]) -> None:
    """A torn snapshot would be a prompt without its slots."""
    path = life.state / "snapshots" / snapshot_name(None)
    try:
        text = unpack_snapshot(path.read_bytes()).payload.decode()
    except FileNotFoundError:
        if life.seen:
            errors["digest"].append("no snapshot after the kill")
        return
    except FrameError as error:
        errors["digest"].append(f"torn snapshot: {error}")
        return
    for note in _fixed(life):
        if note.token not in text:
            errors["digest"].append("a fixed slot missing in the snapshot after the kill")


def _check_ledger(life: Life, errors: dict[str, list[str]]) -> None:
    """Every note is a record with its text, and keeps its place in the order first seen."""
    with Ledger.open(life.state / "ledger.sqlite3") as ledger:
        records = ledger.records(ledger.passage_facts().record_ids).values()
        found = {record.title.removeprefix("About "): record for record in records}
        lost = [path for path, note in life.notes.items() if note.token not in found]
        errors["lost"] += [f"{path} is not in the ledger" for path in lost]
        if len(found) > len(life.notes):
            errors["digest"].append(f"{len(found) - len(life.notes)} records of notes that are gone")
        for path, note in life.notes.items():
            name, record = _name(path), found.get(note.token)
            if name in life.edited & life.moved:
                life.seen.pop(
                    name, None
                )  # another name and another text at once: nobody can tell it is the same
            if record is not None and life.seen.setdefault(name, record.first_seen) != record.first_seen:
                errors["lost"].append(f"{path} lost its place in the order first seen")
                life.seen[name] = record.first_seen
        life.edited.clear()
        life.moved.clear()
        config = Config(state_dir=life.state, vault=life.vault)
        shown = render(ledger.snapshot_records(), ledger.window(""), config.budget)
        file = unpack_snapshot((life.state / "snapshots" / snapshot_name(None)).read_bytes())
        if json.loads(b'"' + file.payload + b'"') != shown.text:
            errors["digest"].append("the snapshot is not what the ledger says")


def _check_digests(life: Life, errors: dict[str, list[str]]) -> None:
    """Prompts through the real hook: fixed slots, the newest, what is asked for; nothing that is gone."""
    status = ask(life.state, {"do": "status"})
    profiles = sum(note.kind == "profile" for note in life.notes.values())  # never searched
    if status["index"]["passages"] != status["vault"]["passages"] - profiles:
        errors["digest"].append("index and ledger hold different passages")
    dated = [note for note in life.notes.values() if note.kind in ("lesson", "conclusion") and not note.high]
    newest = sorted((note for note in dated if note.day), key=lambda note: -note.day)[:RECENT_N]
    undated = sum(not note.day for note in dated)
    asked = life.chance.sample(life.plain(), SAMPLES)
    for path in asked:
        token = life.notes[path].token
        digest = _digest(life, f"How is {token} used?")
        wanted = [note.token for note in _fixed(life)] + [token]
        if undated < RECENT_N // 2:
            wanted += [note.token for note in newest]
        errors["digest"] += [f"{path}: {word} missing in the digest" for word in wanted if word not in digest]
        errors["digest"] += [
            f"{word} is gone and stands in the digest" for word in life.gone if word in digest
        ]
    if life.gone:
        word = life.chance.choice(life.gone)
        if word in _digest(life, f"How is {word} used?"):
            errors["digest"].append(f"{word} is gone and was found")


def _fixed(life: Life) -> list[Note]:
    return [note for note in life.notes.values() if note.high or note.kind == "profile"]


def _digest(life: Life, prompt: str) -> str:
    """What the assistant gets."""
    config = Config(state_dir=life.state, vault=life.vault, autostart=False, deadline_ms=5_000)
    run = subprocess.run(
        hook_command("claude-code", "prompt", config),
        input=json.dumps({"prompt": prompt, "session_id": prompt}).encode(),
        capture_output=True,
        check=True,
        cwd=life.root,
    )
    return str(json.loads(run.stdout)["hookSpecificOutput"]["additionalContext"]) if run.stdout else ""


def run(rounds: int, *, seed: int, notes: int, work: Path) -> dict[str, object]:
    """Play the rounds.

    Returns:
        Figures, JSON-ready: rounds, wrong_digests and records_lost as counts, and what was wrong.
    """
    started = time.monotonic()
    wrong: list[str] = []
    lost: list[str] = []
    life = None
    try:
        for number in range(rounds):
            if life is None or number % ROUNDS_OF_A_LIFE == 0:
                _end(life)
                life = Life(root=work / f"life-{number}", chance=random.Random(f"{seed}-{number}"))
                life.vault.mkdir(parents=True)
                life.fill(notes)
            errors: dict[str, list[str]] = {"digest": [], "lost": []}
            try:
                play(life, errors)
            except (RuntimeError, RecallError, OSError, subprocess.SubprocessError) as error:
                errors["digest"].append(f"{type(error).__name__}: {error}")
            wrong += [f"round {number + 1}: {text}" for text in errors["digest"]]
            lost += [f"round {number + 1}: {text}" for text in errors["lost"]]
            print(f"round {number + 1}: wrong {len(wrong)}, lost {len(lost)}", file=sys.stderr)
    finally:
        _end(life)
    return {
        "rounds": rounds,
        "wrong_digests": len(wrong),
        "records_lost": len(lost),
        "seconds": round(time.monotonic() - started, 1),
        "what": wrong + lost,
    }


def _end(life: Life | None) -> None:
    """Let no worker outlive the script."""
    if life is not None and life.process is not None and life.process.poll() is None:
        life.kill()


def main() -> None:
    """Read the command line, play, print."""
    parser = argparse.ArgumentParser(prog="scripts/crash")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--notes", type=int, default=700, help="more than one batch of a scan holds")
    parser.add_argument("--work", type=Path, help="keep vaults and state folders here")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    work = args.work or Path(tempfile.mkdtemp(prefix="recall-crash-"))
    try:
        figures = run(args.rounds, seed=args.seed, notes=args.notes, work=work)
    finally:
        if args.work is None:
            shutil.rmtree(work, ignore_errors=True)
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"rounds         {figures['rounds']:>6}   {figures['seconds']} s, seed {args.seed}")
        print(f"wrong digests  {figures['wrong_digests']:>6}\nrecords lost   {figures['records_lost']:>6}")
        print(*figures["what"], sep="\n")  # type: ignore[misc]
    sys.exit(bool(figures["wrong_digests"] or figures["records_lost"]))


if __name__ == "__main__":
    main()
