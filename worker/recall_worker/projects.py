"""Projects: which project a directory belongs to, and which directories a project has.

Flow:  config, ledger → [projects] → snapshot scopes, search
In:    a directory.   Out: a project's name, or None for everywhere.
Never: two repositories of one basename under one name: the first one seen keeps it.
Next:  worker/recall_worker/refresh.py
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from recall_worker.ledger import Ledger

log = logging.getLogger(__name__)


class Projects:
    """Resolves directories by `[projects]` of the config, else by the git repository around them."""

    def __init__(self, configured: Mapping[str, tuple[Path, ...]], ledger: Ledger) -> None:
        """Use the config's table first; repositories seen before are remembered in the ledger."""
        self._configured = configured
        self._ledger = ledger

    def of(self, directory: Path, names: Iterable[str], *, remember: bool = True) -> str | None:
        """Name of the project that `directory` lies in.

        Args:
            directory: Where a session works; need not exist.
            names: Projects that have records; others do not matter and are not remembered.
            remember: Let a repository seen for the first time have its name; False only to look.

        Returns:
            None if the directory belongs to no project with records, or if another repository of the same name
            was seen first: then `[projects]` in the config must tell them apart.
        """
        configured = self._of_config(directory)
        if configured is not None:
            return configured
        repository = git_top(directory)
        if repository is None or repository.name not in set(names) or repository.name in self._configured:
            return None
        bound = self._ledger.project_directory(repository.name)
        if bound is None and remember:
            self._ledger.bind_project(repository.name, repository)
            log.info("project bound name=%s", repository.name)
        return repository.name if bound in (None, repository) else None

    def directories(self, name: str) -> tuple[Path, ...]:
        """Directories of a project: the config's, else the repository seen."""
        if name in self._configured:
            return self._configured[name]
        bound = self._ledger.project_directory(name)
        return (bound,) if bound else ()

    def _of_config(self, directory: Path) -> str | None:
        """The project of the longest configured directory at or above `directory`."""
        above = {directory, *directory.parents}
        found = [
            (len(item.parts), name)
            for name, items in self._configured.items()
            for item in items
            if item in above
        ]
        return max(found)[1] if found else None


def git_top(directory: Path) -> Path | None:
    """Top folder of the git repository that holds `directory`; the `.git` of a worktree is a file."""
    for folder in (directory, *directory.parents):
        try:
            if (folder / ".git").exists():
                return folder
        except OSError:
            return None
    return None
