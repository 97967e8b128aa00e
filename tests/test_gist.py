"""Gist: the few lines of a long prompt that the vault has something to say about."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.asking import fit
from recall_worker.gist import GIST_WEIGHT, cut_pieces, looks_pasted, take_gist
from recall_worker.hybrid import HybridIndex, View
from recall_worker.ledger import Ledger
from recall_worker.tear import weigh
from vaults import config_of, rescan, write_note

TRACE = "\n".join(
    f'  File "/srv/app/jobs/worker_{number}.py", line {number}, in run_{number}\n    self.queue.pop(item_{number})'
    for number in range(600)
)
LOG = "\n".join(
    f"2026-11-{day:02} 10:00:{second:02} INFO app.web: GET /health 200 in {second} ms, request {day * second}"
    for day in range(1, 20)
    for second in range(60)
)


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """A handful of notes, by their words alone."""
    config = config_of(tmp_path)
    write_note(config.vault, "knowledge/vpn.md", "The office VPN drops idle sessions after ten minutes.")
    write_note(
        config.vault, "knowledge/pool.md", "QueuePool limit overflow means a connection was not returned."
    )
    write_note(config.vault, "knowledge/th.md", "สำรองฐานข้อมูลทุกคืนก่อนตีสาม แล้วลองกู้คืนทุกเดือน")
    write_note(config.vault, "knowledge/ja.md", "会議の議事録は翌日の正午までに共有する。")
    write_note(
        config.vault, "knowledge/tea.md", f"Tea is brewed for three minutes. Seen {dt.date(2026, 1, 1)}."
    )
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        rescan(config, ledger)
        index.follow()
        yield index.view


def gist(view: View, prompt: str) -> str:
    """As a hook's prompt would be cut."""
    return take_gist(prompt, view.lexical.idf, lambda piece: fit(view, piece)).text


def test_a_short_prompt_is_its_own_gist(view: View) -> None:
    """Nothing is cut where nothing needs to be, code included."""
    prompt = 'why?\n```\nx = 1\n```\n  File "a.py", line 1'
    assert gist(view, prompt) == prompt


@pytest.mark.parametrize(
    "question",
    [
        "Why does the office VPN drop my idle sessions?",
        "ต้องสำรองฐานข้อมูลตอนไหน",
        "議事録はいつまでに共有する？",
    ],
)
@pytest.mark.parametrize("paste", [TRACE, LOG], ids=["trace", "log"])
@pytest.mark.parametrize("place", ["before", "after", "between"])
def test_a_question_survives_what_is_pasted(view: View, question: str, paste: str, place: str) -> None:
    """Wherever it stands beside 5,000 words of a program's own."""
    half = len(paste) // 2
    prompt = {
        "before": f"{question}\n\n{paste}",
        "after": f"{paste}\n{question}",
        "between": f"{paste[:half]}\n{question}\n{paste[half:]}",
    }[place]
    assert question in gist(view, prompt)


def test_a_trace_gives_its_informative_line(view: View) -> None:
    """Nobody asks anything: the line that a note is about is found among those that say nothing here."""
    found = gist(view, f"{TRACE}\nsqlalchemy.exc.TimeoutError: QueuePool limit of size 5 overflow 10 reached")
    assert "QueuePool limit" in found
    assert weigh(found) <= GIST_WEIGHT


def test_a_question_in_another_language_than_the_notes_is_kept(view: View) -> None:
    """No note has its words, so words cannot judge it: it stands at an edge and is a person's."""
    question = "Почему таблица остаётся большой после удаления строк?"
    assert question in gist(view, f"{question}\n{TRACE}\nQueuePool limit overflow")


def test_what_is_kept_stands_in_its_order(view: View) -> None:
    """A reader of the gist reads the prompt with pieces left out."""
    lines = [f"The office VPN drops idle sessions, number {'x' * number}." for number in range(1, 30)]
    kept = gist(view, "\n".join(lines)).split("\n")
    assert len(kept) > 1
    assert kept == [line for line in lines if line in kept]


def test_lines_that_differ_in_numbers_are_one() -> None:
    """A log says the same thing a thousand times."""
    assert len(list(cut_pieces(LOG))) == 1


@pytest.mark.parametrize(
    ("line", "pasted"),
    [
        ("Why does the VPN drop?", False),
        ("ทำไม VPN หลุดบ่อย", False),
        ("- first item of a list", False),
        ("  - nested item", False),
        ("1. do this", False),
        ("2026-11-02T10:00:00Z ERROR boom", True),
        ("ERROR: relation does not exist", True),
        ("    at com.acme.Foo.bar(Foo.java:12)", True),
        ('  File "a.py", line 3, in f', True),
        ("$ git push --force", True),
        ("src/app/db.py:12:3: E1101 no member", True),
        ("{'a': [1, 2, 3], 'b': {}}", True),
        ("", False),
    ],
)
def test_who_wrote_a_line(line: str, pasted: bool) -> None:
    """Words of a person and lines of a program."""
    assert looks_pasted(line) is pasted


def test_a_long_trace_is_cut_in_time(view: View) -> None:
    """Of 5,000 words and a megabyte in one line: a fraction of the hook's half second."""
    started = time.perf_counter()
    gist(view, f"{TRACE}\nwhy?\n{'0123456789abcdef ' * 60_000}")
    assert time.perf_counter() - started < 0.4


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cn"]), min_size=200))
def test_any_text_has_a_gist_within_the_limit(text: str) -> None:
    """Whatever is typed, what is searched is short, and part of it."""
    found = take_gist(text * 4, lambda word: (1.0, 1), len)
    assert weigh(found.text) <= 2 * GIST_WEIGHT
    assert found.best in found.text


@pytest.mark.parametrize("gap", [" ", ""], ids=["spaces", "none"])
def test_a_sentence_without_an_end_is_cut(view: View, gap: str) -> None:
    """Dictated text has no stops, and some scripts no spaces: the part that a note answers is found."""
    filler = gap.join(["今日は晴れて風もなく公園で本を読んだ"] * 40)
    assert "議事録" in gist(view, f"{filler}{gap}議事録はいつまでに共有する{gap}{filler}")


@pytest.mark.parametrize("line", ["数据库" * 200, "ก" * 900, "x" * 900, "😀" * 400])
def test_a_single_long_line_keeps_to_the_weight(view: View, line: str) -> None:
    """In any script: a letter of a dense one takes twice the encoder's time."""
    cut = take_gist(f"```\n{line}\n```", view.lexical.idf, lambda piece: fit(view, piece))
    assert 0 < weigh(cut.text) <= GIST_WEIGHT
    assert 0 < weigh(cut.best) <= GIST_WEIGHT
