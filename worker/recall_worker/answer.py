"""Answer: what one prompt gets back: which part of the snapshot to print, and slot 4.

Flow:  hook → server → [answer] → search → digest → frame → hook
In:    a request's header and the client's stdin.   Out: the bytes of an answer frame.
Never: the prompt in a log or on disk; a wait beyond the deadline the hook named.
Next:  hook/recall_hook/main.py
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.asking import QueryEncoder, make_query
from recall_worker.background import load_background
from recall_worker.config import Config
from recall_worker.conversations import Conversations
from recall_worker.delivery import Plan, after_turn, plan_news, plan_whole
from recall_worker.digest import Relevant, compose_relevant, room_for_relevant
from recall_worker.frames import Event, Mode, Request, pack_answer
from recall_worker.hybrid import View
from recall_worker.ledger import Ledger
from recall_worker.ledger_types import ShownLike
from recall_worker.projects import Projects
from recall_worker.prompts import (
    ClientPrompt,
    is_for_nobody,
    parse_client_prompt,
    searchable,
)
from recall_worker.publish import Published
from recall_worker.records import EVERYWHERE, Hit
from recall_worker.search import search
from recall_worker.sessions import Session, edition_token
from recall_worker.text import units
from recall_worker.turns import TurnSense

log = logging.getLogger(__name__)

TOP_K: Final = 24
"""Hits handed to slot 4: about five fit, the rest stand by for those left out as repetitions."""

ENCODE_SHARE: Final = 0.5
"""Share of the hook's deadline that the encoder may use before BM25 answers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Slot 4 and what it was made from.

    Attributes:
        view: The index that was searched.
        text: What BM25 searched for.
        own: The prompt's own topic, for later prompts to stand on; empty if it has none.
        vector: What the dense half searched for, shape (dimension,); None if BM25 answered alone.
        hits: Best first.
        room_units: UTF-16 units the slot might take.
        relevant: The slot and every hit's fate.
    """

    view: View
    text: str
    own: str
    vector: NDArray[np.float32] | None
    hits: tuple[Hit, ...]
    room_units: int
    relevant: Relevant


class Answerer:
    """Answers prompts; safe to call from several threads."""

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        projects: Projects,
        *,
        view: Callable[[], View],
        published: Callable[[], Mapping[str, Published]],
        encoder: QueryEncoder | None,
        sense: Callable[[], TurnSense | None] = lambda: None,
        on_new_scope: Callable[[], None] = lambda: None,
    ) -> None:
        """Answer from whatever is served at the moment.

        Args:
            view: Gives the view of the index.
            published: Gives what each scope has now.
            encoder: None with `model = "none"`.
            sense: Gives what the encoder knows of short prompts, None while it knows nothing.
            on_new_scope: Called when a prompt came from a project's directory that the hook could not match yet.
        """
        self._config = config
        self._ledger = ledger
        self._projects = projects
        self._view = view
        self._published = published
        self._encoder = encoder
        self._sense = sense
        self._on_new_scope = on_new_scope
        self.conversations = Conversations(config)

    def answer(self, request: Request, *, received: float | None = None) -> bytes:
        """Answer one hook.

        Args:
            request: What it asked.
            received: When it asked, by the monotonic clock; one that has given up meanwhile costs no search.

        Returns:
            An answer frame, always: whatever the prompt looks like, the hook may print its snapshot.
        """
        started = time.monotonic()
        deadline = (received or started) + request.deadline_ms / 1_000
        nothing = pack_answer(
            mode=Mode.NOTHING, text="", total_units=0, snapshot_sha256=request.snapshot_sha256
        )
        if request.event is not Event.PROMPT:
            self.conversations.hear_start(request)
            return nothing
        prompt = parse_client_prompt(request.body)
        if prompt is not None and (is_for_nobody(prompt.text) or self.conversations.is_second(prompt)):
            return nothing
        project = self._project(request)
        key = self.conversations.key_of(request, prompt)
        session = self.conversations.begin_turn(key)
        plan = self._plan(request, project or EVERYWHERE, session if key else None)
        relevant, passages = "", []
        if prompt is None:
            log.warning("prompt unreadable bytes=%d", len(request.body))
        elif plan.shown is not None and time.monotonic() < deadline:
            found = self._relevant(prompt, project, plan, session, deadline=deadline)
            relevant = found.relevant.text
            passages = [passage_token(fate.hit) for fate in found.relevant.fates if fate.verdict == "shown"]
        if key and time.monotonic() < deadline:
            # A hook that gave up has printed its own snapshot alone: what it did not get must not be noted as had.
            self.conversations.end_turn(key, after_turn(session, project or EVERYWHERE, plan, passages))
        log.info(
            "answered mode=%d units=%d in_project=%d ms=%.1f",
            plan.mode,
            units(relevant),
            project is not None,
            1_000 * (time.monotonic() - started),
        )
        return pack_answer(
            mode=plan.mode,
            text=plan.prefix + relevant,
            total_units=plan.units + units(relevant),
            snapshot_sha256=request.snapshot_sha256,
            offset=plan.offset,
        )

    def warm_up(self) -> None:
        """Load what the first prompt would have to wait for: word lists, patterns, the first postings."""
        text = "\n".join(lines[0] for lines in load_background().values())
        self.recall(text, None, (), 0, view=self._view(), timeout_s=0.0)

    def _project(self, request: Request) -> str | None:
        """The project of the directory that the hook works in."""
        return self.project_of(Path(os.fsdecode(request.scope))) if request.scope else None

    def project_of(self, directory: Path, *, remember: bool = True) -> str | None:
        """The project of a directory.

        Args:
            remember: As for `Projects.of`.
        """
        names = [scope for scope in self._published() if scope != EVERYWHERE]
        return self._projects.of(directory, names, remember=remember) if directory.is_absolute() else None

    def _plan(self, request: Request, scope: str, session: Session | None) -> Plan:
        """How slots 1 to 3 reach the prompt; a session is sent only what it lacks."""
        current = self._published().get(scope)
        held = request.snapshot_sha256
        if session is not None:
            remind_every = self._config.remind_every
            news = plan_news(current, held, session, ledger=self._ledger, remind_every=remind_every)
            if news is not None:
                return news
        on_other = self._on_new_scope if scope != EVERYWHERE else lambda: None
        return plan_whole(current, held, ledger=self._ledger, on_other=on_other)

    def _relevant(
        self, prompt: ClientPrompt, project: str | None, plan: Plan, session: Session, *, deadline: float
    ) -> Recalled:
        """Slot 4 for a prompt; empty when nothing is close that the session does not have."""
        within = self._config.remind_every
        found = self.recall(
            searchable(prompt.text),
            project,
            plan.shown or (),
            plan.units,
            pending_units=plan.pending_units,
            view=self._view(),
            timeout_s=ENCODE_SHARE * max(0.0, deadline - time.monotonic()),
            earlier=self.conversations.earlier(prompt),
            has=lambda hit: session.has(passage_token(hit), within=within),
        )
        self.conversations.remember(prompt, found.own)
        return found

    def recall(
        self,
        text: str,
        project: str | None,
        shown: Sequence[ShownLike],
        shown_units: int,
        *,
        pending_units: int = 0,
        view: View,
        timeout_s: float,
        earlier: Sequence[str] = (),
        has: Callable[[Hit], bool] = lambda _: False,
    ) -> Recalled:
        """Search and compose slot 4, for a hook and for `recall explain` alike.

        Args:
            text: What a person meant by the prompt, of any length.
            shown: What slots 1 to 3 show.
            shown_units: UTF-16 units of slots 1 to 3, pending records included.
            pending_units: Of these, the ones of pending records: slot 4 gives up its room for them.
            timeout_s: How long the encoder may take before BM25 answers alone, seconds.
            earlier: What the session asked before, latest first.
            has: Tells the hits that the session was shown lately: they are left out.
        """
        until = time.monotonic() + timeout_s

        def encode(text: str) -> NDArray[np.float32] | None:
            if self._encoder is None or view.meaning is None:
                return None
            return self._encoder.encode_query(text, timeout_s=max(0.0, until - time.monotonic()))

        query = make_query(text, earlier, view=view, encode=encode, sense=self._sense())
        hits = search(view, self._ledger, query.text, query.vector, project=project, top_k=TOP_K)
        if not hits and query.instead is not None:
            query = query.instead()
            hits = search(view, self._ledger, query.text, query.vector, project=project, top_k=TOP_K)
        hits = [hit for hit in hits if not has(hit)]
        budget = self._config.budget
        room_units = room_for_relevant(shown_units - pending_units, budget, pending_units=pending_units)
        relevant = compose_relevant(hits, shown, room_units=room_units, budget=budget, first=shown_units == 0)
        return Recalled(
            view=view,
            text=query.text,
            own=query.own,
            vector=query.vector,
            hits=tuple(hits),
            room_units=room_units,
            relevant=relevant,
        )


def passage_token(hit: Hit) -> str:
    """Names a passage as it is shown now: with another text, title or date it is another."""
    record, passage, date = hit.record, hit.passage, hit.record.date.isoformat()
    said = "\0".join((date, passage.title_path, passage.text))
    return edition_token(f"passage {record.id}", said, "\0".join((date, record.title, record.text)))
