"""Encoder link: what the worker makes of a child's messages, with small children that say them on purpose."""

from __future__ import annotations

import os
import struct
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recall_worker.encoder_link import LOG_BYTES, EncoderLink
from recall_worker.encoder_wire import Kind, pack_texts, pack_vectors, unpack_texts, unpack_vectors
from recall_worker.errors import FrameError, ModelError

CHILD = """
import os, socket, sys
import numpy as np
from recall_worker.encoder_wire import *
connection = socket.socket(fileno=os.dup(0))
stream = connection.makefile("rb")
def say(kind, payload=b"", request=0):
    connection.sendall(Message(kind=kind, payload=payload, request=request).pack())
def answer(message, value):
    say(Kind.VECTORS, pack_vectors(np.full((1, 2), value, dtype=np.float32)), message.request)
"""
PATIENCE_S = 60.0


def link_to(script: str, log_file: Path) -> EncoderLink:
    """Start a child that runs a script."""
    command = [sys.executable, "-c", CHILD + script]
    return EncoderLink(command, environment=dict(os.environ), log_file=log_file)


def test_an_answer_goes_to_its_request_only(tmp_path: Path) -> None:
    """The answer to a prompt that gave up comes just ahead of the next one's, and is thrown away."""
    link = link_to(
        """
say(Kind.READY, pack_identity("odd", 2))
first, second = receive(stream), receive(stream)
answer(first, 1); answer(second, 2)
stream.read()
""",
        tmp_path / "log",
    )
    try:
        assert link.settle(PATIENCE_S)
        assert link.identity == ("odd", 2)
        with pytest.raises(TimeoutError):
            link.call(Kind.QUERIES, ["first"], timeout_s=0.05)
        assert link.call(Kind.QUERIES, ["second"], timeout_s=PATIENCE_S).tolist() == [[2.0, 2.0]]
    finally:
        link.close()
    assert (link.over, link.state) == (True, "off")


def test_a_conversion_shows_in_the_state(tmp_path: Path) -> None:
    """Ratios become per cent; after the last one the model is being loaded."""
    link = link_to(
        """
say(Kind.READY, pack_identity("odd", 2))
for ratio in (0.4, 1.0):
    message = receive(stream)
    say(Kind.PROGRESS, pack_progress("quantising", ratio))
    answer(message, ratio)
stream.read()
""",
        tmp_path / "log",
    )
    try:
        assert link.settle(PATIENCE_S)
        for state in ("converting 40 %", "starting"):
            link.call(Kind.QUERIES, ["go on"], timeout_s=PATIENCE_S)
            assert link.state == state
    finally:
        link.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("say(Kind.FAILED, b'the model is not there'); sys.exit(7)", "failed: the model is not there"),
        ("sys.exit(3)", r"the encoder's process ended \(status 3\)"),
        ("connection.sendall(b'HTTP/1.1 400 Bad Request' * 9); stream.read()", "the encoder's process ended"),
        ("connection.shutdown(socket.SHUT_RDWR); import time; time.sleep(600)", r"\(status -9\)"),
    ],
)
def test_every_end_is_a_state(tmp_path: Path, script: str, words: str) -> None:
    """Whether it fails, leaves, talks nonsense or hangs up: the process is gone and the state says why."""
    link = link_to(script, tmp_path / "log")
    assert link.settle(PATIENCE_S)
    assert (link.over, link.ready) == (True, False)
    with pytest.raises(ModelError, match=words):
        link.call(Kind.QUERIES, ["anyone?"], timeout_s=PATIENCE_S)
    link.close()


def test_closing_frees_those_who_wait(tmp_path: Path) -> None:
    """A batch that is under way when the link is closed ends at once with ModelError."""
    link = link_to("say(Kind.READY, pack_identity('odd', 2)); stream.read()", tmp_path / "log")
    caught: list[ModelError] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            link.call(Kind.PASSAGES, ["for ever"], timeout_s=PATIENCE_S)
        except ModelError as error:
            caught.append(error)

    assert link.settle(PATIENCE_S)
    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(PATIENCE_S)
    link.close()
    thread.join(PATIENCE_S)
    assert [str(error) for error in caught] in (["the encoder is off"], ["off"])


def test_a_text_that_fails_costs_only_itself(tmp_path: Path) -> None:
    """A request that the encoder could not do raises; the next one is answered."""
    link = link_to(
        """
say(Kind.READY, pack_identity("odd", 2))
say(Kind.FAILED, b"ValueError", receive(stream).request)
answer(receive(stream), 5)
stream.read()
""",
        tmp_path / "log",
    )
    try:
        assert link.settle(PATIENCE_S)
        with pytest.raises(ModelError, match="failed on a text: ValueError"):
            link.call(Kind.QUERIES, ["odd one"], timeout_s=PATIENCE_S)
        assert link.call(Kind.QUERIES, ["next"], timeout_s=PATIENCE_S)[0, 0] == 5
    finally:
        link.close()


def test_a_long_log_is_begun_anew(tmp_path: Path) -> None:
    """What a child prints goes to the log; one that grew past its limit is cut when the next child starts."""
    log = tmp_path / "log"
    log.write_bytes(b"old " * 10)
    link_to("print('one')", log).close()
    link = link_to("print('two', flush=True)", log)
    assert link.settle(PATIENCE_S)
    link.close()
    assert log.read_text().startswith("old ")
    assert "two" in log.read_text()
    log.write_bytes(b"x" * (LOG_BYTES + 1))
    link = link_to("print('three', flush=True)", log)
    assert link.settle(PATIENCE_S)
    link.close()
    assert log.read_text() == "three\n"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_survive_the_wire(texts: list[str]) -> None:
    """Any texts, empty ones and none included, come back as they were."""
    assert unpack_texts(pack_texts(texts)) == texts


@given(arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(0, 5)), elements=st.floats(width=32)))
def test_vectors_survive_the_wire(vectors: np.ndarray) -> None:
    """Any matrix comes back bit for bit."""
    assert np.array_equal(unpack_vectors(pack_vectors(vectors)), vectors, equal_nan=True)


@given(st.binary(max_size=64))
def test_other_bytes_are_refused(payload: bytes) -> None:
    """Bytes that are no texts or vectors raise FrameError or UnicodeDecodeError, and nothing else."""
    for unpack in (unpack_texts, unpack_vectors):
        try:
            unpack(payload)
        except (FrameError, UnicodeDecodeError):
            continue
        assert len(payload) >= struct.calcsize("<I")
