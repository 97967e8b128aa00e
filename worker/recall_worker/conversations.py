"""Conversations: all that the worker remembers of a session, in memory and on disk.

Flow:  hook → server → answer → [conversations] → asking, delivery
In:    starts of sessions, turns as they pass.   Out: what was asked before, what was sent before, what was answered.
Never: a prompt on disk.
Next:  worker/recall_worker/sessions.py, worker/recall_worker/prompts.py
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from recall_worker.config import Config
from recall_worker.frames import Request
from recall_worker.prompts import ClientPrompt, EarlierPrompts, parse_client_prompt
from recall_worker.sessions import Session, SessionMemory, session_key
from recall_worker.spool import read_spool

FORGETS: Final = ("startup", "clear", "compact")
"""How a session can start whose transcript holds nothing of what it was sent; a resumed one still has it."""

ONCE: Final = "once-per-session"

REMEMBERED_PROMPTS: Final = 512
"""Prompts that are known to have been answered: the second of two hooks on one comes within moments."""


class Conversations:
    """Sessions of all clients; safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        """Remember what was sent only if the config's policy asks for it."""
        self._state_dir = config.state_dir
        self._once = config.snapshot == ONCE
        self._lock = threading.Lock()
        self._earlier = EarlierPrompts()
        self._sessions = SessionMemory(config.state_dir / "sessions")
        self._answered: OrderedDict[tuple[str, str], None] = OrderedDict()

    def hear_start(self, request: Request) -> None:
        """Take note of a session's start: of what was sent before, it may hold nothing any more."""
        said = parse_client_prompt(request.body)
        if said is None or said.source not in FORGETS:
            return
        with self._lock:
            self._earlier.forget(said.session_id)
            self._sessions.forget(session_key(request.client, said.session_id))

    def hear_spooled_starts(self) -> None:
        """Take note of the starts that no worker heard."""
        for request in read_spool(self._state_dir):
            self.hear_start(request)

    def key_of(self, request: Request, prompt: ClientPrompt | None) -> str:
        """Name of the session that a prompt belongs to; empty where none is kept."""
        return session_key(request.client, prompt.session_id) if self._once and prompt is not None else ""

    def begin_turn(self, key: str) -> Session:
        """What a session was sent until now, in the turn that begins.

        Args:
            key: Empty for a session of which nothing is known.
        """
        if not key:
            return Session()
        self.hear_spooled_starts()
        with self._lock:
            return self._sessions.get(key).next_turn()

    def end_turn(self, key: str, session: Session) -> None:
        """Keep what a session was sent."""
        with self._lock:
            self._sessions.put(key, session)

    def earlier(self, prompt: ClientPrompt) -> tuple[str, ...]:
        """What the prompt's session asked before, latest first."""
        with self._lock:
            return self._earlier.of(prompt.session_id)

    def remember(self, prompt: ClientPrompt, own: str) -> None:
        """Keep what a prompt asked, for later ones to stand on; empty is nothing."""
        with self._lock:
            self._earlier.remember(prompt.session_id, own)

    def is_second(self, prompt: ClientPrompt) -> bool:
        """True for the second of two hooks on one prompt."""
        if not prompt.prompt_id:
            return False
        key = (prompt.session_id, prompt.prompt_id)
        with self._lock:
            seen = key in self._answered
            self._answered[key] = None
            while len(self._answered) > REMEMBERED_PROMPTS:
                self._answered.popitem(last=False)
        return seen
