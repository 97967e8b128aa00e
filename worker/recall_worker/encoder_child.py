"""Encoder child: the main program of the encoder's own process.

Flow:  encoder → [encoder_child] → encoder_link → encoder_process → search, hybrid
In:    requests on the socket that is standard input.   Out: vectors on it; words of its own go to the log.
Never: outlives the worker, lets a batch hold up a prompt, or writes a text to the log.
Next:  worker/recall_worker/encoder_link.py
"""

from __future__ import annotations

import logging
import math
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from recall_worker.encoder import Encoder, load_encoder
from recall_worker.encoder_wire import (
    Kind,
    Message,
    pack_identity,
    pack_progress,
    pack_vectors,
    receive,
    unpack_texts,
)
from recall_worker.errors import FrameError, ModelError

log = logging.getLogger(__name__)

BULK_NICENESS: Final = 10

QUIET_S: Final = 10.0
"""Seconds without a prompt after which passages get a second thread, if there is a second core."""

SLICE: Final = 8
"""Texts that a thread takes at a time: a prompt that comes meanwhile has a core to itself after so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    message: Message
    arrived: float  # monotonic seconds

    def too_late(self) -> bool:
        limit_s = self.message.timeout_ms / 1_000
        return limit_s > 0 and time.monotonic() - self.arrived > limit_s


class EncoderChild:
    """Reads requests in the main thread and answers them in two others: prompts in one, batches in the other.

    The main thread does nothing but read, so it sees the worker's end of the socket close at once, whatever
    the others are busy with: that is how this process ends, however the worker died.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._queries: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._passages: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._last_query = -math.inf

    def run(self, model: str, *, models_dir: Path, allow_download: bool) -> NoReturn:
        """Load the encoder beside, and serve until the worker hangs up."""

        def load() -> Encoder:
            return load_encoder(
                model, models_dir=models_dir, allow_download=allow_download, progress=self._tell_progress
            )

        threading.Thread(target=self._load_and_answer, args=(load,), name="queries", daemon=True).start()
        try:
            stream = self._connection.makefile("rb")
            while (message := receive(stream)) is not None:
                job = _Job(message=message, arrived=time.monotonic())
                if message.kind == Kind.QUERIES:
                    self._last_query = job.arrived
                (self._queries if message.kind == Kind.QUERIES else self._passages).put(job)
        except (OSError, FrameError) as error:
            log.error("encoder link broke error=%s", error)
        finally:
            # At once, whatever the other threads do: even a conversion leaves its final place alone.
            os._exit(0)

    def _load_and_answer(self, load: Callable[[], Encoder]) -> None:
        """Load, say so, then answer prompts; batches get a thread of their own."""
        started = time.monotonic()
        try:
            encoder = load()
        except ModelError as error:
            self._give_up(str(error))
        except Exception as error:  # the whole job of this process: whatever went wrong is told to the worker
            log.exception("encoder load failed")
            self._give_up(f"the encoder did not load: {type(error).__name__}; encoder.log has the details")
        log.info("encoder ready name=%s ms=%d", encoder.name, 1_000 * (time.monotonic() - started))
        self._send(Message(kind=Kind.READY, payload=pack_identity(encoder.name, encoder.dimension)))
        threading.Thread(target=self._answer_passages, args=(encoder,), name="passages", daemon=True).start()
        self._answer(self._queries, encoder.encode_queries)

    def _answer_passages(self, encoder: Encoder) -> None:
        """Encode batches in a niced thread, and in a second one while nobody prompts."""
        _step_back()
        with ThreadPoolExecutor(1, thread_name_prefix="passages-beside", initializer=_step_back) as beside:
            if (os.cpu_count() or 1) < 2:
                self._answer(self._passages, encoder.encode_passages)
            self._answer(
                self._passages,
                lambda texts: encode_in_slices(
                    texts, encoder.encode_passages, beside=beside, quiet=self._is_quiet
                ),
            )

    def _is_quiet(self) -> bool:
        return time.monotonic() - self._last_query >= QUIET_S

    def _answer(
        self, jobs: queue.SimpleQueue[_Job], encode: Callable[[Sequence[str]], NDArray[np.float32]]
    ) -> NoReturn:
        """Answer one job after the other, leaving out those that nobody waits for any more."""
        while True:
            job = jobs.get()
            if job.too_late():
                continue
            try:
                answer = Message(
                    kind=Kind.VECTORS,
                    request=job.message.request,
                    payload=pack_vectors(encode(unpack_texts(job.message.payload))),
                )
            except (
                Exception
            ) as error:  # one request: the next may do better. Its message could quote the text.
                log.error("encode failed error=%s bytes=%d", type(error).__name__, len(job.message.payload))
                answer = Message(
                    kind=Kind.FAILED, request=job.message.request, payload=type(error).__name__.encode()
                )
            self._send(answer)

    def _tell_progress(self, stage: str, ratio: float) -> None:
        log.info("model convert stage=%r ratio=%.2f", stage, ratio)
        self._send(Message(kind=Kind.PROGRESS, payload=pack_progress(stage, ratio)))

    def _give_up(self, reason: str) -> NoReturn:
        self._send(Message(kind=Kind.FAILED, payload=reason.encode()))
        os._exit(ModelError.exit_code)

    def _send(self, message: Message) -> None:
        with self._sending:
            try:
                self._connection.sendall(message.pack())
            except OSError:
                os._exit(0)  # the worker is gone


def encode_in_slices(
    texts: Sequence[str],
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
    *,
    beside: Executor,
    quiet: Callable[[], bool],
) -> NDArray[np.float32]:
    """Encode texts here, and beside for as long as it is quiet.

    Args:
        texts: Neighbours of like length, as they come.
        encode: Safe to call from two threads at once.
        beside: Runs the second thread.
        quiet: Asked before each slice of the second thread.

    Returns:
        Vectors in the order of the texts, shape (n, dimension).
    """
    starts = range(0, len(texts), SLICE)
    waiting = deque(starts)
    found: dict[int, NDArray[np.float32]] = {}

    def work(may_go_on: Callable[[], bool]) -> None:
        while may_go_on():
            try:
                start = waiting.popleft()
            except IndexError:
                return
            found[start] = encode(texts[start : start + SLICE])

    helping = beside.submit(work, quiet) if len(starts) > 1 and quiet() else None
    try:
        work(lambda: True)
    finally:
        waiting.clear()
        if helping is not None:
            helping.result()
    return np.concatenate([found[start] for start in starts]) if starts else encode(texts)


def _step_back() -> None:
    """Let the calling thread give way to all others, as far as the system can do that for one thread."""
    try:
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BULK_NICENESS)
        elif sys.platform == "darwin" and sys.version_info >= (3, 12):
            os.setpriority(os.PRIO_DARWIN_THREAD, 0, os.PRIO_DARWIN_BG)
    except OSError as error:
        log.info("bulk not niced error=%s", error.strerror)


def main() -> NoReturn:
    """Run as `python -m recall_worker.encoder_child MODELS_DIR MODEL download|offline`, socket on stdin."""
    models_dir, model, download = sys.argv[1:]
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    connection = socket.socket(fileno=os.dup(0))
    # What a library reads or prints must not meet the socket.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    EncoderChild(connection).run(model, models_dir=Path(models_dir), allow_download=download == "download")


if __name__ == "__main__":
    main()
