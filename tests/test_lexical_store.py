"""Lexical store: whole after every kind of change, and after every kind of failure."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from recall_worker.errors import LexicalIndexError
from recall_worker.lexical import LexicalIndex
from recall_worker.records import PassageId
from tests.lexical_helpers import LIVELY, best, filled, ids, passage, passages

whoosh_leaks = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Where Whoosh fails half-way it leaves files to the garbage collector, which closes them."""


def test_replaying_an_update_adds_nothing_twice(tmp_path: Path) -> None:
    """After a crash between commit and position the update comes again: same passages, same scores."""
    texts = ["alpha beta", "beta gamma"]
    opened = filled(tmp_path / "lexical", texts)
    before = opened.scores("beta", ids(2)).values
    opened.update(added=passages(texts) * 2, removed=[PassageId(77)], seq=3)
    opened.close()
    again = LexicalIndex.open(tmp_path / "lexical")
    again.update(added=passages(texts), removed=[], seq=4)
    assert len(again) == 2
    assert again.seq == 4
    np.testing.assert_array_equal(again.scores("beta", ids(2)).values, before)


def test_added_and_removed_at_once_is_not_there(tmp_path: Path) -> None:
    """A passage that came and went between two scans never shows; one twice in a batch shows once."""
    opened = LexicalIndex.open(tmp_path / "lexical")
    opened.update(
        added=[passage(1, "alpha"), passage(2, "alpha"), passage(2, "alpha")], removed=[PassageId(1)], seq=1
    )
    assert len(opened) == 1
    assert (opened.scores("alpha", ids(2)).values > 0).tolist() == [False, True]


def test_removing_everything_and_compacting_leaves_a_working_index(tmp_path: Path) -> None:
    """An index emptied by deletions merges to nothing and takes passages again."""
    opened = filled(tmp_path / "lexical", ["alpha", "beta"])
    opened.update(added=[], removed=[PassageId(1), PassageId(2)], seq=9)
    opened.compact()
    assert opened.scores("alpha", ids(2)).values.tolist() == [0, 0]
    opened.update(added=[passage(3, "alpha")], removed=[], seq=10)
    assert len(LexicalIndex.open(tmp_path / "lexical")) == 1


def test_compacting_drops_deleted_passages_from_disk(tmp_path: Path) -> None:
    """After many deletions the files shrink; the position stays."""
    opened = filled(
        tmp_path / "lexical", [" ".join(random.Random(n).choices(LIVELY, k=60)) for n in range(40)]
    )
    opened.update(added=[], removed=[PassageId(n) for n in range(1, 36)], seq=50)
    size = sum(file.stat().st_size for file in (tmp_path / "lexical").iterdir())
    opened.compact()
    assert sum(file.stat().st_size for file in (tmp_path / "lexical").iterdir()) < size
    assert (len(opened), opened.seq) == (5, 50)


def test_searches_see_whole_commits_while_an_update_runs(tmp_path: Path) -> None:
    """Threads that search during commits and a merge find each batch entirely or not at all, and no error."""
    opened = filled(tmp_path / "lexical", ["alpha beta"] * 10)
    done = threading.Event()
    wrong: list[object] = []

    def search() -> None:
        while not done.is_set():
            try:
                count = int(np.count_nonzero(opened.scores("alpha", ids(60)).values))
            except Exception as error:  # the test reports what a thread would swallow
                wrong.append(error)
                return
            if count % 10:
                wrong.append(count)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for batch in range(1, 6):
        opened.update(added=passages(["alpha beta"] * 10, batch * 10 + 1), removed=[], seq=batch)
    opened.update(added=[], removed=[PassageId(n) for n in range(1, 31)], seq=6)
    opened.compact()
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert np.count_nonzero(opened.scores("alpha", ids(60)).values) == 30


def test_a_closed_index_answers_until_it_is_let_go(tmp_path: Path) -> None:
    """While a fresh index is built in the same place, searches go on with the old one."""
    opened = filled(tmp_path / "lexical", ["alpha beta", "gamma"])
    opened.close()
    shutil.rmtree(tmp_path / "lexical")
    assert best(opened, "beta", 2) == 1
    assert best(filled(tmp_path / "lexical", ["delta", "alpha"]), "alpha", 2) == 2


class Unreadable(str):
    """A text that cannot be read, as a damaged row would be."""

    def __format__(self, spec: str) -> str:
        """Fail as decoding would."""
        raise ValueError("unreadable")


def test_a_bad_passage_costs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A passage that cannot be indexed is left out and logged by number; those around it are there."""
    opened = LexicalIndex.open(tmp_path / "lexical")
    batch = [passage(1, "alpha"), passage(2, Unreadable("secret")), passage(3, "alpha")]
    opened.update(added=batch, removed=[], seq=1)
    assert (opened.scores("alpha", ids(3)).values > 0).tolist() == [True, False, True]
    assert "passage=2" in caplog.text
    assert "secret" not in caplog.text


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Writing past `size` bytes of any file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@whoosh_leaks
def test_a_full_disk_loses_nothing_and_heals(tmp_path: Path) -> None:
    """When a commit cannot be written the last one serves on, and the same process can write again later."""
    opened = filled(tmp_path / "lexical", ["alpha beta"])
    more = passages(
        [" ".join(random.Random(n).choices(LIVELY, k=80)) + f" alpha x{n}y" for n in range(300)], 2
    )
    with files_limited_to(5_000), pytest.raises(LexicalIndexError, match="The last commit still stands"):
        opened.update(added=more, removed=[PassageId(1)], seq=2)
    assert (len(opened), opened.seq) == (1, 1)
    assert best(opened, "alpha", 1) == 1
    opened.update(added=more, removed=[], seq=2)
    assert (len(LexicalIndex.open(tmp_path / "lexical")), opened.seq) == (301, 2)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """Two writers on one folder would lose each other's commits; the later one is told."""
    import fcntl

    opened = filled(tmp_path / "lexical", ["alpha"])
    with (tmp_path / "lexical" / "MAIN_WRITELOCK").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LexicalIndexError, match="another process writes here"):
            opened.update(added=[passage(2, "beta")], removed=[], seq=2)
    opened.update(added=[passage(2, "beta")], removed=[], seq=2)
    assert len(opened) == 2


@pytest.mark.parametrize("key", ["schema", "analysis", "unicode", "snowballstemmer"])
def test_an_index_of_another_version_is_refused(tmp_path: Path, key: str) -> None:
    """Other terms or another layout would answer wrongly without a word, so the caller must build afresh."""
    filled(tmp_path / "lexical", ["alpha"]).close()
    meta = tmp_path / "lexical" / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {key: "other"}))
    with pytest.raises(LexicalIndexError, match="made by another version"):
        LexicalIndex.open(tmp_path / "lexical")


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        """What a hostile pickle would run."""
        return Path.touch, (self.mark,)


def test_a_foreign_folder_is_not_unpickled(tmp_path: Path) -> None:
    """Whoosh keeps pickles; a folder that is not known to be ours is refused before any of it is loaded."""
    folder = tmp_path / "lexical"
    filled(folder, ["alpha"]).close()
    (folder / "meta.json").unlink()
    mark = tmp_path / "mark"
    for toc in folder.glob("*.toc"):
        toc.write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(LexicalIndexError):
        LexicalIndex.open(folder)
    assert not mark.exists()


@whoosh_leaks
@pytest.mark.parametrize("damage", ["truncated", "removed", "garbage"])
@pytest.mark.parametrize("what", ["*.seg", "*.toc", "meta.json", "arrays-*.bin"])
def test_damage_is_told_when_opening(tmp_path: Path, damage: str, what: str) -> None:
    """Lost or cut files raise our error, whatever Whoosh raises, so that the caller rebuilds."""
    filled(tmp_path / "lexical", ["alpha beta", "gamma"]).close()
    (file,) = (tmp_path / "lexical").glob(what)
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:20] if damage == "truncated" else os.urandom(64))
    with pytest.raises(LexicalIndexError, match="lexical"):
        LexicalIndex.open(tmp_path / "lexical")
