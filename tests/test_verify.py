"""Verify: identical where it must be, and a difference is found and placed where there is one."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recall_worker.config import Budget, Config
from recall_worker.frames import pack_snapshot
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.publish import read_snapshot
from recall_worker.refresh import Publisher, read_vault
from recall_worker.verify import ENVIRONMENTS, Verdict, verify
from recall_worker.verify_copies import copy_vault
from vaults import config_of, write_note

RECALL = Path(sys.executable).parent / "recall"
EXAMPLE = Path(__file__).parents[1] / "docs" / "example-vault"
TIL = Path(__file__).parents[1] / "../shared/data/vault-til"
FEW = (ENVIRONMENTS[2], ENVIRONMENTS[5], ENVIRONMENTS[6], ENVIRONMENTS[7])
"""One environment of each kind, and the second fresh build that the first is compared with."""


def publish(config: Config, **more: float) -> None:
    """Read the vault and publish; with `idle_s=0.0` as a worker does whose session is busy."""
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        read_vault(config, ledger)
        idle_s = more.get("idle_s", float("inf"))
        Publisher(config, ledger, Projects(config.projects, ledger), idle_s=lambda: idle_s).publish()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A published vault: three scripts, a project, undated notes, more lessons than a window holds."""
    made = config_of(tmp_path)
    write_note(made.vault, "profile/me.md", "Schreibt Go; ผู้ใช้ชอบคำตอบสั้น ๆ", date="2026-01-01")
    write_note(
        made.vault, "lessons/İstanbul.md", "İki nokta: I, ı, i, İ.", date="2026-01-02", priority="high"
    )
    write_note(made.vault, "lessons/undated.md", "本番では手で直さない。")
    write_note(made.vault, "lessons/tax.md", "Tax is rounded per line.", date="2026-01-03", project="billing")
    for number in range(9):
        write_note(made.vault, f"lessons/{number}.md", f"Lesson number {number}.", date="2026-02-01")
        publish(made)
    return made


def outcome(verdict: Verdict) -> tuple[int, int]:
    """Differences and notes not read."""
    return len(verdict.differences), verdict.unread


def test_every_environment_is_identical(config: Config) -> None:
    """Each kind of rendering, in each environment, gives the published bytes; nothing of the state is touched."""
    before = {path: path.stat() for path in (config.state_dir / "snapshots").iterdir()}
    verdict = verify(config)
    assert outcome(verdict) == (0, 0)
    assert verdict.environments == ENVIRONMENTS
    assert len(verdict.snapshots) == 2
    after = {path: path.stat() for path in (config.state_dir / "snapshots").iterdir()}
    assert {p: (s.st_ino, s.st_mtime_ns) for p, s in after.items()} == {
        p: (s.st_ino, s.st_mtime_ns) for p, s in before.items()
    }


def test_a_waiting_stride_is_what_is_published(config: Config) -> None:
    """The window comes from the ledger, so one that waits to be chosen anew verifies like any other."""
    for number in range(20, 26):
        write_note(config.vault, f"lessons/{number}.md", f"Lesson number {number}.", date="2026-03-01")
        publish(config, idle_s=0.0)
    snapshot = (config.state_dir / "snapshots/everywhere.md").read_text()
    assert "number 25." not in snapshot
    assert outcome(verify(config, environments=FEW)) == (0, 0)


def test_a_difference_is_placed(config: Config) -> None:
    """Other bytes on disk than the ledger's: file, line, column and byte of the first one."""
    path = config.state_dir / "snapshots/everywhere.snap"
    frame = read_snapshot(path.parent, path.name)
    assert frame is not None
    text = json.loads(b'"' + frame.payload + b'"')
    line = text.split("\n").index("- (2026-02-01) Lesson number 4.") + 1
    path.write_bytes(pack_snapshot(text.replace("number 4", "number for")))
    verdict = verify(config, environments=FEW)
    assert [(item.file, item.line, item.column) for item in verdict.differences] == [
        ("everywhere.snap", line, len("- (2026-02-01) Lesson number ") + 1)
    ] * 2
    byte = verdict.differences[0].byte
    assert byte is not None
    assert path.read_bytes()[byte:].startswith(b"for")


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_missing_or_torn_snapshot_differs(config: Config, damage: str) -> None:
    """It has no place, but it counts."""
    path = config.state_dir / "snapshots/everywhere.snap"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    verdict = verify(config, environments=FEW[:1])
    assert [(item.file, item.byte) for item in verdict.differences] == [("everywhere.snap", None)]


def test_unread_notes_are_told(config: Config) -> None:
    """An edit that no worker read yet: the ledger's rendering is still checked, the copies among themselves."""
    write_note(config.vault, "lessons/1.md", "Edited.", date="2026-02-01")
    write_note(config.vault, "lessons/new.md", "New.", date="2026-02-01")
    assert outcome(verify(config, environments=ENVIRONMENTS[2:6])) == (0, 2)


def test_a_note_that_cannot_be_read_is_no_difference(config: Config) -> None:
    """Its last good version stands, in the copy as in the vault."""
    (config.vault / "lessons/2.md").write_bytes(b"\xff\xfe not text \xff")
    publish(config)
    assert "number 2." in (config.state_dir / "snapshots/everywhere.md").read_text()
    assert outcome(verify(config, environments=FEW)) == (0, 0)


def test_a_copy_has_other_inodes_and_the_same_notes(config: Config, tmp_path: Path) -> None:
    """What is compared is a vault of its own, whatever order it was made in."""
    for order in ("as stored", "reversed", "shuffled"):
        target = tmp_path / order
        copy_vault(config, target, order=order, seed=7)  # type: ignore[arg-type]
        copied = {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()}
        stored = {path.relative_to(config.vault): path.read_bytes() for path in config.vault.rglob("*.md")}
        assert copied == stored


def run_verify(config: Config, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as a person types it."""
    options = ["--state", str(config.state_dir), "--vault", str(config.vault), "--set", "model=none"]
    return subprocess.run(
        [str(RECALL), "verify", *options, *arguments], capture_output=True, text=True, check=False
    )


def test_command_lists_the_environments(config: Config) -> None:
    """Exit 0, a line for each environment, or the same as JSON; with other limits exit 12 and a place."""
    run = run_verify(config)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count("identical  ") == len(ENVIRONMENTS)
    run = run_verify(config, "--json", "--set", "budget.recent_record_units=30")
    facts = json.loads(run.stdout)
    assert (run.returncode, facts["identical"]) == (12, False)
    assert "everywhere.snap: line " in run.stderr
    assert [item["identical"] for item in facts["environments"]] == [False] * 6 + [True] * 2


def test_help_is_golden() -> None:
    """What `recall verify --help` says is a reviewed file."""
    help_text = (Path(__file__).parent / "golden/help/verify.txt").read_text(encoding="utf-8")
    run = subprocess.run(
        [str(RECALL), "verify", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "100"},
    )
    assert run.stdout == help_text


def test_nothing_published_yet(tmp_path: Path) -> None:
    """It says what to do instead of making an empty state."""
    run = run_verify(config_of(tmp_path))
    assert run.returncode == 1
    assert "recall rebuild" in run.stderr
    assert not (tmp_path / "state").exists()


def test_example_vault(tmp_path: Path) -> None:
    """The vault that comes with Recall verifies in all environments."""
    config = Config(state_dir=tmp_path / "state", vault=tmp_path / "vault", model="none", budget=Budget())
    shutil.copytree(EXAMPLE, config.vault)
    publish(config)
    assert outcome(verify(config)) == (0, 0)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not TIL.is_dir(), reason="../shared/data/vault-til is not there")
def test_a_large_collection_of_dated_lessons(tmp_path: Path) -> None:
    """1,862 notes turned into lessons, several on one day, verify in one environment of each kind."""
    config = config_of(tmp_path)
    for number, path in enumerate(sorted(TIL.rglob("*.md"))):
        day = dt.date(2020, 1, 1) + dt.timedelta(days=number // 4)
        front = f"---\ntype: lesson\ndate: {day}\n---\n".encode()
        target = config.vault / path.relative_to(TIL)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(front + path.read_bytes())
    publish(config)
    assert outcome(verify(config, environments=FEW)) == (0, 0)
