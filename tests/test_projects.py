"""Projects: a directory's project by the config, else by the repository around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recall_worker.ledger import Ledger
from recall_worker.projects import Projects, git_top


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.open(tmp_path / "ledger.sqlite3") as opened:
        yield opened


def repository(path: Path) -> Path:
    """A folder that git would take for a repository."""
    (path / ".git").mkdir(parents=True)
    return path


def test_the_longest_configured_directory_wins(tmp_path: Path, ledger: Ledger) -> None:
    """`[projects]` may nest."""
    outer, inner = tmp_path / "src", tmp_path / "src" / "billing"
    projects = Projects({"all": (outer,), "billing": (inner,)}, ledger)
    assert projects.of(inner / "deep", []) == "billing"
    assert projects.of(outer / "other", []) == "all"
    assert projects.of(tmp_path, []) is None
    assert projects.directories("billing") == (inner,)


def test_a_repository_is_known_by_its_top_folder(tmp_path: Path, ledger: Ledger) -> None:
    """Only names that have records are bound."""
    top = repository(tmp_path / "billing")
    projects = Projects({}, ledger)
    assert projects.of(top / "a" / "b", ["other"]) is None
    assert projects.directories("billing") == ()
    assert projects.of(top / "a" / "b", ["billing"]) == "billing"
    assert projects.directories("billing") == (top,)


def test_equal_basenames_do_not_meet(tmp_path: Path, ledger: Ledger) -> None:
    """The first repository of a name keeps it, also after a restart; a folder whose name begins alike is another."""
    first, second = repository(tmp_path / "a" / "app"), repository(tmp_path / "b" / "app")
    assert Projects({}, ledger).of(first, ["app"]) == "app"
    assert Projects({}, ledger).of(second, ["app"]) is None
    assert Projects({}, ledger).of(tmp_path / "a" / "app2", ["app"]) is None


def test_a_configured_name_is_not_taken_by_a_repository(tmp_path: Path, ledger: Ledger) -> None:
    """What the config says of a name is all there is to it."""
    elsewhere = repository(tmp_path / "clone" / "billing")
    assert Projects({"billing": (tmp_path / "src",)}, ledger).of(elsewhere, ["billing"]) is None


def test_a_worktree_has_a_git_file(tmp_path: Path) -> None:
    """`.git` may be a file; nothing above it is looked at."""
    repository(tmp_path / "main")
    worktree = tmp_path / "main" / "trees" / "fix"
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: elsewhere\n")
    assert git_top(worktree) == worktree
    assert git_top(tmp_path / "none") in (None, *tmp_path.parents)
