"""Answer bench: where the time of one answer goes, what a worker weighs, what a small commit takes.

Flow:  bench_state → [bench_answer] → bench_search
In:    a built state folder.   Out: milliseconds by stage, megabytes, milliseconds a commit.
Never: the stages taken apart and put together in another way than the worker does it: a stopwatch stands beside them.
Next:  worker/recall_worker/answer.py
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import recall_worker.answer
import recall_worker.digest
import recall_worker.search
from bench_state import open_index, recall, running_encoder, wait_until_ready
from bench_texts import Note
from recall_worker.answer import Answerer
from recall_worker.client import exchange
from recall_worker.config import Config
from recall_worker.dense import DenseMatrix
from recall_worker.frames import Event, pack_request, unpack_request
from recall_worker.ledger import FileChange, FileState, Ledger
from recall_worker.lexical import LexicalIndex
from recall_worker.projects import Projects
from recall_worker.records import PassageDraft, RecordDraft, RecordType
from recall_worker.refresh import Publisher

STAGES: Final = ("encode", "lexical", "dense", "fuse", "read", "dedupe", "trim", "rest")
DEADLINE_MS: Final = 60_000


class Stopwatch:
    """Adds up the time spent in each stage; time in an inner stage does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def stand_by(self, owner: Any, function: str, name: str) -> None:
        """Count every call of a module's or a class's function to a stage."""
        inner: Callable[..., Any] = getattr(owner, function)

        def timed(*args: Any, **options: Any) -> Any:
            with self.stage(name):
                return inner(*args, **options)

        setattr(owner, function, timed)

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


def time_answers(config: Config, prompts: Sequence[str], *, warm_up: int) -> dict[str, Any]:
    """Answer prompts in this process as the worker does, with the encoder in its own.

    Args:
        warm_up: Prompts at the head that are answered but not counted.
    """
    if config.model == "none":
        with open_index(config, None) as (ledger, index):
            return _time_answers(config, prompts, warm_up, ledger, index.view, None)
    with running_encoder(config) as encoder, open_index(config, encoder) as (ledger, index):
        return _time_answers(config, prompts, warm_up, ledger, index.view, encoder)


def _time_answers(
    config: Config, prompts: Sequence[str], warm_up: int, ledger: Ledger, view: Any, encoder: Any
) -> dict[str, Any]:
    watch = Stopwatch()
    watch.stand_by(recall_worker.answer, "search", "fuse")
    watch.stand_by(recall_worker.search, "read_hits", "read")
    watch.stand_by(recall_worker.answer, "compose_relevant", "dedupe")
    watch.stand_by(recall_worker.digest, "cut", "trim")
    watch.stand_by(LexicalIndex, "scores", "lexical")
    watch.stand_by(DenseMatrix, "scores", "dense")
    if encoder is not None:
        watch.stand_by(type(encoder), "encode_query", "encode")
    projects = Projects(config.projects, ledger)
    publisher = Publisher(config, ledger, projects)
    publisher.publish()
    held = publisher.published[""].sha256
    answerer = Answerer(
        config,
        ledger,
        projects,
        view=lambda: view,
        published=lambda: publisher.published,
        encoder=encoder,
    )
    rows, answers = [], []
    for number, prompt in enumerate(prompts):
        request = unpack_request(_request(prompt, number, held))
        watch.seconds.clear()
        with watch.stage("rest"):
            answers.append(answerer.answer(request))
        rows.append([1_000 * watch.seconds[name] for name in STAGES])
    times = np.array(rows[warm_up:])
    times = np.column_stack([times, times.sum(axis=1)])
    names = [*STAGES, "total"]
    found = sum(len(answer) > 100 for answer in answers[warm_up:])
    return {
        **{
            f"p{percent}_ms": dict(
                zip(names, np.percentile(times, percent, axis=0).round(2).tolist(), strict=True)
            )
            for percent in (50, 95)
        },
        "with_slot_4": found,
        "prompts": len(times),
    }


def weigh_worker(config: Config, prompts: Sequence[str]) -> dict[str, float]:
    """Resident size of a worker and of its encoder, once all vectors are loaded and prompts were answered."""
    recall(config, "start", "--wait", "120")
    try:
        status = wait_until_ready(config)
        worker = int(status["worker"]["pid"])
        started = _resident_mb(worker)
        for number, prompt in enumerate(prompts):
            exchange(config.state_dir, _request(prompt, number, bytes(32)), timeout_s=60)
        children = [_resident_mb(pid) for pid in _children(worker)]
        return {
            "worker_start_mb": started,
            "worker_mb": _resident_mb(worker),
            "encoder_mb": round(sum(children), 1),
        }
    finally:
        recall(config, "stop")


def time_commits(config: Config, notes: Sequence[Note], *, each: int) -> dict[str, float]:
    """Change a few records at a time and let the index follow; the state folder is changed by it."""
    times, first_queries = [], []
    with open_index(config, None) as (ledger, index):
        for start in range(0, len(notes), each):
            changes = [
                _change(number % each, note) for number, note in enumerate(notes[start : start + each])
            ]
            ledger.apply(changes, today=dt.date(2026, 1, 1))
            began = time.perf_counter()
            index.follow()
            times.append(1_000 * (time.perf_counter() - began))
            view = index.view
            began = time.perf_counter()
            view.lexical.scores(notes[start].text, view.corpus.ids)
            first_queries.append(1_000 * (time.perf_counter() - began))
    return {
        "p50": round(float(np.percentile(times, 50)), 1),
        "p95": round(float(np.percentile(times, 95)), 1),
        "query_after_p50": round(float(np.percentile(first_queries, 50)), 2),
    }


def _change(place: int, note: Note) -> FileChange:
    """One note of a file that changes with every commit."""
    path = f"knowledge/changing/{place}.md"
    draft = RecordDraft(
        key=path,
        stated_id=False,
        type=RecordType.KNOWLEDGE,
        high=False,
        date=dt.date(2026, 1, 1),
        project=None,
        tags=(),
        title=note.title,
        text=note.text,
        line=1,
        passages=(PassageDraft(ordinal=0, title_path=note.title, text=note.text, line=1),),
    )
    state = FileState(path=path, size=len(note.text), mtime_ns=0, sha256=f"{hash(note)}", settled=False)
    return FileChange(state=state, drafts=(draft,), problems=())


def _request(prompt: str, number: int, held: bytes) -> bytes:
    body = {"session_id": f"bench-{number}", "prompt_id": f"bench-{number}", "cwd": "/", "prompt": prompt}
    return pack_request(
        event=Event.PROMPT, body=json.dumps(body).encode(), snapshot_sha256=held, deadline_ms=DEADLINE_MS
    )


def _resident_mb(pid: int) -> float:
    run = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return round(int(run.stdout.strip() or 0) / 1_024, 1)


def _children(pid: int) -> list[int]:
    run = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    return [child for child, parent in pairs if parent == pid and child != os.getpid()]
