"""Sessions: remembered across restarts, bounded, expiring, and without a word that anybody wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_worker.sessions import (
    KEPT_RECEIVED,
    KEPT_S,
    Session,
    SessionMemory,
    edition_token,
    session_key,
    token_of,
)

SHA256 = bytes(range(32))


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    """Another memory over the same folder knows the session, its scopes and what it received."""
    session = Session().next_turn().with_snapshot("billing", SHA256, whole=True).with_received(["a"])
    SessionMemory(tmp_path / "s").put("k", session)
    assert SessionMemory(tmp_path / "s").get("k") == session


def test_nothing_readable_is_kept(tmp_path: Path) -> None:
    """Neither the session's id nor a record's text stands in its file or its name."""
    key = session_key(0, "a-session-id")
    SessionMemory(tmp_path).put(
        key, Session().with_received([token_of("lessons/secret.md", "a secret line")])
    )
    (file,) = tmp_path.iterdir()
    told = file.name + file.read_text()
    assert "secret" not in told
    assert "session-id" not in told
    assert file.stat().st_mode & 0o777 == 0o600


def test_clients_do_not_share_sessions() -> None:
    """Two assistants may count their sessions alike; without an id there is no session."""
    assert len({session_key(0, "1"), session_key(1, "1"), session_key(0, "2")}) == 3
    assert session_key(0, "") == ""


def test_old_sessions_go(tmp_path: Path) -> None:
    """Past the capacity the one seen longest ago is forgotten, on disk too; one that expired is unknown."""
    now = [1_000_000.0]
    memory = SessionMemory(tmp_path, capacity=3, clock=lambda: now[0])
    for name in "abcd":
        memory.put(name, Session(turn=1))
        now[0] += 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c", "d"]
    assert memory.get("a") == Session()
    now[0] += KEPT_S
    assert memory.get("d") == Session()
    assert SessionMemory(tmp_path, clock=lambda: now[0]).get("d") == Session()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"turn": 1}', b'{"turn":1,"sent":{"":["zz",1]},"received":{}}']
)
def test_a_damaged_file_is_an_unknown_session(tmp_path: Path, content: bytes) -> None:
    """It is sent everything again, and its next turn mends the file."""
    (tmp_path / "k").write_bytes(content)
    memory = SessionMemory(tmp_path)
    assert memory.get("k") == Session()
    memory.put("k", Session(turn=4))
    assert SessionMemory(tmp_path).get("k").turn == 4


def test_a_folder_that_cannot_be_written_costs_the_restart_alone(tmp_path: Path) -> None:
    """The session is remembered for as long as the worker lives."""
    (tmp_path / "file").write_text("no folder")
    memory = SessionMemory(tmp_path / "file")
    memory.put("k", Session(turn=2))
    assert memory.get("k").turn == 2


def test_a_session_stays_small() -> None:
    """Of what it received the latest count; of scopes the four it was in last."""
    session = Session().with_received(str(number) for number in range(2 * KEPT_RECEIVED))
    assert len(session.received) == KEPT_RECEIVED
    assert session.has(str(2 * KEPT_RECEIVED - 1), within=1)
    assert not session.has("0", within=1)
    for scope in "abcdef":
        session = session.with_snapshot(scope, SHA256, whole=True)
    assert list(session.sent) == ["c", "d", "e", "f"]


def test_what_was_received_long_ago_may_come_again() -> None:
    """`within` counts turns, the one of receipt included."""
    session = Session().next_turn().with_received(["a"])
    assert session.next_turn().has("a", within=2)
    assert not session.next_turn().next_turn().has("a", within=2)


def test_only_a_whole_snapshot_counts_as_a_reminder() -> None:
    """An addition in between does not put off the turn at which everything is sent again."""
    session = Session().next_turn().with_snapshot("", SHA256, whole=True).next_turn()
    assert session.with_snapshot("", bytes(32), whole=False).sent[""].turn == 1
    assert session.with_snapshot("", bytes(32), whole=True).sent[""].turn == 2


def test_an_edition_that_was_undone_is_news_again() -> None:
    """Of a record the edition sent last counts, and of that one each passage."""
    old, new = edition_token("r", "5432", "old"), edition_token("r", "6543", "new")
    beside = edition_token("r", "beside", "new")
    other = edition_token("s", "other", "other")
    session = Session().with_received([old, other])
    assert session.has(old, within=1)
    session = session.with_received([new]).with_received([beside])
    assert not session.has(old, within=1)
    assert all(session.has(token, within=1) for token in (new, beside, other))
