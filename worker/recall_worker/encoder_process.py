"""Encoder process: the encoder as the worker sees it, in a process of its own.

Flow:  encoder → encoder_child → encoder_link → [encoder_process] → search, hybrid → hook → digest
In:    prompts and passages.   Out: unit vectors, or word that there are none; BM25 goes on without.
Never: torch in the worker, or a prompt that waits longer than it said.
Next:  worker/recall_worker/dense.py
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.config import Config
from recall_worker.encoder import OFFLINE, QUIET_LIBRARIES
from recall_worker.encoder_folder import CHARACTERS_PER_TOKEN, PASSAGE_TOKENS, QUERY_TOKENS
from recall_worker.encoder_link import EncoderLink
from recall_worker.encoder_wire import Kind
from recall_worker.errors import ModelError

ONE_THREAD: Final = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "RAYON_NUM_THREADS",
    ),
    "1",
)
"""A second thread costs a prompt ten times its speed when another process holds one of two cores."""

REMEMBERED_QUERIES: Final = 256
"""Prompts whose vectors are kept, by SHA-256 of their text: 400 kB, in memory only."""

_CHUNK: Final = 32  # texts per message: what a crash or a stop loses at most
_FEW: Final = 4  # prompts per message: 20 ms that a real one may have to wait
_CHUNK_S: Final = 300.0
_LOOK_S: Final = 0.2


class EncoderProcess:
    """Starts, asks and stops the encoder's process; all methods may be called from any thread.

    After a crash the state is `failed: …`; whether and when to try again is for the caller, by `start()`.

    Args:
        config: Its `model`, `allow_download` and `state_dir`.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._link: EncoderLink | None = None
        self._failure = ""
        self._identity: tuple[str, int] | None = None
        self._remembered: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()

    @property
    def state(self) -> str:
        """For people: `off`, `starting`, `converting 40 %`, `ready` or `failed: …`."""
        link = self._link
        return link.state if link is not None else self._failure or "off"

    @property
    def ready(self) -> bool:
        """True while it answers."""
        link = self._link
        return link is not None and link.ready

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        link = self._link
        return None if link is None or link.over else link.pid

    @property
    def name(self) -> str:
        """Model and content, known once it was ready; vectors are kept under it.

        Raises:
            ModelError: It has not been ready yet.
        """
        return self._identify()[0]

    @property
    def dimension(self) -> int:
        """Length of a vector, known once it was ready.

        Raises:
            ModelError: It has not been ready yet.
        """
        return self._identify()[1]

    def start(self) -> None:
        """Start the process unless it runs; returns at once, long before it is ready."""
        with self._lock:
            if self._link is not None and not self._link.over:
                return
            self._failure = ""
            self._remembered.clear()
            try:
                self._link = EncoderLink(
                    self._command(),
                    environment=self._environment(),
                    log_file=self._config.state_dir / "encoder.log",
                )
            except OSError as error:
                self._link = None
                self._failure = (
                    f"failed: cannot start the encoder's process ({error.strerror}). BM25 goes on alone."
                )

    def wait_ready(self, tell: Callable[[str], None] | None = None, *, timeout_s: float = 900.0) -> None:
        """Wait until it answers.

        Args:
            tell: Called with each new state.
            timeout_s: A conversion takes 35 s, on a busy machine minutes.

        Raises:
            ModelError: It is off, it failed, or the time is over.
        """
        told = ""
        for _ in range(max(1, round(timeout_s / _LOOK_S))):
            link = self._link
            state = self.state
            if tell is not None and state != told:
                tell(state)
                told = state
            if link is None or link.over:
                raise ModelError(f"encoder {state}")
            if link.ready:
                self._identity = link.identity
                return
            link.settle(_LOOK_S)
        raise ModelError(f"encoder: wanted it ready in {timeout_s:.0f} s, got {self.state!r}.")

    def encode_query(self, text: str, *, timeout_s: float) -> NDArray[np.float32] | None:
        """Encode a prompt; prompts seen lately come from memory.

        Args:
            text: Its head counts, about 256 tokens.
            timeout_s: Longest wait.

        Returns:
            Unit vector, shape (dimension,), read-only; None when blank, late, not ready or crashed.
        """
        text = text[: QUERY_TOKENS * CHARACTERS_PER_TOKEN]
        link = self._link
        if link is None or not link.ready or not text.strip():
            return None
        key = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        with self._lock:
            if key in self._remembered:
                self._remembered.move_to_end(key)
                return self._remembered[key]
        try:
            vector: NDArray[np.float32] = link.call(Kind.QUERIES, [text], timeout_s=timeout_s)[0]
        except (TimeoutError, ModelError):
            return None
        with self._lock:
            if link is self._link:
                self._remembered[key] = vector
                if len(self._remembered) > REMEMBERED_QUERIES:
                    self._remembered.popitem(last=False)
        return vector

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode many short texts as prompts are, a few at a time so that a real prompt is hardly held up.

        Returns:
            Unit vectors, shape (n, dimension).

        Raises:
            ModelError: It is off, it ended before it was done, or it took too long.
        """
        self.wait_ready()
        link = self._link
        if link is None:
            raise ModelError("encoder off")
        found = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _FEW):
            few = list(texts[start : start + _FEW])
            try:
                found[start : start + _FEW] = link.call(Kind.QUERIES, few, timeout_s=_CHUNK_S)
            except TimeoutError as error:
                raise ModelError(f"encoder: wanted {_FEW} prompts in {_CHUNK_S:.0f} s, got none.") from error
        return found

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode passages behind any prompts, waiting for the process to be ready and for all of them.

        Args:
            texts: Each is read up to 512 tokens.

        Returns:
            Unit vectors, shape (n, dimension).

        Raises:
            ModelError: It is off, or it ended before it was done.
        """
        self.wait_ready()
        link = self._link
        if link is None:
            raise ModelError("encoder off")
        texts = [text[: PASSAGE_TOKENS * CHARACTERS_PER_TOKEN] for text in texts]
        found = np.empty((len(texts), self.dimension), dtype=np.float32)
        # Neighbours of like length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            try:
                found[chunk] = link.call(Kind.PASSAGES, [texts[place] for place in chunk], timeout_s=_CHUNK_S)
            except TimeoutError as error:
                raise ModelError(
                    f"encoder: wanted {len(chunk)} passages in {_CHUNK_S:.0f} s, got none. "
                    "They are left to BM25 and tried again later."
                ) from error
        return found

    def stop(self) -> None:
        """End the process and give its memory back, within 2 s; whoever waits for it gets a ModelError."""
        with self._lock:
            link, self._link = self._link, None
            self._failure = ""
            self._remembered.clear()
        if link is not None:
            self._identity = link.identity or self._identity
            link.close()

    def _identify(self) -> tuple[str, int]:
        link = self._link
        if link is not None and link.identity is not None:
            self._identity = link.identity
        if self._identity is None:
            raise ModelError(f"encoder {self.state}: its name is known once it was ready")
        return self._identity

    def _command(self) -> list[str]:
        """`-P` keeps the current folder's modules out; a crash in C leaves a trace in the log."""
        return [
            sys.executable,
            *("-P", "-X", "faulthandler", "-m", "recall_worker.encoder_child"),
            str(self._config.models),
            self._config.model,
            "download" if self._config.allow_download else "offline",
        ]

    def _environment(self) -> dict[str, str]:
        offline = {} if self._config.allow_download else OFFLINE
        return {**os.environ, **QUIET_LIBRARIES, **ONE_THREAD, **offline}
