"""Sessions: what each conversation has been sent already, for the policy `once-per-session`.

Flow:  hook → server → answer → [sessions] → delivery → answer
In:    a session's id, what a turn sends it.   Out: the same at its next turn, also after a restart of the worker.
Never: a prompt, a word of the vault, a session's own id: hashes and numbers of turns only.
Next:  worker/recall_worker/delivery.py, docs/decisions/0012-once-per-session.md

Each session has a small file, written when a turn changed it: a worker that is killed loses nothing, and what a turn
costs does not grow with the sessions there are.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

log = logging.getLogger(__name__)

KEPT_SESSIONS: Final = 512
KEPT_S: Final = 14 * 86_400.0
"""Seconds after its last turn for which a session is remembered."""

KEPT_SCOPES: Final = 4
"""Scopes of a session whose snapshot is remembered: one that walks between projects."""

KEPT_RECEIVED: Final = 400
"""Lines and passages of a session that are remembered, the latest."""

_TOKEN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A snapshot that a session has.

    Attributes:
        sha256: Of its payload, 32 bytes.
        turn: When it was sent whole.
    """

    sha256: bytes
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a session was sent.

    Attributes:
        turn: Its turns so far.
        sent: Scope to the snapshot that it has of it, latest last.
        received: Token of a line or passage to the turn it was sent at, latest last.
    """

    turn: int = 0
    sent: dict[str, Sent] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)

    def next_turn(self) -> Session:
        """The same, one turn on."""
        return replace(self, turn=self.turn + 1)

    def has(self, token: str, *, within: int) -> bool:
        """Whether a line or passage was sent in the last `within` turns, and its record in no other edition since."""
        said = token[: 2 * _TOKEN]
        turns = [turn for received, turn in self.received.items() if received[: 2 * _TOKEN] == said]
        return any(self.turn - turn < within for turn in turns)

    def with_snapshot(self, scope: str, sha256: bytes, *, whole: bool) -> Session:
        """Note that the session now has this snapshot.

        Args:
            whole: It was sent whole in this turn, not only what is new in it.
        """
        last = next(reversed(self.sent.values()), None)
        turn = self.turn if whole or last is None else last.turn
        others = {name: sent for name, sent in self.sent.items() if name != scope}
        kept = dict(list(others.items())[1 - KEPT_SCOPES :])
        return replace(self, sent={**kept, scope: Sent(sha256=sha256, turn=turn)})

    def with_received(self, tokens: Iterable[str]) -> Session:
        """Note lines or passages sent in this turn: what other editions of their records said is not known any more."""
        fresh = dict.fromkeys(tokens, self.turn)
        editions = {token[:_TOKEN]: token[2 * _TOKEN :] for token in fresh}
        others = {
            token: turn
            for token, turn in self.received.items()
            if token not in fresh and editions.get(token[:_TOKEN], token[2 * _TOKEN :]) == token[2 * _TOKEN :]
        }
        return replace(self, received=dict(list({**others, **fresh}.items())[-KEPT_RECEIVED:]))


def token_of(*parts: str) -> str:
    """Names a line or passage without saying what it says: 16 hex digits of its SHA-256."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_TOKEN]


def edition_token(place: str, said: str, edition: str) -> str:
    """Names what was said of a record, so that a later edition of the record can take its place.

    Args:
        place: Whose word it is.
        said: What is shown.
        edition: All that the record says now; of several passages of one edition each is remembered.

    Returns:
        Three tokens, 48 hex digits.
    """
    return token_of(place) + token_of(said) + token_of(edition)


def session_key(client: int, session_id: str) -> str:
    """File name of a session; empty for one without an id, which is never remembered."""
    return token_of(str(client), session_id) * bool(session_id)


class SessionMemory:
    """Sessions by key, on disk; one thread at a time (`Conversations` sees to it)."""

    def __init__(
        self, folder: Path, *, capacity: int = KEPT_SESSIONS, clock: Callable[[], float] = time.time
    ) -> None:
        """Remember under `folder`, which is made when the first session is."""
        self._folder = folder
        self._capacity = capacity
        self._clock = clock
        self._held: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    def get(self, key: str) -> Session:
        """What a session was sent; an empty one if it is unknown, expired, or its file is damaged."""
        held = self._held.get(key) or self._read(key)
        if held is None or self._clock() - held[1] > KEPT_S:
            return Session()
        return held[0]

    def put(self, key: str, session: Session) -> None:
        """Remember a session; a disk that cannot be written costs it its memory at the next restart."""
        if not key:
            return
        now = self._clock()
        self._held[key] = session, now
        self._held.move_to_end(key)
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)
        try:
            self._write(key, session, now)
        except OSError as error:
            log.warning("session not kept error=%s", error.strerror)

    def forget(self, key: str) -> None:
        """Forget a session: its transcript no longer holds what it was sent."""
        self._held.pop(key, None)
        if key:
            (self._folder / key).unlink(missing_ok=True)

    def _read(self, key: str) -> tuple[Session, float] | None:
        path = self._folder / key
        try:
            if not key or not path.is_file():
                return None
            return _parse(orjson.loads(path.read_bytes())), path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("session file unreadable error=%s: it is sent everything again", type(error).__name__)
            return None

    def _write(self, key: str, session: Session, now: float) -> None:
        """Replace the file in one step; not synced: a power cut costs a snapshot sent twice."""
        path = self._folder / key
        if not path.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prune(now)
        fresh = self._folder / f".{key}.{os.getpid()}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_pack(session))
        os.utime(fresh, (now, now))
        fresh.replace(path)

    def _prune(self, now: float) -> None:
        """Make room for one more: remove what expired, then the sessions seen longest ago."""
        ages = {path: path.stat().st_mtime for path in self._folder.iterdir()}
        by_age = sorted(ages, key=lambda path: (-ages[path], path.name))
        for place, path in enumerate(by_age):
            if place >= self._capacity - 1 or now - ages[path] > KEPT_S:
                path.unlink(missing_ok=True)


def _pack(session: Session) -> bytes:
    sent = {scope: [sent.sha256.hex(), sent.turn] for scope, sent in session.sent.items()}
    return orjson.dumps({"turn": session.turn, "sent": sent, "received": dict(session.received)})


def _parse(said: Any) -> Session:
    """Undo `_pack`; raises whatever the shape makes it raise."""
    sent = {
        scope: Sent(sha256=bytes.fromhex(sha256), turn=int(turn))
        for scope, (sha256, turn) in said["sent"].items()
    }
    received = {str(token): int(turn) for token, turn in said["received"].items()}
    return Session(turn=int(said["turn"]), sent=sent, received=received)
