"""Ledger moves: which files were renamed, told by their content alone.

Flow:  vault → [scan] → ledger → indexes → snapshot → hook
In:    the vault's files now, the ledger's files of last time.   Out: old path to new path.
Never: a file read whose size fits nothing that left.
Next:  worker/recall_worker/scan.py
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from recall_worker.ledger_types import FileState
from recall_worker.vault import VaultFile


def same_stat(file: VaultFile, state: FileState | None) -> bool:
    """True if size and time are those of the last reading."""
    return state is not None and (file.size, file.mtime_ns) == (state.size, state.mtime_ns)


def without_moved(files: Mapping[str, VaultFile], known: Mapping[str, FileState]) -> dict[str, VaultFile]:
    """Leave out files that were renamed while the walk was on, and so were listed at both places.

    Taken for a copy, the new path would begin as another record. A rename keeps size and time: only where a new path
    has those of a known one is the disk asked again.

    Args:
        files: What the walk found, by path.
        known: The ledger's files, by path.
    """
    arrived = {(file.size, file.mtime_ns) for path, file in files.items() if path not in known}
    return {
        path: file
        for path, file in files.items()
        if path not in known or (file.size, file.mtime_ns) not in arrived or os.path.lexists(file.location)
    }


def find_moves(
    files: Mapping[str, VaultFile],
    known: Mapping[str, FileState],
    *,
    sha256_of: Callable[[VaultFile], str | None],
) -> dict[str, str]:
    """Tell which files were renamed: their content left one path and arrived at another one.

    A path that exists before and after is left only if something else moved in (files traded places); a note
    that was copied and then edited stays where it is.

    Args:
        files: The vault now, by path.
        known: The ledger's files, by path.
        sha256_of: Hashes a file now; None if it cannot be read. Asked only where a size fits.

    Returns:
        Old path to new path.
    """
    arrivals = {path for path, file in files.items() if not same_stat(file, known.get(path))}
    left: defaultdict[str, list[str]] = defaultdict(list)
    sizes: defaultdict[int, set[str]] = defaultdict(set)
    for path, state in sorted(known.items()):
        if path not in files or path in arrivals:
            left[state.sha256].append(path)
            sizes[state.size].add(path)
    arrived: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(arrivals):
        fits = sizes.get(files[path].size, set()) - {path}
        sha256 = sha256_of(files[path]) if fits else None
        if sha256 is not None and sha256 in left:
            arrived[sha256].append(path)
    moves: dict[str, str] = {}
    for sha256, new in arrived.items():
        stayed = set(left[sha256]) & set(new)  # touched, nothing more
        targets = [path for path in new if path not in stayed]
        gone = _pair_paths([path for path in left[sha256] if path not in files], targets)
        still_there = [path for path in left[sha256] if path in files and path not in stayed]
        moves |= gone | _pair_paths(still_there, [path for path in targets if path not in set(gone.values())])
    while dangling := {old for old in moves if old in files and old not in moves.values()}:
        moves = {old: new for old, new in moves.items() if old not in dangling}
    return moves


def _pair_paths(old: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    """Pair paths of one content: equal file names first (a folder was renamed), then in order."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in reversed(new):
        by_name[PurePosixPath(path).name].append(path)
    pairs = {path: names.pop() for path in old if (names := by_name.get(PurePosixPath(path).name))}
    taken = set(pairs.values())
    rest = zip(
        (path for path in old if path not in pairs), (path for path in new if path not in taken), strict=False
    )
    return pairs | dict(rest)
