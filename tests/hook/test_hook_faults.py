"""The hook under every fault: exit 0, stderr empty, one valid object or nothing, inside the deadline."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hook_process import (
    MAIN,
    PROMPT,
    SLOT_4,
    SLOW_WORKERS,
    SNAPSHOT,
    WRONG_WORKERS,
    FakeWorker,
    Hook,
    Outcome,
    healthy,
    hung_after_request,
    install_snapshot,
    seal,
    short_name,
)

from recall_worker.frames import MAX_UNITS, pack_snapshot

GOOD = pack_snapshot(SNAPSHOT)
DEADLINE_MS = 120
WORKERS = SLOW_WORKERS | WRONG_WORKERS

BAD_SNAPSHOTS = {
    "empty": b"",
    "torn in the header": GOOD[:40],
    "torn in the payload": GOOD[:-3],
    "header alone": GOOD[:64],
    "too long by a byte": GOOD + b" ",
    "another magic": b"RCLA" + GOOD[4:],
    "another version": GOOD[:4] + b"\2" + GOOD[5:],
    "another mode": seal(magic=b"RCLS", mode=1, snapshot_sha256=bytes(32)),
    "a bent payload": GOOD[:80] + b"?" + GOOD[81:],
    "an open quote": seal(magic=b"RCLS", mode=0, payload=b'"}} {"', snapshot_sha256=bytes(32)),
    "a raw control character": seal(magic=b"RCLS", mode=0, payload=b"a\nb", snapshot_sha256=bytes(32)),
    "half an escape": seal(magic=b"RCLS", mode=0, payload=b"a\\", snapshot_sha256=bytes(32)),
    "too many units, as it says": seal(magic=b"RCLS", mode=0, units=MAX_UNITS + 1, snapshot_sha256=bytes(32)),
    "too many units": seal(magic=b"RCLS", mode=0, payload=b"a" * (MAX_UNITS + 1), snapshot_sha256=bytes(32)),
    "gigantic": seal(magic=b"RCLS", mode=0, payload=b"a" * 300_000, snapshot_sha256=bytes(32)),
    "text": b"# About the user\n",
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with one good snapshot for everywhere."""
    folder = tmp_path / "state"
    install_snapshot(folder, GOOD)
    return folder


@pytest.fixture
def hook(state: Path) -> Hook:
    """A hook in a hurry."""
    return Hook(state=state, deadline_ms=DEADLINE_MS)


class TestMatrix:
    """Every worker that misbehaves, met with every snapshot and every stdin that makes a difference."""

    @pytest.mark.parametrize("snapshot", ["good", "torn", "missing"])
    @pytest.mark.parametrize("worker", [*WORKERS, "dead", "none"])
    def test_snapshot_or_nothing(self, state: Path, hook: Hook, worker: str, snapshot: str) -> None:
        """The snapshot is printed if it is good, and never anything else."""
        self.spoil(state, snapshot)
        with self.listening(state, worker):
            outcome = hook.run()
        assert hook.within_deadline(outcome).context == (SNAPSHOT if snapshot == "good" else None)

    @pytest.mark.parametrize(
        "worker", [*SLOW_WORKERS, "closed unread", "gigantic garbage", "garbage", "dead", "none"]
    )
    def test_long_prompt(self, state: Path, hook: Hook, worker: str) -> None:
        """Ten megabytes fill every buffer on the way: nothing hangs, and the snapshot is printed."""
        with self.listening(state, worker):
            outcome = hook.run(b"x" * 10_000_000)
        assert hook.within_deadline(outcome).context == SNAPSHOT

    @pytest.mark.parametrize("stdin", ["empty", "never closed", "never closed, 10 MB"])
    @pytest.mark.parametrize("snapshot", ["good", "torn", "missing"])
    @pytest.mark.parametrize("worker", ["hung after the request", "dead", "none"])
    def test_nothing_to_ask(self, state: Path, hook: Hook, worker: str, snapshot: str, stdin: str) -> None:
        """Without a whole prompt no worker is asked, whatever it is like, and the snapshot is printed."""
        self.spoil(state, snapshot)
        with self.listening(state, worker) as listener:
            if stdin == "empty":
                outcome = hook.run(b"")
            else:
                outcome = hook.run_without_end_of_stdin(
                    PROMPT if stdin == "never closed" else b"x" * 10_000_000
                )
        assert hook.within_deadline(outcome).context == (SNAPSHOT if snapshot == "good" else None)
        assert listener is None or listener.requests == []

    def spoil(self, state: Path, snapshot: str) -> None:
        if snapshot == "torn":
            install_snapshot(state, GOOD[:-1])
        elif snapshot == "missing":
            (state / "snapshots" / "everywhere.snap").unlink()

    def listening(self, state: Path, worker: str) -> contextlib.AbstractContextManager[FakeWorker | None]:
        if worker in WORKERS:
            return FakeWorker(state, WORKERS[worker])
        if worker == "dead":
            leave_stale_socket(state)
        return contextlib.nullcontext()


def leave_stale_socket(state: Path) -> None:
    """A socket file that nobody listens on any more."""
    with FakeWorker(state, healthy):
        os.link(state / "worker.sock", state / "kept")
    (state / "kept").rename(state / "worker.sock")


def fill(pipe: int) -> int:
    """Write to a non-blocking pipe until it is full; how many bytes that took."""
    written = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            written += os.write(pipe, bytes(4_096))
    return written


def still_there(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process goes on for a while; waiting for it is the event."""
    try:
        process.wait(0.25)
    except subprocess.TimeoutExpired:
        return True
    return False


class TestSocket:
    """What may stand where the worker's socket should be."""

    def test_full_backlog_ends_at_the_deadline(self, state: Path, hook: Hook) -> None:
        """A worker that no longer accepts, its waiting room full, costs the deadline and no more."""
        with FakeWorker(state, healthy, backlog=0, accepts=False), contextlib.ExitStack() as waiting:
            folder = waiting.enter_context(short_name(state))
            for _ in range(8):
                other = waiting.enter_context(socket.socket(socket.AF_UNIX))
                other.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    other.connect(f"{folder}/worker.sock")
            outcome = hook.run()
        assert hook.within_deadline(outcome).context == SNAPSHOT

    @pytest.mark.parametrize("kind", ["directory", "file", "pipe", "dangling link", "link to itself"])
    def test_no_socket_there(self, state: Path, hook: Hook, kind: str) -> None:
        """Anything but a socket is left alone."""
        place = state / "worker.sock"
        if kind == "directory":
            place.mkdir()
        elif kind == "file":
            place.write_bytes(b"")
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to("nowhere" if kind == "dangling link" else "worker.sock")
        assert hook.within_deadline(hook.run()).context == SNAPSHOT

    def test_link_to_a_socket_is_not_followed(self, state: Path, hook: Hook, tmp_path: Path) -> None:
        """A link may lead to a socket in a folder that others can write: it is not asked."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (state / "worker.sock").symlink_to(elsewhere / "worker.sock")
        with FakeWorker(elsewhere, healthy) as worker:
            assert hook.within_deadline(hook.run()).context == SNAPSHOT
        assert worker.requests == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
    def test_socket_of_someone_else_is_not_asked(self, state: Path, hook: Hook) -> None:
        """The prompt is not told to a socket that belongs to another user."""
        with FakeWorker(state, healthy) as worker:
            os.chown(state / "worker.sock", 12_345, -1)
            assert hook.within_deadline(hook.run()).context == SNAPSHOT
        assert worker.requests == []


class TestState:
    """What may be wrong with the state folder."""

    @pytest.mark.parametrize("data", BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS)
    def test_bad_snapshot_counts_as_absent(self, state: Path, hook: Hook, data: bytes) -> None:
        """A snapshot with anything wrong is not printed, and not named to the worker."""
        install_snapshot(state, data)
        assert hook.within_deadline(hook.run()).context is None
        with FakeWorker(state, healthy):
            hook.deadline_ms = 1_500
            assert hook.within_deadline(hook.run()).context == SLOT_4

    @pytest.mark.parametrize("kind", ["directory", "pipe", "dangling link"])
    def test_snapshot_that_is_no_file(self, state: Path, hook: Hook, kind: str) -> None:
        """A snapshot that cannot be read as a file counts as absent, and does not hang the hook."""
        place = state / "snapshots" / "everywhere.snap"
        place.unlink()
        if kind == "directory":
            place.mkdir()
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to("nowhere")
        hook.deadline_ms = 5_000
        outcome = hook.run()
        assert hook.within_deadline(outcome).context is None
        assert outcome.ms < 2_500

    @pytest.mark.parametrize("name", ["missing", "a-file", "", "with\nnewline", "x" * 5_000, "--deadline"])
    def test_state_that_is_no_folder(self, tmp_path: Path, name: str) -> None:
        """Without a state folder nothing is printed, and the client can still write its prompt to the end."""
        (tmp_path / "a-file").touch()
        hook = Hook(state=Path(name), deadline_ms=DEADLINE_MS, cwd=tmp_path, start=["/bin/false"])
        outcome = hook.run(b"x" * 1_000_000)  # communicate() would raise BrokenPipeError
        assert hook.within_deadline(outcome).context is None

    @pytest.mark.parametrize("event", ["prompt", "session-start"])
    @pytest.mark.parametrize("fault", ["read-only", "disk full"])
    def test_state_that_cannot_be_written(self, state: Path, hook: Hook, event: str, fault: str) -> None:
        """Where nothing can be written, the snapshot is printed all the same and nothing is said about it."""
        hook.event, hook.start = event, ["/bin/false"]
        if fault == "disk full":
            hook.wrap = ("sh", "-c", 'ulimit -f 0 && exec "$@"', "sh")
        else:
            for folder in (state / "snapshots", state):
                folder.chmod(0o500)
        with FakeWorker(state, hung_after_request) if fault == "disk full" else contextlib.nullcontext():
            outcome = hook.run()
        state.chmod(0o700)
        assert hook.within_deadline(outcome).context == (SNAPSHOT if event == "prompt" else None)


class TestStreams:
    """What may be wrong with stdin, stdout and the rest."""

    def test_more_than_the_limit_on_stdin_is_read_but_not_sent(self, state: Path) -> None:
        """A prompt past 16 MB is drained so that the client can finish, but nobody is asked."""
        hook = Hook(state=state, deadline_ms=5_000)
        with FakeWorker(state, healthy) as worker:
            assert hook.within_deadline(hook.run(b"x" * (16 * 1024 * 1024 + 1))).context == SNAPSHOT
        assert worker.requests == []

    def test_trickling_stdin_ends_at_the_deadline(self, hook: Hook) -> None:
        """Bytes that keep coming do not move the deadline."""
        process = hook.popen()
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):  # raised once the hook has gone
            while True:
                process.stdin.write(b"x" * 1_000)
                process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdin = None
        out, err = process.communicate(timeout=10)
        outcome = Outcome(code=process.returncode, out=out, err=err, ms=0)
        assert hook.within_deadline(outcome).context == SNAPSHOT

    @pytest.mark.parametrize("stdin", ["/dev/null", "/dev/zero"])
    def test_stdin_that_is_no_pipe(self, hook: Hook, stdin: str) -> None:
        """An empty device and an endless one: the snapshot all the same."""
        number = os.open(stdin, os.O_RDONLY)
        try:
            outcome = hook.run(stdin=number)
        finally:
            os.close(number)
        assert hook.within_deadline(outcome).context == SNAPSHOT

    def test_streams_that_do_not_block(self, state: Path) -> None:
        """Descriptors that a client left in non-blocking mode are waited on, not given up."""
        hook = Hook(state=state, deadline_ms=5_000)
        (their_stdin, our_stdin), (our_stdout, their_stdout) = os.pipe(), os.pipe()
        for number in (their_stdin, their_stdout):
            os.set_blocking(number, False)
        with FakeWorker(state, healthy) as worker, os.fdopen(our_stdout, "rb") as stdout:
            filler = fill(their_stdout)
            process = hook.popen(stdin=their_stdin, stdout=their_stdout)
            os.close(their_stdin)
            os.close(their_stdout)
            assert still_there(process)  # nothing to read yet
            os.write(our_stdin, PROMPT)
            os.close(our_stdin)
            assert worker.heard.wait(10)
            assert still_there(process)  # no room to write yet
            out = stdout.read()[filler:]
            outcome = Outcome(code=process.wait(10), out=out, err=process.communicate()[1], ms=0)
        assert hook.within_deadline(outcome).context == SNAPSHOT + SLOT_4

    def test_reader_gone_before_the_digest(self, hook: Hook) -> None:
        """A client that closed its end of stdout gets no broken-pipe complaint."""
        reader, writer = os.pipe()
        os.close(reader)
        try:
            hook.within_deadline(hook.run(stdout=writer))
        finally:
            os.close(writer)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_stdout_on_a_full_disk(self, hook: Hook) -> None:
        """Output that cannot be written is given up in silence."""
        with Path("/dev/full").open("wb") as full:
            hook.within_deadline(hook.run(stdout=full))

    def test_reader_that_does_not_read(self, hook: Hook) -> None:
        """A stdout that blocks holds the hook no longer than the deadline and the grace."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        fill(writer)
        os.set_blocking(writer, True)
        try:
            hook.within_deadline(hook.run(stdout=writer))
        finally:
            os.close(reader)
            os.close(writer)

    @pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "<&- 2>&-"])
    def test_standard_streams_closed(self, state: Path, hook: Hook, closed: str) -> None:
        """With standard descriptors closed the hook prints what it can and writes into no file of its own."""
        hook.wrap = ("sh", "-c", f'exec "$@" {closed}', "sh")
        with FakeWorker(state, healthy):
            outcome = hook.within_deadline(hook.run(b""))
        assert outcome.context == (None if ">&-" in closed.replace("2>&-", "") else SNAPSHOT)
        assert (state / "snapshots" / "everywhere.snap").read_bytes() == GOOD


class TestProcess:
    """What may be wrong around the process."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM])
    def test_signals_bring_the_digest_forward(self, state: Path, number: signal.Signals) -> None:
        """A hook told to stop prints what it has and still exits 0."""
        hook = Hook(state=state, deadline_ms=10_000)
        with FakeWorker(state, hung_after_request) as worker:
            process = hook.popen()
            assert process.stdin
            process.stdin.write(PROMPT)
            process.stdin.close()
            assert worker.heard.wait(10)
            process.send_signal(number)
            process.stdin = None
            out, err = process.communicate(timeout=10)
        outcome = Outcome(code=process.returncode, out=out, err=err, ms=0)
        assert hook.within_deadline(outcome).context == SNAPSHOT

    def test_inherited_signal_mask_does_not_stop_the_clock(self, state: Path, hook: Hook) -> None:
        """A client that blocks signals for its children does not disarm the deadline."""
        every = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
        try:
            with FakeWorker(state, hung_after_request):
                outcome = hook.run()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, every)
        assert hook.within_deadline(outcome).context == SNAPSHOT

    @pytest.mark.skipif(sys.platform == "darwin", reason="macOS knows no limit of address space")
    def test_out_of_memory(self, state: Path) -> None:
        """A prompt that does not fit in memory costs slot 4 only."""
        limited = ("sh", "-c", 'ulimit -v 40000 && exec "$@"', "sh")
        hook = Hook(state=state, deadline_ms=5_000, wrap=limited)
        with FakeWorker(state, healthy) as worker:
            small = hook.run()
            large = hook.run(b"x" * 16_000_000)
        assert small.context == SNAPSHOT + SLOT_4
        assert hook.within_deadline(large).context == SNAPSHOT
        assert len(worker.requests) == 1

    @pytest.mark.parametrize(
        "locale", ["xx_YY.nonsense", "C", "POSIX", "ja_JP.SJIS", "tr_TR.ISO-8859-9", "", "\udcff"]
    )
    def test_odd_locale(self, state: Path, locale: str) -> None:
        """The digest is the same bytes under any locale, and in a folder whose name is not ASCII."""
        folder = state.rename(state.with_name("état ที่เก็บ"))
        environment = {"LC_ALL": locale, "LANG": locale, "PYTHONIOENCODING": "utf-16", "PYTHONUTF8": "0"}
        with FakeWorker(folder, healthy):
            outcome = Hook(state=folder, env=environment).run()
        assert (outcome.context, outcome.err) == (SNAPSHOT + SLOT_4, b"")

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["claude-code"],
            ["claude-code", "prompt"],
            ["claude-code", "prompt", "--state"],
            ["nobody", "prompt", "--state", "STATE"],
            ["claude-code", "tool-use", "--state", "STATE"],
            ["claude-code", "prompt", "--state", "STATE", "--deadline", "9" * 5_000],
            ["--start", "/bin/false"],
        ],
        ids=lambda arguments: " ".join(arguments)[:60] or "none",
    )
    def test_wrong_command_line(self, state: Path, arguments: list[str]) -> None:
        """A command line that somebody edited prints nothing and blocks nothing."""
        given = [str(state) if word == "STATE" else word for word in arguments]
        command = [sys.executable, "-I", "-S", str(MAIN), *given]
        run = subprocess.run(command, input=PROMPT, capture_output=True, timeout=10)
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")

    @pytest.mark.parametrize("deadline", ["0", "-5", "soon", "", "1e3", "99999999999"])
    def test_odd_deadline(self, state: Path, deadline: str) -> None:
        """A deadline that is no sensible number is bent into one."""
        command = [*Hook(state=state).command[:-1], deadline]
        run = subprocess.run(command, input=PROMPT, capture_output=True, timeout=10)
        assert (run.returncode, run.stderr) == (0, b"")
        assert SNAPSHOT.splitlines()[0].encode() in run.stdout

    @pytest.mark.parametrize("fault", ["no room", "half a file", "garbage"])
    def test_compiled_files_that_are_of_no_use(self, state: Path, tmp_path: Path, fault: str) -> None:
        """Where Python's compiled files cannot be written or are damaged, the sources are read instead."""
        folder = tmp_path / "hook"
        shutil.copytree(MAIN.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
        hook = Hook(state=state, main=folder / "main.py")
        if fault == "no room":
            (folder / "__pycache__").touch()
        else:
            hook.run()
            for compiled in (folder / "__pycache__").iterdir():
                whole = compiled.read_bytes()
                compiled.write_bytes(
                    whole[: len(whole) // 2] if fault == "half a file" else whole[:16] + b"\xff" * 99
                )
        assert hook.within_deadline(hook.run()).context == SNAPSHOT

    def test_debug_says_one_line(self, state: Path, hook: Hook) -> None:
        """RECALL_DEBUG makes the hook say why in one line, without a word of the prompt."""
        hook.env = {"RECALL_DEBUG": "1"}
        outcome = hook.run()
        assert outcome.err == b"recall hook: no worker.sock; printed %d bytes of digest\n" % len(
            outcome.out.partition(b'Context":"')[2][:-4]
        )

    def test_many_prompts_against_a_dead_worker(self, state: Path, hook: Hook) -> None:
        """Prompt after prompt against a socket that nobody listens on: none waits, none fails."""
        leave_stale_socket(state)
        outcomes = [hook.within_deadline(hook.run()) for _ in range(20)]
        assert {outcome.context for outcome in outcomes} == {SNAPSHOT}
        assert sorted(outcome.ms for outcome in outcomes)[10] < DEADLINE_MS

    def test_fifty_sessions_at_once(self, state: Path) -> None:
        """Fifty hooks started together against one hung worker all come back."""
        hook = Hook(state=state, deadline_ms=500)
        with FakeWorker(state, hung_after_request, backlog=1):
            processes = [hook.popen() for _ in range(50)]
            for process in processes:
                out, err = process.communicate(PROMPT, timeout=10)
                outcome = Outcome(code=process.returncode, out=out, err=err, ms=0)
                assert hook.within_deadline(outcome).context == SNAPSHOT
