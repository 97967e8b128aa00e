"""Keeper: decides when the encoder's process runs, and hands it what has no vector yet.

Flow:  ledger → [keeper → encoder_process] → hybrid index → search
In:    the index served now.   Out: vectors in the ledger and beside the index's rows.
Never: a prompt that waits for the encoder to start; a failing encoder started over and over.
Next:  worker/recall_worker/daemon.py
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.config import NO_MODEL, Config
from recall_worker.errors import ModelError
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import load_language_space
from recall_worker.rebuild import EMBED_BATCH
from recall_worker.turns import TurnSense, load_turn_sense

if TYPE_CHECKING:
    from recall_worker.encoder_process import EncoderProcess

log = logging.getLogger(__name__)

FIRST_RETRY_S: Final = 5.0
LAST_RETRY_S: Final = 600.0
"""Seconds before an encoder that failed is tried again: twice as long each time."""


class EncoderKeeper:
    """Wakes the encoder, feeds it and lets it go. With `model = "none"` it keeps nothing."""

    def __init__(self, config: Config, index: Callable[[], HybridIndex]) -> None:
        """Keep the config's model for whatever index is served."""
        self._config = config
        self._index = index
        self._process = make_encoder(config)
        self._sense: tuple[str, TurnSense] | None = None
        self._retry_s = FIRST_RETRY_S
        self._retry_at = 0.0

    @property
    def sense(self) -> TurnSense | None:
        """What the encoder knows of short prompts; None before it was ready once."""
        return None if self._sense is None else self._sense[1]

    @property
    def state(self) -> str:
        """For people: `off`, `starting`, `converting 40 %`, `ready` or `failed: …`."""
        return "off" if self._process is None else self._process.state

    def wake(self) -> None:
        """Start the process if it is not there; one that failed is left alone for longer each time."""
        process = self._process
        if process is None or process.ready:
            return
        now = time.monotonic()
        if process.state.startswith("failed"):
            if now < self._retry_at:
                return
            self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
        self._retry_at = now + self._retry_s
        process.start()

    def encode_query(self, text: str, *, timeout_s: float) -> NDArray[np.float32] | None:
        """Unit vector of a prompt, shape (dimension,); None when the encoder is not there in time."""
        return None if self._process is None else self._process.encode_query(text, timeout_s=timeout_s)

    def embed_batch(self) -> bool:
        """Encode one batch of what has no vector, waking the encoder for it.

        Returns:
            True if more may be waiting.

        Raises:
            ModelError: The process ended meanwhile; what it had finished is kept.
        """
        process, index = self._process, self._index()
        if process is None:
            return False
        if not process.ready:
            if index.model is None or index.missing():
                self.wake()
            return False
        self._retry_s = FIRST_RETRY_S
        folder = self._config.models
        if index.model != process.name:
            # Learn where the encoder puts each language, then load the vectors it made before.
            space = load_language_space(process, name=process.name, folder=folder)
            index.attach(process.name, process.dimension, space)
        if self._sense is None or self._sense[0] != process.name:
            sense = load_turn_sense(process.encode_queries, name=process.name, folder=folder)
            self._sense = process.name, sense
        return index.embed(process, limit=EMBED_BATCH) > 0

    def let_go_after(self, idle_s: float) -> None:
        """Give the encoder's memory back if no prompt came for as long as the config says.

        Args:
            idle_s: Seconds since the last prompt.
        """
        if idle_s > self._config.encoder_idle_min * 60:
            self.stop()

    def wait(self, tell: Callable[[str], None]) -> EncoderProcess | None:
        """Start the process and wait until it answers; None if it does not, or if there is none.

        Args:
            tell: Called with each new state.
        """
        if self._process is None:
            return None
        self._process.start()
        try:
            self._process.wait_ready(tell)
        except ModelError as error:
            log.warning("no encoder: %s", error)
            return None
        return self._process

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stop()


def make_encoder(config: Config) -> EncoderProcess | None:
    """The encoder's process, not started yet; None with `model = "none"`."""
    if config.model == NO_MODEL:
        return None
    from recall_worker.encoder_process import EncoderProcess

    return EncoderProcess(config)
