"""Vault: which files are notes, on real folders with links, loops, odd names and closed doors."""

from __future__ import annotations

import datetime as dt
import os
import sys
import unicodedata
from pathlib import Path

import pytest

from recall_worker.errors import NoteError, VaultError
from recall_worker.records import Problem
from recall_worker.vault import VaultFile, parse_note, read_note, walk_vault

SHARED = Path(__file__).parents[1] / "../shared/data/vault-til"
TODAY = dt.date(2026, 11, 30)

as_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
case_and_bytes_kept = pytest.mark.skipif(sys.platform == "darwin", reason="the file system folds names")


def write(root: Path, *paths: str) -> None:
    """Put a small note at each path."""
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("words", encoding="utf-8")


def walk(root: Path) -> tuple[list[str], list[Problem]]:
    """Paths of the notes, and what was told."""
    problems: list[Problem] = []
    return [file.path for file in walk_vault(root, on_problem=problems.append)], problems


def test_which_files_are_notes(tmp_path: Path) -> None:
    """Markdown by its ending, hidden files and folders left out, in the order of paths."""
    write(
        tmp_path, "b.md", "a/z.MD", "a/y.markdown", "a.md/inner.md", "B.md", "templates/t.md", "日本/ก 👍.md"
    )
    write(
        tmp_path,
        ".obsidian/x.md",
        ".trash/x.md",
        "a/.git/x.md",
        ".hidden.md",
        "a/.x.md.icloud",
        "note.txt",
        "md",
    )
    assert walk(tmp_path) == (
        ["B.md", "a.md/inner.md", "a/y.markdown", "a/z.MD", "b.md", "templates/t.md", "日本/ก 👍.md"],
        [],
    )


def test_what_is_known_of_a_file(tmp_path: Path) -> None:
    """Size and time are those of the disk, and the location opens."""
    write(tmp_path, "a.md")
    os.utime(tmp_path / "a.md", ns=(1, 1_700_000_000_123_456_789))
    (file,) = walk_vault(tmp_path)
    status = (tmp_path / "a.md").stat()
    assert file == VaultFile(
        path="a.md", size=5, mtime_ns=status.st_mtime_ns, location=os.path.realpath(tmp_path / "a.md")
    )
    assert read_note(file, max_bytes=100) == b"words"


def test_names_are_composed_and_files_open(tmp_path: Path) -> None:
    """A name in NFD has an id in NFC and can be read nevertheless."""
    write(tmp_path, unicodedata.normalize("NFD", "Café/übung.md"))
    (file,) = walk_vault(tmp_path)
    assert file.path == "Café/übung.md" == unicodedata.normalize("NFC", file.path)
    assert read_note(file, max_bytes=100) == b"words"


@case_and_bytes_kept
def test_one_name_spelt_twice(tmp_path: Path) -> None:
    """Of two names that differ only in how accents are stored one is read, the other told."""
    write(tmp_path, unicodedata.normalize("NFD", "é.md"), unicodedata.normalize("NFC", "é.md"))
    paths, (problem,) = walk(tmp_path)
    assert paths == ["é.md"]
    assert (problem.path, problem.fatal) == ("é.md", True)


@case_and_bytes_kept
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """A name that is not UTF-8 is told in letters that can be printed, and costs no other file."""
    write(tmp_path, "ok.md", os.fsdecode(b"caf\xe9.md"), os.fsdecode(b"d\xff/x.md"))
    paths, problems = walk(tmp_path)
    assert paths == ["ok.md"]
    assert sorted(problem.path for problem in problems) == ["caf\\xe9.md", "d\\xff"]
    assert all(problem.path.isprintable() for problem in problems)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """What a link leads to counts at its own place; a link out of the vault is told, a loop is harmless."""
    vault, outside = tmp_path / "vault", tmp_path / "vault-outside"
    write(vault, "a/a.md")
    write(outside, "secret.md", "folder/secret.md", "image.png")
    (vault / "inner.md").symlink_to("a/a.md")
    (vault / "inner").symlink_to("a")
    (vault / "a" / "loop").symlink_to("..")
    (vault / "self").symlink_to("self")
    (vault / "out.md").symlink_to(outside / "secret.md")
    (vault / "out").symlink_to(outside / "folder")
    (vault / "image.png").symlink_to(outside / "image.png")
    (vault / "gone.md").symlink_to("nowhere.md")
    paths, problems = walk(vault)
    assert paths == ["a/a.md"]
    assert sorted((problem.path, problem.fatal) for problem in problems) == [
        ("gone.md", False),
        ("out", False),
        ("out.md", False),
    ]


def test_the_vault_itself_may_be_a_link(tmp_path: Path) -> None:
    """A person may keep the vault elsewhere."""
    write(tmp_path / "real", "a.md")
    (tmp_path / "link").symlink_to("real")
    assert walk(tmp_path / "link") == (["a.md"], [])


def test_what_is_no_ordinary_file(tmp_path: Path) -> None:
    """A pipe with the name of a note is not opened, which would wait for ever."""
    os.mkfifo(tmp_path / "pipe.md")
    assert walk(tmp_path) == ([], [])
    file = VaultFile(path="pipe.md", size=0, mtime_ns=0, location=str(tmp_path / "pipe.md"))
    with pytest.raises(NoteError, match="no ordinary file"):
        read_note(file, max_bytes=100)


@as_user
def test_closed_folders_and_files(tmp_path: Path) -> None:
    """A folder that cannot be listed is told as unknown, a file that cannot be opened as unreadable."""
    write(tmp_path, "a/a.md", "b/b.md", "c.md")
    (tmp_path / "a").chmod(0)
    (tmp_path / "c.md").chmod(0)
    try:
        paths, (problem,) = walk(tmp_path)
        assert paths == ["b/b.md", "c.md"]
        assert (problem.path, problem.fatal) == ("a", True)
        with pytest.raises(NoteError, match="Permission denied"):
            read_note(walk_vault(tmp_path)[1], max_bytes=100)
    finally:
        (tmp_path / "a").chmod(0o700)


@pytest.mark.parametrize("name", ["missing", "file.md"])
def test_no_vault(tmp_path: Path, name: str) -> None:
    """A vault that is not there, or is a file, is a fault of its own, with what to do."""
    write(tmp_path, "file.md")
    with pytest.raises(VaultError, match="set `vault` to another one"):
        walk_vault(tmp_path / name)


def test_a_note_replaced_since_the_walk(tmp_path: Path) -> None:
    """A link or a gap where the walk saw a note is refused, not followed."""
    write(tmp_path, "a.md", "b.md")
    first, second = walk_vault(tmp_path)
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").unlink()
    for file in (first, second):
        with pytest.raises(NoteError, match="cannot be read"):
            read_note(file, max_bytes=100)


def test_no_more_is_read_than_is_needed(tmp_path: Path) -> None:
    """Of a huge file one byte more than allowed is read, and the parser refuses it."""
    (tmp_path / "a.md").write_bytes(b"x" * 10_000)
    (file,) = walk_vault(tmp_path)
    data = read_note(file, max_bytes=100)
    assert len(data) == 101
    with pytest.raises(NoteError, match="more than max_note_bytes"):
        parse_note(file.path, data, max_bytes=100, today=TODAY)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared corpora")
def test_a_real_vault_loads_whole() -> None:
    """1,862 notes of one developer give one record each under its title; four are told of for a secret."""
    files = walk_vault(SHARED)
    notes = [
        parse_note(file.path, read_note(file, max_bytes=2_000_000), max_bytes=2_000_000, today=TODAY)
        for file in files
    ]
    assert len(notes) == 1_862
    told = [problem for note in notes for problem in note.problems]
    assert [problem for problem in told if "looks like a secret" not in problem.message] == []
    assert len({problem.path for problem in told}) == 4, "docs/decisions/0014 judges each of them"
    assert all(len(note.records) == 1 for note in notes if not note.problems)
    passages = [passage for note in notes for record in note.records for passage in record.passages]
    assert all(passage.title_path and len(passage.text) <= 1_200 for passage in passages)
