"""Failures: a scheduled job may fail; the next run goes on, and `recall status` shows what happened.

Flow:  daemon → [failures] → status
In:    jobs.   Out: jobs that never raise, and one line for each that failed last.
Never: a failure that ends the worker, or one that is logged again each time it returns.
Next:  worker/recall_worker/status.py
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from recall_worker.errors import RecallError
from recall_worker.status import failure_line

log = logging.getLogger(__name__)

KEPT: Final = 20


class Failures:
    """The last failure of each job, latest last."""

    def __init__(self) -> None:
        """None yet."""
        self._lines: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def lines(self) -> list[dict[str, Any]]:
        """For the status."""
        return list(self._lines)

    def guard(self, name: str, job: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
        """Make of a job one whose failure is noted and costs no later run."""

        async def run() -> None:
            try:
                await job()
            except RecallError as error:
                self._note(name, str(error))
            except Exception as error:
                log.exception("%s failed", name)
                self._note(name, f"{type(error).__name__}: see worker.log")
            else:
                self._forget(name)

        return run

    def _note(self, job: str, message: str) -> None:
        known = [line for line in self._lines if line["job"] == job]
        if not known or known[-1]["message"] != message:
            log.warning("%s: %s", job, message)
        self._forget(job)
        self._lines.append(failure_line(job, message))

    def _forget(self, job: str) -> None:
        for line in [line for line in self._lines if line["job"] == job]:
            self._lines.remove(line)
