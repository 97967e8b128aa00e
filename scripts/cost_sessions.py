"""Cost sessions: seeded conversations over a vault that changes meanwhile, and what each policy sends in them.

Flow:  example vault, notes → ledger → index → [sessions: turns, digests] → bench cost
In:    a folder of notes or none, a seed.   Out: turns with their real snapshot and hits; a digest's text for each.
Never: a clock, a network; a snapshot or slot 4 that was not rendered by the package itself.
Next:  scripts/bench_cost.py
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cost_policies import kept_blocks, once_per_session
from recall_worker.config import Budget
from recall_worker.digest import Relevant, compose_relevant, room_for_relevant
from recall_worker.hybrid import HybridIndex
from recall_worker.ledger import Ledger
from recall_worker.ledger_types import ShownLike
from recall_worker.records import Hit, Record, RecordId, RecordType
from recall_worker.scan import scan
from recall_worker.search import search
from recall_worker.snapshot import FIRST_LINE, Snapshot, render
from recall_worker.window import advance, recent_candidates

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLE_VAULT: Final = ROOT / "docs" / "example-vault"
FIRST_DAY: Final = dt.date(2026, 11, 20)  # the example vault ends the day before
NOTES_A_DAY: Final = 3
MOST_NOTES: Final = 600  # more would only take longer to index
TODAY: Final = dt.date(2032, 1, 1)  # after all of them, whatever the clock says
TOP_K: Final = 24  # hits handed to slot 4, as answer.py does
SHORT_PROMPT: Final = "yes, do it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a conversation goes; every figure is an assumption and is printed with the result.

    Attributes:
        changes_per_turn: Changes of the vault that alter the snapshot.
        added, edited: Shares of them; the rest are new prohibitions.
        pause_s: Mean of the exponential pause between two turns, after the least of 10 s.
        calls: Most tool calls in a turn, from none, all equally likely.
        call_s: Least and most seconds between two requests of a turn.
        call_tokens, result_tokens, reply_tokens: Of the conversation around the digest.
        topic_turns: Mean turns before the conversation moves to another topic.
        short_prompts: Share of prompts like "yes, do it", which are searched by the one before.
    """

    changes_per_turn: float = 0.1
    added: float = 0.8
    edited: float = 0.15
    pause_s: float = 120.0
    calls: int = 6
    call_s: tuple[float, float] = (4.0, 20.0)
    call_tokens: int = 80
    result_tokens: int = 600
    reply_tokens: int = 250
    topic_turns: float = 5.0
    short_prompts: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One prompt and what stands ready for it.

    Attributes:
        number: From 0.
        sent_s: When each request of the turn is sent, seconds from the session's start.
        prompt: As typed.
        snapshot: As published when it is typed.
        naive: What a naive digest shows in place of the snapshot.
        hits: What search found, best first.
    """

    number: int
    sent_s: tuple[float, ...]
    prompt: str
    snapshot: Snapshot
    naive: str
    hits: tuple[Hit, ...]

    def relevant(self, hits: Sequence[Hit], *, shown: Sequence[ShownLike], shown_units: int) -> Relevant:
        """Slot 4 of these hits, beside slots 1 to 3 that show this and take so many UTF-16 units in this turn."""
        budget = Budget()
        return compose_relevant(
            hits,
            shown,
            room_units=room_for_relevant(shown_units, budget),
            budget=budget,
            first=shown_units == 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns, and what is sent in them.

    Attributes:
        digests: Way of sending it → the digest of each turn, as a hook prints it.
        relevant: Slot 4 of each turn, beside the whole snapshot.
        since_first: What each turn says to one that holds the turn's before: what changed, and slot 4.
    """

    turns: Sequence[Turn]
    digests: Mapping[str, Sequence[str]]
    relevant: Sequence[str]
    since_first: Sequence[str]


class World:
    """A vault with everything in it, and searches over the part that is there already."""

    def __init__(self, ledger: Ledger, index: HybridIndex) -> None:
        """Read the records once; `stream` are those that come one after the other."""
        self.ledger, self._index = ledger, index
        records = [record for record in ledger.snapshot_records() if record.project is None]
        dated = sorted(records, key=lambda record: (record.date, record.first_seen))
        coming = [record for record in dated if record.date >= FIRST_DAY]
        if not coming:  # no other notes: the newer half of the example vault's own lessons
            shown_by_date = recent_candidates(dated)
            own = [record for record in dated if record.id in shown_by_date]
            coming = own[len(own) // 2 :]
        later = {record.id for record in coming}
        self.stream = coming
        self.settled = [record for record in dated if record.id not in later]

    def find(self, prompt: str, there: Mapping[RecordId, Record]) -> tuple[Hit, ...]:
        """Hits among records that are there, by BM25 alone, and knowledge, which always is."""
        hits = search(self._index.view, self.ledger, prompt, None, project=None, top_k=TOP_K)
        known = (RecordType.KNOWLEDGE,)
        return tuple(hit for hit in hits if hit.record.id in there or hit.record.type in known)


@contextmanager
def open_world(scratch: Path, notes: Path | None) -> Iterator[World]:
    """Index the example vault, and beside it a folder of notes as dated lessons in path order."""
    vault, state = scratch / "vault", scratch / "state"
    shutil.copytree(EXAMPLE_VAULT, vault)
    state.mkdir()
    paths = sorted(path for path in notes.rglob("*.md") if path.parent != notes) if notes else []
    for number, path in enumerate(paths[:: len(paths) // MOST_NOTES + 1]):
        day = FIRST_DAY + dt.timedelta(days=number // NOTES_A_DAY)
        file = vault / "lessons" / "stream" / path.parent.name / path.name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8", errors="replace")
        file.write_text(f"---\ntype: lesson\ndate: {day}\n---\n{text}", encoding="utf-8")
    ledger = Ledger.open(state / "ledger.sqlite3")
    scan(vault, ledger, today=TODAY, max_note_bytes=2_000_000)
    with HybridIndex(state / "index", ledger) as index:
        index.follow()
        yield World(ledger, index)


def make_turns(world: World, count: int, *, seed: int, habits: Habits) -> list[Turn]:
    """One session: prompts about what is there, while lessons are added, edited and forbidden."""
    rng = random.Random(seed)
    start = rng.randrange(len(world.stream) // 2 + 1)
    vault = ChangingVault(world.settled + world.stream[:start], world.stream[start:], habits)
    turns, at_s, prompt, topic = list[Turn](), 0.0, "", ""
    hits: tuple[Hit, ...] = ()
    for number in range(count):
        if rng.random() < habits.changes_per_turn:
            vault.change(rng)
        short = bool(prompt) and rng.random() < habits.short_prompts
        if not short:
            if not topic or rng.random() < 1 / habits.topic_turns:
                topic = rng.choice(sorted(vault.topics()))
            prompt = rng.choice(vault.topics()[topic]).title
            hits = world.find(prompt, vault.there)
        sent_s = [at_s]
        for _ in range(rng.randint(0, habits.calls)):
            sent_s.append(sent_s[-1] + rng.uniform(*habits.call_s))
        turns.append(
            Turn(
                number=number,
                sent_s=tuple(sent_s),
                prompt=SHORT_PROMPT if short else prompt,
                snapshot=vault.snapshot,
                naive=vault.naive(at_s),
                hits=hits,
            )
        )
        at_s = sent_s[-1] + 10 + rng.expovariate(1 / habits.pause_s)
    return turns


class ChangingVault:
    """Records that come and change, with the snapshot that the package would publish at once."""

    def __init__(self, there: Sequence[Record], coming: Sequence[Record], habits: Habits) -> None:
        """Publish what is there."""
        self.there = {record.id: record for record in there}
        self._coming = list(coming)
        self._habits = habits
        self._budget = Budget()
        self._window: tuple[RecordId, ...] = ()
        self._edits = 0
        self._publish()

    def change(self, rng: random.Random) -> None:
        """Make one change that alters the snapshot: an addition, an edit, or a new prohibition."""
        drawn = rng.random()
        edits = self._habits.added <= drawn < self._habits.added + self._habits.edited
        if edits or not self._coming:
            self._edits += 1
            record = self.there[rng.choice(self._window)]
            self.there[record.id] = replace(record, text=f"{self._edits} times mended. {record.text}")
        else:
            record = self._coming.pop(0)
            high = drawn >= self._habits.added + self._habits.edited
            self.there[record.id] = replace(
                record, high=high, type=RecordType.LESSON if high else record.type
            )
        self._publish()

    def topics(self) -> dict[str, list[Record]]:
        """Records with a title, by their folder."""
        found = defaultdict(list)
        for record in self.there.values():
            if record.title and record.type is not RecordType.PROFILE:
                found[record.path.rpartition("/")[0]].append(record)
        return found

    def naive(self, at_s: float) -> str:
        """The same slots as they are usually put together: now's time on top, the newest first."""
        records = list(self.there.values())
        recent = sorted(
            recent_candidates(records).values(), key=lambda r: (r.date, r.first_seen), reverse=True
        )
        shown = render(records, [record.id for record in recent[: self._budget.recent_n]], self._budget)
        now = dt.datetime(2026, 11, 20, 9) + dt.timedelta(seconds=round(at_s))
        return shown.text.replace(FIRST_LINE, f"{FIRST_LINE} As of {now.isoformat(' ')}.", 1)

    def _publish(self) -> None:
        records = list(self.there.values())
        self._window = advance(self._window, records, self._budget).window
        self.snapshot = render(records, self._window, self._budget)


def make_session(world: World, count: int, *, seed: int, habits: Habits, remind_every: int) -> Session:
    """Turns, with the digest of each way to send it in a hook."""
    turns = make_turns(world, count, seed=seed, habits=habits)
    relevant = [
        turn.relevant(turn.hits, shown=turn.snapshot.shown, shown_units=turn.snapshot.units).text
        for turn in turns
    ]
    whole = list(zip(turns, relevant, strict=True))
    digests = {
        "naive": [turn.naive + close for turn, close in whole],
        "every_turn": [turn.snapshot.text + close for turn, close in whole],
        "once_per_session": once_per_session(turns, ledger=world.ledger, remind_every=remind_every),
    }
    return Session(turns=turns, digests=digests, relevant=relevant, since_first=kept_blocks(turns, relevant))
