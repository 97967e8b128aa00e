"""Encoder link: one encoder process and the socket to it, from its start to its end.

Flow:  encoder_child → [encoder_link] → encoder_process → search, hybrid
In:    a command to run.   Out: vectors for texts, or why there are none.
Never: an answer given to another request, a wait past its limit, or a process left behind.
Next:  worker/recall_worker/encoder_process.py
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.encoder_wire import (
    Kind,
    Message,
    pack_texts,
    receive,
    unpack_identity,
    unpack_progress,
    unpack_vectors,
)
from recall_worker.errors import FrameError, ModelError

log = logging.getLogger(__name__)

LOG_BYTES: Final = 1_000_000
"""A longer log is begun anew when a process starts."""

_END_S: Final = 1.0
_OUTBOX: Final = 64


class EncoderLink:
    """A child process that lives exactly as long as this object is not closed and the worker lives.

    The child ends when its end of the socket pair is closed, so it cannot outlive a worker that was killed.
    (Linux's PR_SET_PDEATHSIG would not do: it fires when the *thread* that started the child ends.)

    Two threads of the worker belong to it: one writes, so that a child that has stopped reading never holds
    up a caller past its limit; one reads, and notices the end.

    Args:
        command: The program with its arguments.
        environment: All variables of it.
        log_file: Takes what it prints.

    Raises:
        OSError: The process cannot be started.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], log_file: Path) -> None:
        self.state = "starting"
        self.identity: tuple[str, int] | None = None
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._over = False
        self._closing = False
        self._failure = ""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[NDArray[np.float32]]] = {}
        self._outbox: queue.Queue[bytes | None] = queue.Queue(_OUTBOX)
        self._connection, theirs = socket.socketpair()
        try:
            with theirs, _open_log(log_file) as output:
                # A session of its own: Ctrl-C in the worker's terminal is the worker's to handle.
                self._process = subprocess.Popen(
                    command,
                    env=dict(environment),
                    stdin=theirs.fileno(),
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError:
            self._connection.close()
            raise
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, name="encoder-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="encoder-writer", daemon=True)
        self._writer.start()
        self._reader.start()  # last: a process that ends at once makes it wait for the writer

    @property
    def over(self) -> bool:
        """True once the process has ended."""
        return self._over

    @property
    def ready(self) -> bool:
        """True while it answers."""
        return self.identity is not None and not self._over

    def settle(self, timeout_s: float) -> bool:
        """Wait until it is ready or over; False if it is neither after `timeout_s`."""
        return self._settled.wait(timeout_s)

    def call(self, kind: Kind, texts: Sequence[str], *, timeout_s: float) -> NDArray[np.float32]:
        """Ask, and wait for the answer.

        Returns:
            Vectors, shape (n, dimension), read-only.

        Raises:
            TimeoutError: No answer yet; one that comes later is thrown away.
            ModelError: The process has ended, or could not encode these texts.
        """
        deadline = time.monotonic() + timeout_s
        request = next(self._numbers)
        answer: Future[NDArray[np.float32]] = Future()
        message = Message(
            kind=kind, payload=pack_texts(texts), request=request, timeout_ms=max(1, int(1_000 * timeout_s))
        )
        with self._lock:
            if self._over:
                raise ModelError(self.state)
            self._waiting[request] = answer
        try:
            self._outbox.put(message.pack(), timeout=timeout_s)
            return answer.result(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Full as error:
            raise TimeoutError from error
        finally:
            with self._lock:
                self._waiting.pop(request, None)

    def close(self) -> None:
        """End the process and wait for that; done within 2 s."""
        self._closing = True
        with contextlib.suppress(OSError):  # already gone
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join(timeout=2 * _END_S)

    def _write(self) -> None:
        """Send what callers leave; after the end, take it without sending until the sentinel comes."""
        while (data := self._outbox.get()) is not None:
            with contextlib.suppress(OSError):  # the reader notices
                self._connection.sendall(data)

    def _read(self) -> None:
        """Hand out answers until the other side has closed."""
        try:
            with self._connection.makefile("rb") as stream:
                while (message := receive(stream)) is not None:
                    self._take(message)
        except (OSError, FrameError) as error:
            log.warning("encoder link broke error=%s", error)
        finally:
            self._finish()

    def _take(self, message: Message) -> None:
        with self._lock:
            answer = self._waiting.pop(message.request, None)
        if message.kind == Kind.PROGRESS:
            _, ratio = unpack_progress(message.payload)
            self.state = f"converting {round(100 * ratio)} %" if ratio < 1 else "starting"
        elif message.kind == Kind.READY:
            self.identity = unpack_identity(message.payload)
            self.state = "ready"
            self._settled.set()
        elif message.kind == Kind.FAILED and message.request == 0:
            self._failure = message.payload.decode()
        elif answer is not None and message.kind == Kind.VECTORS:
            answer.set_result(unpack_vectors(message.payload))
        elif answer is not None:
            answer.set_exception(ModelError(f"the encoder failed on a text: {message.payload.decode()}"))

    def _finish(self) -> None:
        """Make sure that the process has ended, say why, and let nobody wait any longer."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes the writer
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        reason = self._failure or (
            f"the encoder's process ended (status {status}), encoder.log may say why. "
            "Search goes on with BM25 alone. It starts again with the next prompt."
        )
        with self._lock:
            self.state = "off" if self._closing else f"failed: {reason}"
            self._over = True
            left, self._waiting = list(self._waiting.values()), {}
        for answer in left:
            answer.set_exception(ModelError(f"the encoder is {self.state}"))
        self._settled.set()
        if not self._closing:
            log.warning("encoder ended status=%d", status)
        self._outbox.put(None)
        self._writer.join()
        self._connection.close()


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    """The log, for appending; begun anew when it has grown long."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    anew = os.O_TRUNC if path.exists() and path.stat().st_size > LOG_BYTES else 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | anew, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
