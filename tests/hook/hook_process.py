"""Drives the real hook process, with real sockets and small workers of every temper at the other end."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from recall_worker import frames
from recall_worker.errors import FrameError
from recall_worker.frames import Mode

MAIN = Path(__file__).parents[2] / "hook" / "recall_hook" / "main.py"
COMMAND = (sys.executable, "-I", "-S", str(MAIN))
PROMPT = json.dumps({"session_id": "s", "prompt": 'How do I "drop" a table?', "new_field": 1}).encode()
SNAPSHOT = '# About the user\n"Nok" ไทย 😀\n\n# Never\n- C:\\temp is no backup.'
SLOT_4 = "\n\n# Close to this prompt\n- Take a dump first 🐘"
SLACK_MS = 700  # the interpreter's own start, and a busy machine

Manner = Callable[["FakeWorker", socket.socket], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of the hook did."""

    code: int
    out: bytes
    err: bytes
    ms: float

    @property
    def context(self) -> str | None:
        """The text put before the model; None if nothing was printed."""
        if not self.out:
            return None
        said: dict[str, Any] = json.loads(self.out)  # exactly one object, or this raises
        assert list(said) == ["hookSpecificOutput"]
        assert list(said["hookSpecificOutput"]) == ["hookEventName", "additionalContext"]
        text: str = said["hookSpecificOutput"]["additionalContext"]
        assert len(text.encode("utf-16-le")) // 2 <= 9_800
        return text


@dataclass(slots=True, kw_only=True)
class Hook:
    """One installed hook: how it is started, and where."""

    state: Path
    client: str = "claude-code"
    event: str = "prompt"
    deadline_ms: int = 1_500  # for runs that should not reach it
    start: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)  # all of it: as under `env -i`
    cwd: Path | None = None
    wrap: Sequence[str] = ()  # put before the command, such as `sh -c '… exec "$@"' sh`
    main: Path = MAIN

    @property
    def command(self) -> list[str]:
        options = ["--state", str(self.state), "--deadline", str(self.deadline_ms)]
        tail = ["--start", *self.start] if self.start else []
        return [*self.wrap, *COMMAND[:-1], str(self.main), self.client, self.event, *options, *tail]

    def popen(self, **streams: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(self.command, env=self.env, cwd=self.cwd, **pipes | streams)

    def run(self, prompt: bytes = PROMPT, **streams: Any) -> Outcome:
        """Run it to its end, stdin closed after the prompt's last byte; `streams` go to `Popen`."""
        began = time.perf_counter()
        process = self.popen(**streams)
        out, err = process.communicate(prompt if process.stdin else None, timeout=30)
        ms = (time.perf_counter() - began) * 1000
        return Outcome(code=process.returncode, out=out or b"", err=err or b"", ms=ms)

    def run_without_end_of_stdin(self, prompt: bytes = PROMPT) -> Outcome:
        """Run it with stdin left open until it has gone."""
        began = time.perf_counter()
        process = self.popen()
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with process.stdout, process.stderr:
            with contextlib.suppress(BrokenPipeError):  # it may go before it has read everything
                process.stdin.write(prompt)
                process.stdin.flush()
            code = process.wait(30)
            ms = (time.perf_counter() - began) * 1000
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            return Outcome(code=code, out=process.stdout.read(), err=process.stderr.read(), ms=ms)

    def within_deadline(self, outcome: Outcome) -> Outcome:
        """Hold an outcome to what is true of every run, whatever went wrong around it."""
        assert outcome.code == 0
        assert outcome.err == b""
        assert outcome.ms <= self.deadline_ms + SLACK_MS
        assert outcome.context is None or outcome.out.endswith(b"}\n")
        return outcome


def install_snapshot(state: Path, data: bytes, name: str = "everywhere.snap") -> None:
    """Put bytes where the hook looks for a snapshot."""
    (state / "snapshots").mkdir(parents=True, exist_ok=True)
    (state / "snapshots" / name).write_bytes(data)


class FakeWorker:
    """A real Unix socket whose far end behaves as told.

    Args:
        state: Folder to listen in; its path may be longer than a socket's may be.
        manner: What to do with each connection; runs in a thread of its own.
        backlog: Connections the kernel accepts before anybody does.
        accepts: False leaves every connection waiting in the kernel.
    """

    def __init__(self, state: Path, manner: Manner, *, backlog: int = 64, accepts: bool = True) -> None:
        self.manner = manner
        self.requests: list[bytes] = []
        self.heard = threading.Event()  # a whole request came in
        self.ended = threading.Event()  # the test is over
        self.state = state
        self._socket = socket.socket(socket.AF_UNIX)
        with short_name(state) as folder:
            self._socket.bind(f"{folder}/worker.sock")
        self._socket.listen(backlog)
        self._threads: list[threading.Thread] = []
        if accepts:
            self._spawn(self._accept)

    def __enter__(self) -> FakeWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(10)
        (self.state / "worker.sock").unlink()

    def hear(self, line: socket.socket) -> frames.Request:
        """Read one request to its end."""
        parts = []
        while part := line.recv(1 << 20):
            parts.append(part)
        self.requests.append(b"".join(parts))
        self.heard.set()
        return frames.unpack_request(self.requests[-1])

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            self._spawn(self._serve, line)

    def _serve(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError, FrameError):  # the hook may hang up at any byte
            self.manner(self, line)

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        thread.start()
        self._threads.append(thread)


@contextlib.contextmanager
def short_name(folder: Path) -> Iterator[str]:
    """A link short enough for a socket's path, which ends at 107 bytes."""
    home = tempfile.mkdtemp(dir="/tmp")
    link = Path(home) / "s"
    link.symlink_to(folder)
    try:
        yield str(link)
    finally:
        shutil.rmtree(home)


def answer(request: frames.Request, *, mode: Mode = Mode.SNAPSHOT_AND_PAYLOAD, text: str = SLOT_4) -> bytes:
    """The answer of a worker in good health."""
    total = len((SNAPSHOT + text).encode("utf-16-le")) // 2
    return frames.pack_answer(
        mode=mode, text=text, total_units=total, snapshot_sha256=request.snapshot_sha256
    )


def healthy(worker: FakeWorker, line: socket.socket) -> None:
    line.sendall(answer(worker.hear(line)))


def healthy_but_never_closes(worker: FakeWorker, line: socket.socket) -> None:
    healthy(worker, line)
    worker.ended.wait(30)


def hung_after_accept(worker: FakeWorker, line: socket.socket) -> None:
    worker.ended.wait(30)


def hung_after_request(worker: FakeWorker, line: socket.socket) -> None:
    worker.hear(line)
    worker.ended.wait(30)


def one_byte_a_second(worker: FakeWorker, line: socket.socket) -> None:
    for byte in answer(worker.hear(line)):
        line.sendall(bytes([byte]))
        if worker.ended.wait(1):
            return


def half_then_hung(worker: FakeWorker, line: socket.socket) -> None:
    line.sendall(answer(worker.hear(line))[:80])
    worker.ended.wait(30)


def half_then_closed(worker: FakeWorker, line: socket.socket) -> None:
    line.sendall(answer(worker.hear(line))[:80])


def half_a_header(worker: FakeWorker, line: socket.socket) -> None:
    line.sendall(answer(worker.hear(line))[:40])


def closed_unread(worker: FakeWorker, line: socket.socket) -> None:
    pass


def closed_unanswered(worker: FakeWorker, line: socket.socket) -> None:
    worker.hear(line)


def garbage(worker: FakeWorker, line: socket.socket) -> None:
    worker.hear(line)
    line.sendall(random.Random(1).randbytes(4_096))


def gigantic_by_its_header(worker: FakeWorker, line: socket.socket) -> None:
    good = answer(worker.hear(line))
    line.sendall(good[:8] + (1 << 31).to_bytes(4, "little") + good[12:] + bytes(1 << 20))


def gigantic_garbage(worker: FakeWorker, line: socket.socket) -> None:
    worker.hear(line)
    for _ in range(64):
        line.sendall(bytes(1 << 20))


def saying(data: bytes) -> Manner:
    """A worker that answers with these bytes."""

    def manner(worker: FakeWorker, line: socket.socket) -> None:
        worker.hear(line)
        line.sendall(data)

    return manner


def bent(at: int, value: int) -> Manner:
    """A worker whose answer has one byte that no version of ours would send."""

    def manner(worker: FakeWorker, line: socket.socket) -> None:
        good = bytearray(answer(worker.hear(line)))
        good[at] = value
        line.sendall(good)

    return manner


def sealed(**wrong: Any) -> Manner:
    """A worker whose answer is sealed with the right checksum but should not be believed."""

    def manner(worker: FakeWorker, line: socket.socket) -> None:
        request = worker.hear(line)
        line.sendall(seal(snapshot_sha256=request.snapshot_sha256, **wrong))

    return manner


def seal(
    *,
    snapshot_sha256: bytes,
    sha256: bytes | None = None,
    magic: bytes = b"RCLA",
    mode: int = 1,
    payload: bytes = b"\\n\\nslot 4",
    units: int = 300,
    offset: int = 0,
) -> bytes:
    """A frame with every checksum right, whatever it says."""
    head = struct.pack("<4sBBHIII", magic, 1, mode, 0, len(payload), units, offset)
    tail = (snapshot_sha256 if sha256 is None else sha256) + bytes(8)
    return head + struct.pack("<I", zlib.crc32(head + tail + payload)) + tail + payload


SLOW_WORKERS: dict[str, Manner] = {
    "hung after accept": hung_after_accept,
    "hung after the request": hung_after_request,
    "one byte a second": one_byte_a_second,
    "half an answer, then hung": half_then_hung,
}
WRONG_WORKERS: dict[str, Manner] = {
    "half an answer, then closed": half_then_closed,
    "half a header": half_a_header,
    "closed unread": closed_unread,
    "closed unanswered": closed_unanswered,
    "garbage": garbage,
    "gigantic by its header": gigantic_by_its_header,
    "gigantic garbage": gigantic_garbage,
    "wrong magic": bent(0, 0x51),
    "another version": bent(4, 2),
    "another mode": bent(5, 7),
    "reserved byte set": bent(6, 1),
    "another checksum": bent(20, 0xAA),
    "a bent payload": bent(70, 0x41),
    "mode 0": sealed(mode=0),
    "mode 9": sealed(mode=9),
    "another snapshot's sha256": sealed(sha256=b"\7" * 32),
    "too many units, as it says": sealed(units=9_801),
    "too many units, whatever it says": sealed(payload=b"a" * 9_801, units=1),
    "an open quote": sealed(payload=b'"}} {"'),
    "a raw newline": sealed(payload=b"one\ntwo"),
    "half an escape": sealed(payload=b"\\u12"),
    "a lone backslash": sealed(payload=b"tail\\"),
    "half a character": sealed(payload="ไ".encode()[:2]),
    "mode 3 past the end": sealed(mode=3, offset=1 << 20),
    "mode 3 inside an escape": sealed(mode=3, offset=SNAPSHOT.index("\n") + 1),
}
