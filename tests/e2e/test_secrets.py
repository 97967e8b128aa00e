"""What is withheld is nowhere in the state folder, whatever a real worker made of the vault."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.conftest import Place
from planted import KEY_BODY, PLANTED, PRIVATE_KEY

VALUES = [value for _, _, value in PLANTED.values() if len(value) > 12] + KEY_BODY.split("\n")
FILLER = "The quiet hour is between five and seven. " * 20


def leaks(folder: Path, values: list[str]) -> list[tuple[str, str]]:
    """Files below a folder whose bytes hold one of some values, with the value."""
    files = [(file.relative_to(folder), file.read_bytes()) for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 5
    return [(str(name), value) for name, data in files for value in values if value.encode() in data]


def fill(place: Place) -> None:
    """A note for each planted secret, every type, one note with a private key."""
    kinds = ("lesson", "conclusion", "knowledge", "profile")
    for number, (_, line, _) in enumerate(PLANTED.values()):
        text = (
            f"# Server {number}\n\n## Access\n{line}\n{FILLER}\n\n## Hours\nServer {number} rests. {FILLER}"
        )
        place.note(f"notes/{number}.md", text, type=kinds[number % 4], date="2026-01-02", priority="high")
    place.note(
        "notes/key.md", f"# Signing\n\n## Key\n{PRIVATE_KEY}\n{FILLER}\n\n## Use\nSign at night. {FILLER}"
    )
    place.note("notes/broken.md", f"---\ntype: [lesson\nkey: {PLANTED['GitHub'][1]}\n---\nwords")


def test_no_secret_reaches_the_state_folder(place: Place) -> None:
    """Scan, rebuild, prompts and explain later, not one byte of a value is in ledger, index, snapshot or log."""
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["vault"]["files"] == len(PLANTED) + 2)
    place.recall("rebuild")
    prompt = "what is the access key of the server, and when does it rest?"
    digest = place.digest(prompt)
    assert "rests" in digest
    explained = place.recall("explain", prompt).stdout
    status = place.status()
    said = place.recall("status", check=False)
    place.recall("stop")
    modes = {file.stat().st_mode & 0o777 for file in place.state.rglob("*") if not file.is_dir()}
    assert modes == {0o600}
    assert {file.stat().st_mode & 0o777 for file in place.state.rglob("*") if file.is_dir()} == {0o700}
    for text in (digest, explained, str(status), said.stdout, said.stderr):
        assert [value for value in VALUES if value in text] == []
    assert leaks(place.state, VALUES) == []
    told = {problem["path"]: problem for problem in status["problems"]}
    assert set(told) == {f"notes/{number}.md" for number in range(len(PLANTED))} | {
        "notes/key.md",
        "notes/broken.md",
    }
    assert told["notes/key.md"]["line"] is not None
    assert "(private key)" in told["notes/key.md"]["message"]


def test_a_note_freed_of_its_secret_is_recalled(place: Place) -> None:
    """Taking the value out brings the passage back at the next scan, and the problem goes."""
    text = "# Nightly backup\n\nThe backup of the harbour database runs at four. Key: {}"
    place.note("lessons/backup.md", text.format(PLANTED["GitHub"][1]), date="2026-01-02")
    place.note("lessons/other.md", "Tea is served at noon.", date="2026-01-02")
    place.recall("start")
    place.wait(lambda: place.status()["problems"])
    assert "harbour" not in place.digest("when does the backup of the harbour database run?")
    place.note("lessons/backup.md", text.format("in the safe"), date="2026-01-02")
    place.wait(lambda: not place.status()["problems"])
    place.wait(lambda: "harbour" in place.digest("when does the backup of the harbour database run?"))


@pytest.mark.parametrize("mark", ["<private>{}</private>", "ghp_" + "{}"])
def test_what_is_withheld_later_is_gone_after_a_rebuild(place: Place, mark: str) -> None:
    """A word that was searchable once is in no page of the database and no segment of the index any more."""
    word = "qzxvplugh0123456789ABCDEFghijklmnopq"
    text = f"# Harbour\n\nThe harbour master sits in room {{}}.\n\n{FILLER}"
    place.note("knowledge/harbour.md", text.format(word), date="2026-01-02")
    place.note("lessons/other.md", "Tea is served at noon.", date="2026-01-02")
    place.recall("start")
    place.wait(lambda: word in place.digest("where does the harbour master sit?"))
    place.note("knowledge/harbour.md", text.format(mark.format(word)), date="2026-01-02")
    place.wait(lambda: word not in place.digest("where does the harbour master sit?"))
    place.recall("rebuild")
    place.recall("stop")
    assert leaks(place.state, [word, word.lower()]) == []
