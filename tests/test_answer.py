"""Answer: which part of the digest a hook gets, for whatever snapshot it holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from recall_worker.answer import Answerer
from recall_worker.config import Budget, Config
from recall_worker.frames import (
    NO_SHA256,
    AnswerFrame,
    Client,
    Event,
    Mode,
    Request,
    unpack_answer,
    unpack_snapshot,
)
from recall_worker.hybrid import HybridIndex
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.publish import snapshot_name
from recall_worker.refresh import Publisher
from toy_encoder import ToyEncoder
from vaults import config_of, rescan, write_note


@dataclass
class Desk:
    """Everything that answers, in one process."""

    config: Config
    ledger: Ledger
    publisher: Publisher
    index: HybridIndex
    answerer: Answerer
    new_scopes: list[None]

    def refresh(self) -> None:
        """What the daemon does after a change of the vault."""
        rescan(self.config, self.ledger)
        self.index.follow()
        self.publisher.publish()

    def sha256(self, project: str | None = None) -> bytes:
        """The published snapshot's name, as a hook would read it."""
        file = self.config.state_dir / "snapshots" / snapshot_name(project)
        return unpack_snapshot(file.read_bytes()).sha256

    def ask(
        self,
        prompt: str,
        *,
        sha256: bytes = NO_SHA256,
        scope: Path = Path("/"),
        event: Event = Event.PROMPT,
        deadline_ms: int = 5_000,
        **fields: str,
    ) -> AnswerFrame:
        """Send one request."""
        body = json.dumps({"prompt": prompt, "session_id": "s", **fields}).encode()
        return self.send(body, sha256=sha256, scope=scope, event=event, deadline_ms=deadline_ms)

    def send(
        self,
        body: bytes,
        *,
        sha256: bytes = NO_SHA256,
        scope: Path = Path("/"),
        event: Event = Event.PROMPT,
        deadline_ms: int = 5_000,
    ) -> AnswerFrame:
        """Send raw stdin."""
        request = Request(
            event=event, client=Client.CLAUDE_CODE, scope=bytes(scope), deadline_ms=deadline_ms,
            snapshot_sha256=sha256, body=body,
        )  # fmt: skip
        return unpack_answer(self.answerer.answer(request))


@contextmanager
def open_desk(config: Config, *, idle_s: float = math.inf) -> Iterator[Desk]:
    """A vault with something in every slot and one project."""
    write_note(config.vault, "profile/me.md", "Lives in Chiang Mai.", date="2026-01-01")
    write_note(
        config.vault, "lessons/dump.md", "Never migrate without a dump.", priority="high", date="2026-01-02"
    )
    write_note(config.vault, "lessons/retry.md", "Retry flaky tests once.", date="2026-01-03")
    write_note(config.vault, "knowledge/vpn.md", "The office VPN drops idle sessions.", date="2025-01-01")
    write_note(
        config.vault, "knowledge/tax.md", "Invoices live in ledger_v2.", project="billing", date="2025-01-02"
    )
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        projects = Projects(config.projects, ledger)
        publisher = Publisher(config, ledger, projects, idle_s=lambda: idle_s)
        new_scopes: list[None] = []
        answerer = Answerer(
            config,
            ledger,
            projects,
            view=lambda: index.view,
            published=lambda: publisher.published,
            encoder=ToyEncoder(),
            on_new_scope=lambda: new_scopes.append(None),
        )
        made = Desk(config, ledger, publisher, index, answerer, new_scopes)
        made.refresh()
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Under the default policy."""
    with open_desk(config_of(tmp_path)) as made:
        yield made


@pytest.fixture
def once(tmp_path: Path) -> Iterator[Desk]:
    """Under the other policy, with a session that was seen just now, so that a stride waits."""
    budget = Budget(recent_n=2)
    with open_desk(config_of(tmp_path, snapshot="once-per-session", budget=budget), idle_s=0.0) as made:
        yield made


def text_of(answer: AnswerFrame) -> str:
    """The payload, unescaped."""
    return str(json.loads(b'"' + answer.payload + b'"'))


def test_a_known_snapshot_gets_slot_4_beside_it(desk: Desk) -> None:
    """Mode 1; the units count both."""
    answer = desk.ask("why does the vpn drop?", sha256=desk.sha256())
    assert answer.mode is Mode.SNAPSHOT_AND_PAYLOAD
    assert "office VPN" in text_of(answer)
    assert answer.units == desk.publisher.published[""].snapshot.units + len(text_of(answer))
    assert answer.snapshot_sha256 == desk.sha256()


def test_an_older_snapshot_is_replaced_by_the_one_of_now(desk: Desk) -> None:
    """A hook that read the file just before it changed gets what stands there now, once."""
    held = desk.sha256()
    write_note(
        desk.config.vault, "lessons/vpn.md", "Keep the office VPN alive with a ping.", date="2026-02-01"
    )
    desk.refresh()
    assert desk.sha256() != held
    answer = desk.ask("office vpn drops idle sessions", sha256=held)
    assert answer.mode is Mode.PAYLOAD
    assert text_of(answer).count("Keep the office VPN") == 1
    assert "Keep the office VPN" not in text_of(
        desk.ask("office vpn drops idle sessions", sha256=desk.sha256())
    )


def test_an_unknown_snapshot_gets_nothing_beside_it(desk: Desk) -> None:
    """Nobody knows what it shows, so nothing can be deduplicated against it."""
    answer = desk.ask("why does the vpn drop?", sha256=b"\x07" * 32)
    assert (answer.mode, answer.payload) == (Mode.SNAPSHOT_AND_PAYLOAD, b"")


def test_a_hook_without_a_snapshot_gets_all_four_slots(desk: Desk) -> None:
    """The worker sends slots 1 to 3 itself."""
    answer = desk.ask("why does the vpn drop?")
    assert answer.mode is Mode.PAYLOAD
    text = text_of(answer)
    places = [text.index(words) for words in ("Chiang Mai", "Never migrate", "Retry", "office VPN")]
    assert places == sorted(places)


def test_the_first_prompt_in_a_project_already_has_it(desk: Desk, tmp_path: Path) -> None:
    """The hook matched the common snapshot; the worker sends the project's, and the directory is known from then on."""
    write_note(
        desk.config.vault, "lessons/tax.md", "Tax is rounded per line.", project="billing", date="2026-01-04"
    )
    desk.refresh()
    inside = tmp_path / "billing"
    (inside / ".git").mkdir(parents=True)
    answer = desk.ask("which table has invoices?", sha256=desk.sha256(), scope=inside)
    assert answer.mode is Mode.PAYLOAD
    assert "ledger_v2" in text_of(answer)
    assert "Never migrate" in text_of(answer)
    assert desk.new_scopes
    desk.publisher.publish()
    scopes = (desk.config.state_dir / "snapshots" / "scopes").read_text()
    assert str(inside) in scopes
    again = desk.ask("which table has invoices?", sha256=desk.sha256("billing"), scope=inside)
    assert again.mode is Mode.SNAPSHOT_AND_PAYLOAD
    assert "ledger_v2" in text_of(again)
    assert "ledger_v2" not in text_of(desk.ask("which table has invoices?", sha256=desk.sha256()))


@pytest.mark.parametrize("prompt", ["/clear", "<task-notification>vpn done</task-notification>"])
def test_what_nobody_typed_gets_nothing(desk: Desk, prompt: str) -> None:
    """The client's own commands and machine-made prompts."""
    assert desk.ask(prompt, sha256=desk.sha256()).mode is Mode.NOTHING


def test_an_empty_prompt_recalls_nothing_but_keeps_the_snapshot(desk: Desk) -> None:
    """Slots 1 to 3 do not depend on the prompt."""
    answer = desk.ask("", sha256=desk.sha256())
    assert (answer.mode, answer.payload) == (Mode.SNAPSHOT_AND_PAYLOAD, b"")


@pytest.mark.parametrize("body", [b"", b"not json", b"[1]", b"\xff\xfe", b'{"prompt": 7}'])
def test_broken_stdin_keeps_the_snapshot(desk: Desk, body: bytes) -> None:
    """The hook prints what it holds."""
    answer = desk.send(body, sha256=desk.sha256())
    assert (answer.mode, answer.payload) == (Mode.SNAPSHOT_AND_PAYLOAD, b"")


def test_session_start_prints_nothing(desk: Desk) -> None:
    """It only tells that a session lives."""
    assert (
        desk.ask("", sha256=desk.sha256(), event=Event.SESSION_START, source="startup").mode is Mode.NOTHING
    )


def test_yes_do_it_is_searched_by_what_it_answers(desk: Desk) -> None:
    """A short prompt borrows the session's previous one, of its own session only."""
    sha256 = desk.sha256()
    desk.ask("should we ping the office vpn to keep idle sessions?", sha256=sha256, session_id="a")
    assert "office VPN" in text_of(desk.ask("yes, do it", sha256=sha256, session_id="a"))
    assert text_of(desk.ask("yes, do it", sha256=sha256, session_id="b")) == ""


def test_records_without_vectors_are_found_by_their_words(desk: Desk) -> None:
    """While the encoder is still at work BM25 answers; with vectors the same note is found."""
    sha256 = desk.sha256()
    assert "office VPN" in text_of(desk.ask("vpn sessions", sha256=sha256))


def test_a_forgotten_scope_leaves_its_last_answer_alone(desk: Desk) -> None:
    """A project whose last record went is no project any more."""
    assert set(desk.publisher.published) == {"", "billing"}
    (desk.config.vault / "knowledge/tax.md").unlink()
    desk.refresh()
    assert set(desk.publisher.published) == {""}
    assert not (desk.config.state_dir / "snapshots" / snapshot_name("billing")).exists()


@pytest.mark.parametrize("prompt", ["thanks", "hello", "ขอบคุณ", "ありがとう", "谢谢", "danke"])
def test_thanks_do_not_drag_up_the_last_topic(desk: Desk, prompt: str) -> None:
    """Slots 1 to 3 come as always, slot 4 stays empty, and the topic is still there for what follows."""
    sha256 = desk.sha256()
    desk.ask("should we ping the office vpn to keep idle sessions?", sha256=sha256)
    answer = desk.ask(prompt, sha256=sha256)
    assert (answer.mode, answer.payload) == (Mode.SNAPSHOT_AND_PAYLOAD, b"")
    assert "office VPN" in text_of(desk.ask("yes, do it", sha256=sha256))


def test_once_the_session_has_it_nothing_is_sent(once: Desk) -> None:
    """Whatever the hook holds: the right snapshot, or none."""
    assert once.ask("hello", sha256=once.sha256()).mode is Mode.SNAPSHOT_AND_PAYLOAD
    for held in (once.sha256(), NO_SHA256):
        answer = once.ask("hello", sha256=held)
        assert (answer.mode, answer.payload, answer.units) == (Mode.PAYLOAD, b"", 0)


def test_slot_4_alone_opens_the_digest_itself(once: Desk) -> None:
    """It says whose notes these are, since nothing stands before it; and shows no passage a second time."""
    once.ask("hello", sha256=once.sha256())
    text = text_of(once.ask("why does the office vpn drop?", sha256=once.sha256()))
    assert text.startswith("Recall: notes the user keeps")
    assert "drops idle sessions" in text
    assert text_of(once.ask("why does the office vpn drop?", sha256=once.sha256())) == ""


def test_an_edited_note_is_sent_again(once: Desk) -> None:
    """The session received another passage than the one that stands there now."""
    once.ask("why does the office vpn drop?", sha256=once.sha256())
    write_note(
        once.config.vault, "knowledge/vpn.md", "The office VPN drops after an hour.", date="2025-01-01"
    )
    once.refresh()
    assert "after an hour" in text_of(once.ask("why does the office vpn drop?", sha256=once.sha256()))


def test_an_appended_lesson_comes_from_the_hooks_own_copy(once: Desk) -> None:
    """Mode 3, at a line's end; a hook that still holds the older copy gets the line from here."""
    before = once.sha256()
    for session in ("s", "t"):
        once.ask("hello", sha256=before, session_id=session)
    write_note(once.config.vault, "lessons/queue.md", "Drain the queue first.", date="2026-01-05")
    once.refresh()
    answer = once.ask("hello", sha256=once.sha256())
    assert (answer.mode, answer.payload) == (Mode.APPENDED_AND_PAYLOAD, b"")
    file = once.config.state_dir / "snapshots" / snapshot_name(None)
    rest = unpack_snapshot(file.read_bytes()).payload[answer.offset :].decode()
    assert rest == r"\n- (2026-01-05) queue: Drain the queue first."
    late = once.ask("hello", sha256=before, session_id="t")
    assert late.mode is Mode.PAYLOAD
    assert text_of(late).count("Drain the queue") == 1
    assert "Chiang Mai" not in text_of(late)
    assert once.ask("hello", sha256=once.sha256()).units == 0


def test_what_is_pending_is_sent_once(once: Desk) -> None:
    """Records that wait for a stride reach the session beside a snapshot that stays as it is."""
    for day in range(4, 7):
        write_note(once.config.vault, f"lessons/{day}.md", f"Lesson of day {day}.", date=f"2026-01-{day:02}")
        once.refresh()
        once.ask("hello", sha256=once.sha256())
    assert once.publisher.published[""].pending
    write_note(once.config.vault, "lessons/7.md", "Lesson of day 7.", date="2026-01-07")
    once.refresh()
    text = text_of(once.ask("hello", sha256=once.sha256()))
    assert "day 7" in text
    assert "day 6" not in text
    assert "Chiang Mai" not in text
    assert once.ask("hello", sha256=once.sha256()).units == 0
    assert "day 6" in text_of(once.ask("hello", sha256=once.sha256(), session_id="new"))


def test_an_answer_that_came_too_late_was_not_received(once: Desk) -> None:
    """The hook had given up: what it then printed is not what was answered."""
    once.ask("why does the office vpn drop?", sha256=once.sha256(), deadline_ms=0)
    answer = once.ask("why does the office vpn drop?", sha256=once.sha256())
    assert answer.mode is Mode.SNAPSHOT_AND_PAYLOAD
    assert "drops idle sessions" in text_of(answer)


def test_another_scope_is_another_snapshot(once: Desk, tmp_path: Path) -> None:
    """A session that walks into a project gets what the project adds, and nothing again on its way back."""
    write_note(
        once.config.vault, "lessons/tax.md", "Round tax per line.", project="billing", date="2026-01-04"
    )
    once.refresh()
    inside = tmp_path / "billing"
    (inside / ".git").mkdir(parents=True)
    once.ask("hello", sha256=once.sha256())
    added = text_of(once.ask("hello", sha256=once.sha256(), scope=inside))
    assert "Round tax" in added
    assert "Chiang Mai" not in added
    once.publisher.publish()
    assert once.ask("hello", sha256=once.sha256("billing"), scope=inside).units == 0
    assert once.ask("hello", sha256=once.sha256()).units == 0
