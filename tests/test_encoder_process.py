"""Encoder process: right answers to the right requests in time, and no process left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recall_worker.config import DEFAULT_MODEL, Config
from recall_worker.encoder import Encoder, load_encoder
from recall_worker.encoder_process import REMEMBERED_QUERIES, EncoderProcess
from recall_worker.errors import ModelError

PATIENCE_S = 120.0
PASSAGES = [f"the server number {number} and its database" + " again" * (number % 7) for number in range(70)]


def config_of(state: Path, model: Path | str) -> Config:
    """A config with its own state and a model."""
    return Config(state_dir=state, vault=state / "vault", model=str(model))


def wait_for_end(pid: int, timeout_s: float) -> bool:
    """True once any process has ended, also one that is not our child."""
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([handle], [], [], timeout_s)[0])
        finally:
            os.close(handle)
    queue = select.kqueue()
    wish = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
    try:
        return bool(queue.control([wish], 1, timeout_s))
    except ProcessLookupError:
        return True
    finally:
        queue.close()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the shared process."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def running(tiny_model: Path, state: Path) -> Iterator[EncoderProcess]:
    """A process with the tiny model through torch, shared by the tests that leave it running."""
    process = EncoderProcess(config_of(state, tiny_model))
    process.start()
    process.wait_ready(timeout_s=PATIENCE_S)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def oracle(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The same model in this process."""
    return load_encoder(str(tiny_model), models_dir=tmp_path_factory.mktemp("models"), allow_download=False)


def test_it_says_who_it_is(running: EncoderProcess, oracle: Encoder) -> None:
    """Ready, with the name and dimension that the encoder has."""
    assert (running.state, running.ready) == ("ready", True)
    assert (running.name, running.dimension) == (oracle.name, oracle.dimension)


def test_vectors_are_those_of_the_encoder(running: EncoderProcess, oracle: Encoder) -> None:
    """Prompts and passages in any script cross the socket unharmed and come back in order."""
    for prompt in (
        "how do I restart the server?",
        "ฐานข้อมูล",
        "データベース",
        "a\0b",
        "half \ud83d",
    ):
        vector = running.encode_query(prompt, timeout_s=PATIENCE_S)
        assert vector is not None
        wanted = oracle.encode_queries([prompt.encode("utf-8", "replace").decode()])[0]
        assert np.allclose(vector, wanted, atol=1e-5)
    assert np.allclose(running.encode_passages(PASSAGES), oracle.encode_passages(PASSAGES), atol=1e-5)
    assert running.encode_passages([]).shape == (0, oracle.dimension)


def test_a_blank_prompt_has_no_vector(running: EncoderProcess) -> None:
    """White space means nothing, so it is not encoded."""
    assert running.encode_query(" \n\t ", timeout_s=PATIENCE_S) is None


def test_a_repeated_prompt_comes_from_memory(running: EncoderProcess) -> None:
    """The second time the same array is given, and nobody can write to it."""
    first = running.encode_query("the server again?", timeout_s=PATIENCE_S)
    assert first is not None
    assert running.encode_query("the server again?", timeout_s=0.0) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_examples_are_encoded_as_prompts_are(running: EncoderProcess, oracle: Encoder) -> None:
    """Many at once, a few in a message, in their order; they push no prompt out of the memory."""
    kept = running.encode_query("the server that is kept", timeout_s=PATIENCE_S)
    texts = [f"the server {number}" for number in range(11)]
    assert np.allclose(running.encode_queries(texts), oracle.encode_queries(texts), atol=1e-5)
    assert running.encode_query("the server that is kept", timeout_s=0.0) is kept


def test_the_memory_of_prompts_is_bounded(running: EncoderProcess) -> None:
    """The one asked longest ago is forgotten; a prompt asked again counts as new."""
    first = running.encode_query("server first", timeout_s=PATIENCE_S)
    again = running.encode_query("server again", timeout_s=PATIENCE_S)
    for number in range(REMEMBERED_QUERIES - 1):
        running.encode_query(f"server {number} fills", timeout_s=PATIENCE_S)
        assert running.encode_query("server again", timeout_s=0.0) is again
    assert first is not None
    assert running.encode_query("server first", timeout_s=0.0) is None


def test_a_late_answer_reaches_nobody(running: EncoderProcess, oracle: Encoder) -> None:
    """While the process is stopped, prompts give up in time; afterwards each new one gets its own answer."""
    assert running.pid is not None
    os.kill(running.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        for number in range(5):
            assert running.encode_query(f"the late server {number}", timeout_s=0.1) is None
        # More than the socket holds: a full socket must not hold up a prompt either.
        late = {"timeout_s": 0.5}
        prompts = [f"{number} " * 4_000 for number in range(80)]
        flood = [threading.Thread(target=running.encode_query, args=(text,), kwargs=late) for text in prompts]
        for thread in flood:
            thread.start()
        for thread in flood:
            thread.join()
        assert time.monotonic() - started < 5.0
    finally:
        os.kill(running.pid, signal.SIGCONT)
    for number in range(5):
        vector = running.encode_query(f"the next server {number}", timeout_s=PATIENCE_S)
        assert vector is not None
        assert np.allclose(vector, oracle.encode_queries([f"the next server {number}"])[0], atol=1e-5)


def test_prompts_are_answered_beside_a_batch(running: EncoderProcess, oracle: Encoder) -> None:
    """A prompt that comes while passages are being encoded does not wait for them to be done."""
    many = [f"{text} {number}" for number in range(12) for text in PASSAGES]
    bulk = threading.Thread(target=running.encode_passages, args=(many,))
    bulk.start()
    answered = 0
    while bulk.is_alive():
        vector = running.encode_query(f"the server beside {answered}", timeout_s=PATIENCE_S)
        assert vector is not None
        answered += 1
    bulk.join()
    assert answered > 3
    assert np.allclose(vector, oracle.encode_queries([f"the server beside {answered - 1}"])[0], atol=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_batches_are_niced_and_prompts_are_not(running: EncoderProcess) -> None:
    """One thread has given way, the others run as the worker does; the session is the process's own."""
    tasks = Path(f"/proc/{running.pid}/task")
    niceness = [int((task / "stat").read_text().rpartition(")")[2].split()[16]) for task in tasks.iterdir()]
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert sorted(niceness)[-1] > own
    assert niceness.count(own) == len(niceness) - 1
    assert running.pid is not None
    assert os.getsid(running.pid) == running.pid != os.getsid(0)


def test_the_log_has_no_text(running: EncoderProcess, state: Path) -> None:
    """What was encoded is not in the log; what happened is."""
    running.encode_query("a secret server", timeout_s=PATIENCE_S)
    log = state / "encoder.log"
    assert "encoder ready" in log.read_text()
    assert "secret" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_crash_costs_what_was_asked_and_no_more(tiny_model: Path, tmp_path: Path) -> None:
    """Killed in a batch: the batch fails, prompts get nothing, the state says so; start() brings it back."""
    process = EncoderProcess(config_of(tmp_path, tiny_model))
    failures: list[ModelError] = []

    def bulk() -> None:
        try:
            while True:
                process.encode_passages(PASSAGES)
        except ModelError as error:
            failures.append(error)

    process.start()
    try:
        process.wait_ready(timeout_s=PATIENCE_S)
        name = process.name
        thread = threading.Thread(target=bulk)
        thread.start()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        thread.join(timeout=PATIENCE_S)
        assert len(failures) == 1
        assert process.state.startswith("failed: the encoder's process ended (status -9)")
        assert "BM25 alone" in process.state
        assert (process.ready, process.pid) == (False, None)
        assert process.encode_query("the server", timeout_s=PATIENCE_S) is None
        assert process.name == name
        process.start()
        process.wait_ready(timeout_s=PATIENCE_S)
        assert process.encode_query("the server", timeout_s=PATIENCE_S) is not None
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # even one that cannot hear is ended
    finally:
        started = time.monotonic()
        process.stop()
        took_s = time.monotonic() - started
    assert took_s < 2.0
    assert process.state == "off"
    assert wait_for_end(pid, 0.0)
    with pytest.raises(ModelError, match="off"):
        process.encode_passages(PASSAGES)


def test_a_model_that_does_not_load_says_why(tmp_path: Path) -> None:
    """The words of the ModelError reach the state, and waiting ends at once."""
    process = EncoderProcess(config_of(tmp_path, "no-such-owner/no-such-model"))
    told: list[str] = []
    process.start()
    try:
        with pytest.raises(ModelError, match=r"failed: model 'no-such-owner/no-such-model'.*BM25 alone"):
            process.wait_ready(told.append, timeout_s=PATIENCE_S)
        assert told[0] == "starting"
        assert told[-1] == process.state
        with pytest.raises(ModelError, match="name is known once it was ready"):
            _ = process.name
    finally:
        process.stop()


def test_a_state_folder_that_cannot_be_written_is_a_state(tmp_path: Path) -> None:
    """start() never raises: where the log cannot be written, the state says so."""
    (tmp_path / "file").write_text("not a folder")
    process = EncoderProcess(config_of(tmp_path / "file", "none"))
    process.start()
    assert process.state.startswith("failed: cannot start")
    with pytest.raises(ModelError, match="cannot start"):
        process.wait_ready(timeout_s=1.0)
    process.stop()
    assert process.state == "off"


PARENT = """
import sys, time
from pathlib import Path
from recall_worker.config import Config
from recall_worker.encoder_process import EncoderProcess
state, model, when = sys.argv[1:]
process = EncoderProcess(Config(state_dir=Path(state), vault=Path(state), model=model))
process.start()
if when == "ready":
    process.wait_ready()
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("when", ["starting", "ready"])
def test_it_dies_with_the_worker(tiny_model: Path, tmp_path: Path, when: str) -> None:
    """kill -9 of the worker ends the encoder too, be it while it loads or when it is up."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(tiny_model), when],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    assert wait_for_end(child, PATIENCE_S)


@pytest.mark.model
def test_the_default_model_runs_in_the_process(models_dir: Path, tmp_path: Path) -> None:
    """With its models folder in place the default model is ready without a conversion, and finds answers."""
    (tmp_path / "models").symlink_to(models_dir.absolute())
    process = EncoderProcess(config_of(tmp_path, DEFAULT_MODEL))
    told: list[str] = []
    process.start()
    try:
        process.wait_ready(told.append, timeout_s=PATIENCE_S)
        assert told == ["starting", "ready"]
        passages = process.encode_passages(["Restart it with systemctl.", "The cake needs an hour."])
        vector = process.encode_query("how do I restart the service?", timeout_s=PATIENCE_S)
        assert vector is not None
        assert (passages @ vector).argmax() == 0
    finally:
        process.stop()
