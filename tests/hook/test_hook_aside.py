"""What the hook does beside the good path: misses, the spool, starting the worker for next time."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hook_process import (
    PROMPT,
    SLACK_MS,
    SLOT_4,
    SNAPSHOT,
    FakeWorker,
    Hook,
    Outcome,
    answer,
    garbage,
    healthy,
    hung_after_request,
    install_snapshot,
)

from recall_worker.frames import Client, Event, Mode, pack_snapshot, unpack_request

START = json.dumps({"session_id": "s", "hook_event_name": "SessionStart", "source": "compact"}).encode()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with one good snapshot for everywhere."""
    folder = tmp_path / "state"
    install_snapshot(folder, pack_snapshot(SNAPSHOT))
    return folder


def make_old(path: Path, seconds: float) -> None:
    found = path.stat()
    os.utime(path, (found.st_atime, found.st_mtime - seconds))


def acknowledging(worker: FakeWorker, line: socket.socket) -> None:
    line.sendall(answer(worker.hear(line), mode=Mode.NOTHING, text=""))


class TestSlowWorker:
    """A worker that keeps missing the deadline is asked only now and then."""

    def test_three_misses_bring_a_pause(self, state: Path) -> None:
        """After three misses in a row the fourth prompt does not wait; half a minute later one asks again."""
        hook = Hook(state=state, deadline_ms=120)
        with FakeWorker(state, hung_after_request) as worker:
            for _ in range(3):
                assert hook.within_deadline(hook.run()).context == SNAPSHOT
            asked = len(worker.requests)
            patient = replace(hook, deadline_ms=5_000)
            assert patient.run().ms < 2_500
            assert len(worker.requests) == asked
            make_old(state / "slow", 31)
            assert hook.run().context == SNAPSHOT
            assert patient.run().ms < 2_500  # that one missed as well: paused again
        assert (state / "slow").stat().st_size == 4

    def test_success_forgets_the_misses(self, state: Path) -> None:
        """One good answer clears the count."""
        (state / "slow").write_bytes(b"..")
        with FakeWorker(state, healthy):
            assert Hook(state=state).run().context == SNAPSHOT + SLOT_4
        assert not (state / "slow").exists()

    def test_clock_set_back_does_not_silence_the_worker(self, state: Path) -> None:
        """A stamp from the future is no reason not to ask."""
        (state / "slow").write_bytes(b"." * 9)
        make_old(state / "slow", -3_600)
        with FakeWorker(state, healthy):
            assert Hook(state=state).run().context == SNAPSHOT + SLOT_4

    def test_only_the_deadline_is_a_miss(self, state: Path) -> None:
        """A stdin that is never closed, garbage and an early end are not counted against the worker."""
        hook = Hook(state=state, deadline_ms=150)
        with FakeWorker(state, garbage):
            hook.run()
            hook.run_without_end_of_stdin()
        hook.run()
        assert not (state / "slow").exists()

    def test_good_path_writes_nothing(self, state: Path) -> None:
        """A prompt that is answered, and one that finds no worker, leave the state folder as it was."""
        before = sorted(state.rglob("*"))
        with FakeWorker(state, healthy):
            Hook(state=state).run()
        Hook(state=state).run()
        assert sorted(state.rglob("*")) == before


class TestSessionStart:
    """`session-start` prints nothing and is never lost."""

    def test_bytes_reach_the_worker(self, state: Path) -> None:
        """The worker is told, with the client's number, and nothing is printed or spooled."""
        with FakeWorker(state, acknowledging) as worker:
            outcome = Hook(state=state, event="session-start", client="codex").run(START)
        assert (outcome.code, outcome.out, outcome.err) == (0, b"", b"")
        request = unpack_request(worker.requests[0])
        assert (request.event, request.client, request.body) == (Event.SESSION_START, Client.CODEX, START)
        assert not (state / "spool").exists()

    @pytest.mark.parametrize("manner", [None, hung_after_request, garbage], ids=["none", "hung", "garbage"])
    def test_unheard_bytes_are_spooled(self, state: Path, manner: Any) -> None:
        """Where no worker answers, the request is kept for it, readable by nobody else."""
        hook = Hook(state=state, event="session-start", deadline_ms=150)
        if manner:
            with FakeWorker(state, manner):
                outcome = hook.within_deadline(hook.run(START))
        else:
            outcome = hook.within_deadline(hook.run(START))
        assert outcome.out == b""
        (spooled,) = (state / "spool").iterdir()
        request = unpack_request(spooled.read_bytes())
        assert (request.event, request.body) == (Event.SESSION_START, START)
        assert spooled.stat().st_mode & 0o777 == 0o600
        assert spooled.parent.stat().st_mode & 0o777 == 0o700

    def test_spool_is_bounded(self, state: Path) -> None:
        """The oldest of a hundred make room for the newest, and a huge one is not kept."""
        hook = Hook(state=state, event="session-start")
        (state / "spool").mkdir()
        for number in range(105):
            (state / "spool" / f"{number:020}-1").touch()
        hook.run(START)
        hook.run(b"x" * 300_000)
        names = sorted(path.name for path in (state / "spool").iterdir())
        assert len(names) == 100
        assert names[0] == f"{6:020}-1"
        assert (state / "spool" / names[-1]).stat().st_size > 0

    def test_many_at_once_keep_them_all(self, state: Path) -> None:
        """Twenty sessions that start together leave twenty files."""
        processes = [Hook(state=state, event="session-start").popen() for _ in range(20)]
        for process in processes:
            process.communicate(START, timeout=10)
        assert len(list((state / "spool").iterdir())) == 20


REPORT = """
import json, os, signal, sys
fds = {}
for name in os.listdir("/dev/fd"):
    try:
        fds[name] = os.readlink(f"/proc/self/fd/{name}") if os.path.isdir("/proc/self/fd") else "?"
    except OSError:
        pass
ignored = [number for number in (1, 2, 15) if signal.getsignal(number) == signal.SIG_IGN]
said = dict(fds=fds, sid=os.getsid(0), pid=os.getpid(), env=dict(os.environ), cwd=os.getcwd())
said |= dict(ignored=ignored, argv=sys.argv[2:], umask=os.umask(0))
with open(sys.argv[1], "w") as fifo:
    fifo.write(json.dumps(said) + "\\n")
"""


class TestAutostart:
    """`--start` brings the worker up for next time, at most once a minute, with nothing of the client's."""

    @pytest.fixture
    def started(self, tmp_path: Path) -> Iterator[int]:
        """A pipe into which each started process writes one line; its reading end."""
        os.mkfifo(tmp_path / "fifo")
        number = os.open(tmp_path / "fifo", os.O_RDWR)  # with a writer of our own it never ends
        yield number
        os.close(number)

    @pytest.fixture
    def hook(self, state: Path, tmp_path: Path) -> Hook:
        """A hook with autostart on."""
        script = tmp_path / "worker.py"
        script.write_text(REPORT)
        command = [sys.executable, "-I", "-S", str(script), str(tmp_path / "fifo"), "--state", str(state), ""]
        return Hook(state=state, start=command)

    def test_worker_is_on_its_own(self, hook: Hook, started: int, tmp_path: Path, state: Path) -> None:
        """It gets its own session, /dev/null, few variables, default signals, its arguments, nothing more."""
        leaked, other = os.pipe()
        os.set_inheritable(leaked, True)
        kept = {"HOME": "/home/nok", "RECALL_VAULT": "/v", "LC_ALL": "C.UTF-8", "PATH": "/bin"}
        hook.env = kept | {"ANTHROPIC_API_KEY": "secret", "CLAUDE_PROJECT_DIR": "/srv"}
        outcome = hook.run(close_fds=False)
        os.close(leaked)
        os.close(other)
        assert (outcome.context, outcome.err) == (SNAPSHOT, b"")
        said = json.loads(read_lines(started, 10)[0])
        assert said["sid"] == said["pid"] != os.getsid(0)
        assert {said["fds"].get(name) for name in "012"} <= {"/dev/null", "?"}
        assert not [name for name, place in said["fds"].items() if int(name) > 2 and place.startswith("pipe")]
        assert {name: value for name, value in said["env"].items() if name != "LC_CTYPE"} == kept
        assert (said["cwd"], said["ignored"], said["umask"]) == ("/", [], 0o077)
        assert said["argv"] == ["--state", str(state), ""]

    def test_client_does_not_wait_for_the_worker(self, hook: Hook) -> None:
        """Stdout reaches its end while the started process lives on."""
        os.mkfifo(hook.state / "alive")
        hook.start = ["/bin/sh", "-c", f"echo $$ > '{hook.state}/alive'; exec sleep 60"]
        outcome = hook.run()
        pid = int((hook.state / "alive").read_text())
        os.kill(pid, signal.SIGTERM)  # raises if it has gone
        assert (outcome.context, outcome.err) == (SNAPSHOT, b"")
        assert outcome.ms < hook.deadline_ms + SLACK_MS

    def test_fifty_hooks_start_one_worker(self, hook: Hook, started: int) -> None:
        """Of fifty hooks that find no worker at the same moment, one starts it."""
        processes = [hook.popen() for _ in range(50)]
        for process in processes:
            out, err = process.communicate(PROMPT, timeout=20)
            outcome = Outcome(code=process.returncode, out=out, err=err, ms=0)
            assert hook.within_deadline(outcome).context == SNAPSHOT
        assert len(read_lines(started, 10)) == 1
        assert read_lines(started, 0.5) == []

    def test_whoever_holds_the_stamp_starts_it(self, hook: Hook, started: int) -> None:
        """A hook that finds the stamp locked by another one leaves the start to it."""
        with (hook.state / "starting").open("w") as stamp:
            fcntl.flock(stamp, fcntl.LOCK_EX)
            assert hook.within_deadline(hook.run()).context == SNAPSHOT
            assert read_lines(started, 0.3) == []
        hook.run()
        assert len(read_lines(started, 10)) == 1

    def test_once_a_minute(self, hook: Hook, started: int) -> None:
        """A second start waits for a minute to pass, by a stamp that may also come from the future."""
        hook.run()
        assert len(read_lines(started, 10)) == 1
        hook.run()
        assert read_lines(started, 0.3) == []
        for shift_s in (61, -3_600):
            make_old(hook.state / "starting", shift_s)
            hook.run()
            assert len(read_lines(started, 10)) == 1

    def test_stale_socket_starts_a_living_one_does_not(self, hook: Hook, started: int) -> None:
        """A socket nobody listens on counts as no worker; one that hangs or answers garbage is left alone."""
        hook.deadline_ms = 150
        for manner in (hung_after_request, garbage, healthy):
            with FakeWorker(hook.state, manner):
                hook.run()
        assert read_lines(started, 0.3) == []
        with FakeWorker(hook.state, healthy):
            os.link(hook.state / "worker.sock", hook.state / "kept")
        (hook.state / "kept").rename(hook.state / "worker.sock")
        hook.run()
        assert len(read_lines(started, 10)) == 1

    def test_session_start_starts_it_too(self, hook: Hook, started: int) -> None:
        """The first session of the day both spools and starts."""
        hook.event = "session-start"
        assert hook.run(START).out == b""
        assert len(read_lines(started, 10)) == 1
        assert len(list((hook.state / "spool").iterdir())) == 1

    @pytest.mark.parametrize("command", [["/no/such/program"], ["relative"], ["/"], ["/dev/null", "x"]])
    def test_command_that_cannot_be_run(self, state: Path, command: list[str]) -> None:
        """A start command that fails costs nothing but the start."""
        hook = Hook(state=state, start=command)
        assert hook.within_deadline(hook.run()).context == SNAPSHOT


def read_lines(number: int, timeout_s: float) -> list[str]:
    """Whole lines that come out of a pipe, waiting so long for the first one and not at all for more."""
    text = b""
    while select.select([number], [], [], 0 if text.endswith(b"\n") else timeout_s)[0]:
        text += os.read(number, 65_536)
    return text.decode().splitlines()
