"""Cost bench: conversations reckoned by hand, what each policy sends, and the promised figures."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench_cost import DIGEST_KINDS, WAYS, compare, replay_api, replay_hook
from cost_model import RULES, Block, count_tokens
from cost_policies import kept_blocks, once_per_session
from cost_sessions import Habits, Session, Turn, make_session, open_world
from recall_worker.ledger import Ledger
from recall_worker.records import Record
from test_snapshot import many, record, rendered

BENCH = Path(__file__).parents[1] / "scripts" / "bench_cost.py"
HABITS = Habits()
RULES_5M = dataclasses.replace(RULES["anthropic"], minimum_tokens=0)


def turns_of(snapshots: Sequence[Sequence[Record]], *, pause_s: float = 60, calls: int = 0) -> list[Turn]:
    """A turn for each state of a vault, nothing close to any prompt."""
    return [
        Turn(
            number=number,
            sent_s=tuple(number * pause_s + call for call in range(calls + 1)),
            prompt="p",
            snapshot=rendered(list(records)),
            naive="",
            hits=(),
        )
        for number, records in enumerate(snapshots)
    ]


def grown(*counts: int) -> list[list[Record]]:
    """States of a vault to which lessons are only added."""
    return [many(count, "A lesson.") for count in counts]


PROMPT = 20 + count_tokens("p")
"""Tokens of each turn's prompt."""


class TestReplayedByHand:
    """Two or three turns, every token accounted for."""

    def test_every_digest_stays_and_is_read_again(self) -> None:
        """Turn 1 writes A; turn 2 reads A and writes B; the same text at another place is another write."""
        digest = "Rule: take a dump."
        tokens = count_tokens(digest)
        bill, context = replay_hook(turns_of(grown(1, 1)), [digest, digest], RULES_5M, 1_000)
        assert (bill.written["digest"], bill.read["digest"], context) == (2 * tokens, tokens, 2 * tokens)
        conversation = 1_000 + 2 * PROMPT + HABITS.reply_tokens
        assert (bill.written["other"], bill.read["other"]) == (conversation, 1_000 + PROMPT)

    def test_tool_calls_read_the_digest_again(self) -> None:
        """Three calls in a turn: the digest is written by the first request and read by three."""
        bill, _ = replay_hook(turns_of(grown(1), calls=3), ["one two"], RULES_5M, 1_000)
        assert (bill.written["digest"], bill.read["digest"]) == (2, 6)
        assert bill.written["other"] == 1_000 + PROMPT + 3 * (HABITS.call_tokens + HABITS.result_tokens)

    def test_a_long_pause_writes_everything_again(self) -> None:
        """After 301 s turn 1's digest is written a second time, with turn 2's."""
        bill, _ = replay_hook(turns_of(grown(1, 1), pause_s=301), ["one two", "one two"], RULES_5M, 1_000)
        assert (bill.written["digest"], bill.read["digest"]) == (2 + 4, 0)

    def test_blocks_of_an_api_call(self) -> None:
        """Head of 5 + 3 tokens, then 5 + 3 + 4: only the 4 are written, and the conversation behind them again."""
        first = [Block(text="s", tokens=5, kind="snapshot", breakpoint=True)]
        first.append(Block(text="a", tokens=3, kind="snapshot", breakpoint=True))
        second = [first[0], dataclasses.replace(first[1], breakpoint=False)]
        second.append(Block(text="b", tokens=4, kind="snapshot", breakpoint=True))
        bill, context = replay_api(turns_of(grown(1, 2)), [first, second], ["r", "r"], RULES_5M, 0)
        assert (bill.written["snapshot"], bill.read["snapshot"]) == (5 + 3 + 4, 5 + 3)
        assert (bill.written["relevant"], bill.read["relevant"]) == (1 + 2, 0)
        assert context == 5 + 3 + 4 + 2


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Where the worker's functions look up what was published."""
    return Ledger.open(tmp_path / "ledger.sqlite3")


class TestOncePerSession:
    """The worker's own functions, driven through a session."""

    def test_once_then_what_was_appended(self, ledger: Ledger) -> None:
        """The snapshot first; nothing while it stays; the new line when it only grew."""
        turns = turns_of(grown(3, 3, 4, 4))
        sent = once_per_session(turns, ledger=ledger, remind_every=20)
        assert [sent[0], sent[1], sent[3]] == [turns[0].snapshot.text, "", ""]
        assert turns[1].snapshot.text + sent[2] == turns[2].snapshot.text

    def test_again_when_something_no_longer_stands(self, ledger: Ledger) -> None:
        """A line that went or changed has the snapshot sent whole."""
        turns = turns_of([many(3, "A lesson."), many(3, "A lesson.")[1:]])
        assert once_per_session(turns, ledger=ledger, remind_every=20)[1] == turns[1].snapshot.text

    def test_a_new_prohibition_alone(self, ledger: Ledger) -> None:
        """It stands in the middle of the snapshot; all that stood before still does, so only its line is sent."""
        before = many(3, "A lesson.")
        turns = turns_of([before, [*before, record(9, "Never force-push.", high=True)]])
        said = once_per_session(turns, ledger=ledger, remind_every=20)[1]
        assert "Never force-push." in said
        assert "A lesson." not in said

    def test_reminder(self, ledger: Ledger) -> None:
        """Twenty turns after it was sent whole it is sent again; an appended part does not count as whole."""
        turns = turns_of(grown(3, *[4] * 44))
        sent = once_per_session(turns, ledger=ledger, remind_every=20)
        whole = [turn.number for turn, text in zip(turns, sent, strict=True) if text == turn.snapshot.text]
        assert whole == [0, 20, 40]


def test_kept_blocks() -> None:
    """The first turn has everything in its blocks; later ones say what came, and slot 4."""
    turns = turns_of(grown(3, 3, 4))
    said = kept_blocks(turns, ["\n\nr"] * 3)
    assert said[:2] == ["\n\nr", "\n\nr"]
    assert turns[1].snapshot.text + said[2] == turns[2].snapshot.text + "\n\nr"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> list[Session]:
    """One session of fifty turns over the example vault alone."""
    with open_world(tmp_path_factory.mktemp("world"), None) as world:
        return [make_session(world, 50, seed=1, habits=HABITS, remind_every=20)]


def test_the_promised_figures(sessions: list[Session]) -> None:
    """Fifty turns: once per session costs and fills at most 0.35 of every turn; blocks are read from the cache."""
    ways = compare(sessions, RULES["anthropic"])
    assert tuple(ways) == WAYS
    assert ways["every_turn"]["cost"] == ways["every_turn"]["context_ratio"] == 1.0
    assert ways["once_per_session"]["cost"] <= 0.35
    assert ways["once_per_session"]["context_ratio"] <= 0.35
    assert ways["api_blocks"]["snapshot_read_share"] >= 0.9
    assert ways["api_blocks"]["cost"] < ways["naive_api"]["cost"]


@pytest.mark.parametrize("name", RULES)
def test_blocks_are_cached_by_every_vendor(sessions: list[Session], name: str) -> None:
    """With a system prompt ahead of them, whatever the vendor's rules."""
    assert compare(sessions, RULES[name])["api_blocks"]["snapshot_read_share"] >= 0.9


def test_context_is_what_was_sent(sessions: list[Session]) -> None:
    """Nothing leaves a conversation: its last request holds every digest of the session."""
    digests = sessions[0].digests["every_turn"]
    assert compare(sessions, RULES["anthropic"])["every_turn"]["context"] == sum(map(count_tokens, digests))


def test_same_seed_same_session(sessions: list[Session], tmp_path: Path) -> None:
    """A second run sends the same bytes."""
    with open_world(tmp_path, None) as world:
        again = make_session(world, 50, seed=1, habits=HABITS, remind_every=20)
    assert again == sessions[0]


def test_command() -> None:
    """The report names its assumptions, and its keys are those of the documentation."""
    command = [sys.executable, str(BENCH), "--json", "--turns", "4", "--seeds", "1", "--vendors-at", "4"]
    command += ["--notes", "/nowhere"]
    report = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)
    assert set(report) == {"4", "vendors", "api_blocks_without_a_prompt_ahead", "assumptions"}
    assert {"cost", "context", "written", "read", "uncached"} <= set(report["4"]["every_turn"])
    assert set(report["vendors"]) == set(RULES)
    stated = report["assumptions"]
    assert {"vendor", "minimum_tokens", "source"} <= set(stated["rules"])
    assert {"tokens_ahead", "habits", "counts", "compaction"} <= set(stated)
    assert set(DIGEST_KINDS) == {"snapshot", "relevant", "digest"}
