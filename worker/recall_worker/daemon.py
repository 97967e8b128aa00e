"""Daemon: `recall-worker`, the one process that keeps everything ready.

Flow:  vault → [scan, publish, embed on a schedule] → state folder;  hook → server → [answer]
In:    the config.   Out: snapshots, indexes, answers, a log.
Never: a network port; two refreshes at once; a failure that ends the process while it could go on.
Next:  worker/recall_worker/refresh.py, worker/recall_worker/server.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from recall_worker.answer import Answerer
from recall_worker.config import Config
from recall_worker.errors import LedgerDamaged, UsageError, WorkerError
from recall_worker.explain import above_of, explain, read_order
from recall_worker.failures import Failures
from recall_worker.frames import Request
from recall_worker.hybrid import HybridIndex
from recall_worker.keeper import EncoderKeeper
from recall_worker.ledger import Ledger
from recall_worker.ledger_losses import read_root
from recall_worker.ledger_recovery import begin_anew, open_ledger
from recall_worker.locks import lock_inode, worker_lock
from recall_worker.projects import Projects
from recall_worker.rebuild import rebuild, remove_other_generations, serving_generation
from recall_worker.records import EVERYWHERE
from recall_worker.refresh import Publisher, read_vault
from recall_worker.server import Server
from recall_worker.status import read_status

log = logging.getLogger(__name__)

T = TypeVar("T")

SESSION_LIVE_S: Final = 600.0
"""Seconds after its last prompt for which a session counts as live."""

COMPACT_MIN: Final = 30
PRUNE_H: Final = 24
EMBED_PAUSE_S: Final = 1.0
RETIRE_S: Final = 15.0
"""Seconds for which a replaced generation stays open for searches that began on it."""

ANSWER_THREADS: Final = 4

LEDGER_ATTEMPTS: Final = 3
"""Times that one process begins a ledger; damage that returns each time is the disk's, and no new file helps."""


class Daemon:
    """Wires ledger, index, encoder, publisher and server; APScheduler owns when."""

    def __init__(self, config: Config, ledger: Ledger) -> None:
        """Open the serving generation; `run` does the rest."""
        self._config = config
        self._ledger = ledger
        self._projects = Projects(config.projects, ledger)
        self._publisher = Publisher(
            config, ledger, self._projects, idle_s=lambda: time.monotonic() - self._last_prompt
        )
        self._index = HybridIndex(serving_generation(config.state_dir), ledger)
        self._keeper = EncoderKeeper(config, lambda: self._index)
        self._answerer = Answerer(
            config,
            ledger,
            self._projects,
            view=lambda: self._index.view,
            published=lambda: self._publisher.published,
            encoder=self._keeper,
            sense=lambda: self._keeper.sense,
            on_new_scope=self._on_new_scope,
        )
        self._refreshing = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._answering = ThreadPoolExecutor(ANSWER_THREADS, thread_name_prefix="answer")
        self._embedding = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._failures = Failures()
        self._started = time.time()
        self._last_scan: dict[str, Any] | None = None
        self._last_prompt = time.monotonic()
        self._pace_s = 0.0
        self._rebuilding = False
        self._lock_inode = lock_inode(config.state_dir)
        self._damage: LedgerDamaged | None = None
        self._served_seq: int | None = None
        self._behind = False

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or an order to stop; the batch in hand is finished first.

        Raises:
            LedgerDamaged: The ledger turned out to be damaged; everything is closed by then.
        """
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._stop.set)
        server = Server(answer=self._answer, control=self._control)
        if read_root(self._ledger) is not None:
            # What was known last time is right until the first scan says otherwise, and it is there at once; but not
            # what a first reading that was cut off has left.
            await self._in(self._refreshing, self._publisher.publish)
        await self._in(self._refreshing, self._index.follow)
        await server.start(self._config.state_dir)
        self._answering.submit(self._answerer.warm_up)
        self._keeper.wake()
        self._schedule()
        log.info("serving state=%s vault=%s", self._config.state_dir, self._config.vault)
        try:
            await self._stop.wait()
        finally:
            log.info("stopping")
            await server.close()
            self._scheduler.shutdown(wait=False)
            await asyncio.to_thread(self._keeper.stop)
            for pool in (self._refreshing, self._embedding, self._answering):
                await asyncio.to_thread(pool.shutdown, cancel_futures=True)
            self._index.close()
        if self._damage is not None:
            raise self._damage

    def _schedule(self) -> None:
        """Hand every recurring job to APScheduler."""
        self._scheduler.add_job(self._failures.guard("scan", self._scan), id="scan")
        self._scheduler.add_job(
            self._failures.guard("embed", self._embed), "interval", seconds=EMBED_PAUSE_S, id="embed"
        )
        self._scheduler.add_job(
            self._failures.guard("compact", lambda: self._in(self._refreshing, self._index.compact)),
            "interval",
            minutes=COMPACT_MIN,
            id="compact",
        )
        self._scheduler.add_job(
            self._failures.guard("prune", lambda: self._in(self._refreshing, self._ledger.prune)),
            "interval",
            hours=PRUNE_H,
            id="prune",
        )
        self._scheduler.start()
        self._keep_pace()

    def _keep_pace(self) -> None:
        """Scan often while sessions live, seldom otherwise."""
        live = time.monotonic() - self._last_prompt < SESSION_LIVE_S
        pace_s = self._config.scan_live_s if live else self._config.scan_idle_s
        if pace_s != self._pace_s:
            self._pace_s = pace_s
            self._scheduler.add_job(
                self._failures.guard("scan", self._scan),
                "interval",
                seconds=pace_s,
                id="scans",
                replace_existing=True,
            )

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await self._loop.run_in_executor(pool, work)
        except LedgerDamaged as error:  # whoever meets it, a scan or a prompt: the ledger is begun anew
            self._damage = error
            self._stop.set()
            raise

    async def _scan(self) -> None:
        """Vault → ledger → index → snapshots; what did not change is not touched."""
        if lock_inode(self._config.state_dir) != self._lock_inode:
            log.error("state folder taken away: stopping")
            self._stop.set()
            return
        self._keep_pace()
        await self._in(self._refreshing, self._refresh)

    def _refresh(self) -> None:
        self._answerer.conversations.hear_spooled_starts()
        report = read_vault(self._config, self._ledger, progress=lambda *_: self._refuse_if_stopping())
        self._last_scan = {
            "at": time.time(),
            "files": report.files,
            "ms": report.ms,
            "problems": len(report.problems),
        }
        # Compared with what was served last, not with before this scan: an earlier round may have failed half-way.
        head = self._ledger.head_seq()
        self._behind = self._behind or report.touched > 0 or head != self._served_seq
        if self._behind or not self._publisher.published:
            self._index.follow(lambda *_: self._refuse_if_stopping())
            self._publisher.publish()
            self._behind, self._served_seq = False, head
        elif self._publisher.is_due():
            self._publisher.publish()

    def _refuse_if_stopping(self) -> None:
        """End a long batch between two of its steps: what was done is kept, the rest is done at the next start."""
        if self._stop.is_set():
            raise WorkerError("the worker is stopping; it goes on at the next start.")

    async def _embed(self) -> None:
        """Fill missing vectors, then let the encoder go if nobody prompts; a rebuild fills them itself."""
        while not self._rebuilding and not self._stop.is_set():
            if not await self._in(self._embedding, self._keeper.embed_batch):
                break
        await asyncio.to_thread(self._keeper.let_go_after, time.monotonic() - self._last_prompt)

    async def _answer(self, request: Request) -> bytes:
        """Answer a hook; any sign of a session wakes the encoder and quickens the scans."""
        self._last_prompt = time.monotonic()
        self._keeper.wake()
        self._keep_pace()
        received = time.monotonic()
        return await self._in(self._answering, lambda: self._answerer.answer(request, received=received))

    def _on_new_scope(self) -> None:
        """A project's directory became known: the hook shall match it from the next prompt on."""
        publish = self._failures.guard("publish", lambda: self._in(self._refreshing, self._publisher.publish))
        self._loop.call_soon_threadsafe(
            lambda: self._scheduler.add_job(publish, id="publish", replace_existing=True)
        )

    async def _control(self, order: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Obey `recall`; docs/protocol.md lists the orders."""
        do = order.get("do")
        if do == "status":
            yield await asyncio.to_thread(self.status)
        elif do == "ping":
            yield {"done": True}
        elif do == "explain":
            yield await self._explain(order)
        elif do == "scan":
            await self._in(self._refreshing, self._refresh)
            yield {"done": True}
        elif do == "stop":
            yield {"done": True, "pid": os.getpid()}
            self._stop.set()
        elif do == "rebuild":
            async for line in self._rebuild(confirm_empty=order.get("confirm_empty") is True):
                yield line
        else:
            raise UsageError(f"worker: wanted one of ping, status, explain, scan, stop, rebuild, got {do!r}.")

    async def _explain(self, order: dict[str, Any]) -> dict[str, Any]:
        """Why a prompt gets what it gets."""
        self._keeper.wake()
        asked = read_order(order)
        view = self._index.view
        explained = await self._in(
            self._answering,
            lambda: explain(
                asked,
                self._answerer.project_of(asked.directory, remember=False),
                answerer=self._answerer,
                ledger=self._ledger,
                view=view,
                above=lambda project: above_of(
                    self._publisher.published.get(project or EVERYWHERE), self._ledger
                ),
            ),
        )
        return {"done": True, "worker": os.getpid(), "encoder": self._keeper.state, **asdict(explained)}

    def status(self) -> dict[str, Any]:
        """Everything `recall status` shows."""
        running = {
            "pid": os.getpid(),
            "since": self._started,
            "generation": self._index.folder.name,
            "rebuilding": self._rebuilding,
            "last_scan": self._last_scan,
            "failures": self._failures.lines(),
        }
        encoder = {
            "model": self._config.model,
            "state": self._keeper.state,
            "missing": self._index.missing() if self._index.model else None,
        }
        return read_status(self._config, self._ledger, worker=running, encoder=encoder, view=self._index.view)

    async def _rebuild(self, *, confirm_empty: bool) -> AsyncIterator[dict[str, Any]]:
        """Rebuild in the refresh thread, so that no scan runs beside it, telling how far it is."""
        if self._rebuilding:
            raise UsageError("a rebuild is running already; `recall status` shows it.")
        lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def tell(stage: str, done: int, total: int) -> None:
            self._refuse_if_stopping()
            self._loop.call_soon_threadsafe(
                lines.put_nowait, {"stage": stage, "done_units": done, "total": total}
            )

        self._rebuilding = True
        work = asyncio.ensure_future(
            self._in(self._refreshing, lambda: self._rebuild_and_swap(tell, confirm_empty=confirm_empty))
        )
        try:
            while not work.done() or not lines.empty():
                with contextlib.suppress(TimeoutError):
                    yield await asyncio.wait_for(lines.get(), timeout=0.2)
            yield {"done": True, **await work}
        finally:
            self._rebuilding = False

    def _rebuild_and_swap(
        self, tell: Callable[[str, int, int], None], *, confirm_empty: bool
    ) -> dict[str, Any]:
        started = time.monotonic()
        encoder = self._keeper.wait(lambda state: tell(f"encoder: {state}", 0, 0))
        old = self._index
        self._index = rebuild(
            self._config, self._ledger, encoder=encoder, progress=tell, confirm_empty=confirm_empty
        )
        self._publisher.publish()
        self._loop.call_soon_threadsafe(self._loop.call_later, RETIRE_S, old.close)
        remove_other_generations(self._config.state_dir)
        return {
            "records": self._ledger.record_count(),
            "passages": len(self._index.view.corpus),
            "problems": len(self._ledger.problems()),
            "missing": self._index.missing(),
            "seconds": round(time.monotonic() - started, 1),
        }


def serve(config: Config) -> None:
    """Run a worker until it is told to stop.

    Raises:
        AlreadyRunning: One runs on this state folder.
        LedgerError: The ledger cannot be opened, or is damaged again each time it was begun anew.
    """
    with worker_lock(config.state_dir):
        _log_to(config.state_dir / "worker.log")
        os.chdir(config.state_dir)
        path = config.state_dir / "ledger.sqlite3"
        ledger = open_ledger(path)
        for attempts_left in reversed(range(LEDGER_ATTEMPTS)):
            try:
                with ledger:
                    asyncio.run(_run(config, ledger))
                return
            except LedgerDamaged as damage:
                if not attempts_left:
                    raise
                ledger = begin_anew(path, damage)


async def _run(config: Config, ledger: Ledger) -> None:
    await Daemon(config, ledger).run()


def _log_to(path: Path) -> None:
    """One rotating log; libraries speak only when something is wrong."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1_000_000, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    path.chmod(0o600)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("recall_worker").setLevel(logging.INFO)
