"""Pipe: bytes in, bytes out. Snapshot from disk, answer from the worker, one after the other to stdout.

Flow:  snapshots/*.snap → [pipe] ↔ worker.sock (docs/snapshot-format.md, docs/protocol.md)
In:    argv, CLAUDE_PROJECT_DIR or the working directory, stdin.   Out: one JSON object or nothing.
Never: parsing of JSON, an import that the good path can do without, a step the deadline does not cover.
Next:  hook/recall_hook/aside.py for what happens beside the good path; worker/recall_worker/server.py
"""

import _signal  # type: ignore[import-not-found]  # typeshed knows only `signal`
import posix
from time import time

TYPE_CHECKING = False  # `typing` would cost a millisecond
if TYPE_CHECKING:
    from recall_hook.frame import MAX_FRAME_BYTES, parse, read_answer, units_of
else:
    from frame import MAX_FRAME_BYTES, parse, read_answer, units_of  # beside this file, see main.py

CLIENTS = ("claude-code", "codex", "gemini", "qwen", "droid")  # the place of each is its number on the wire
EVENTS = {"prompt": 1, "session-start": 2}
OUTPUT = b'{"hookSpecificOutput":{"hookEventName":"%b","additionalContext":"%b"}}\n'
NO_SHA256 = bytes(32)
MAX_SCOPES_BYTES = 1_048_576
MAX_SCOPE_BYTES = 65_535
MAX_STDIN_BYTES = 16 * 1024 * 1024
MAX_UNITS = 9_800  # the client drops everything past 10,000 without a word
DEFAULT_DEADLINE_MS = 500
GRACE_S = 0.1  # what the last write may still take when the deadline is over
MISSES_ALLOWED = 3
PAUSE_S = 30  # between two questions to a worker that missed so many deadlines in a row


def main(argv: list[str]) -> None:
    """Run one hook; never returns.

    Args:
        argv: As `recall hook-config` wrote it: [main.py, CLIENT, EVENT, --state, DIR, --deadline, MS, …].
    """
    turn = Turn(argv)
    try:
        turn.arm()
        turn.run()
    except BaseException as error:  # an assistant waits for this process: whatever it is, print and go
        turn.why = f"{type(error).__name__}: {error}"
    turn.finish()


class Turn:
    """One run of the hook. At any moment `digest` is the best it has, and a signal prints just that.

    Attributes:
        digest: What to print: the inside of a JSON string.
        snapshot: The held snapshot's payload, `held` its SHA-256.
        request: What the worker was sent, or would have been; empty until stdin was read whole.
        looked: True once it looked for the snapshot; `late` if the deadline came before that.
        waiting: True while the worker has the word; `missed` once it kept it past the deadline.
        answered: True once its answer was good.
        unreachable: True if nobody listens on the socket.
        why: What to say under RECALL_DEBUG.
    """

    def __init__(self, argv: list[str]) -> None:
        split = argv.index("--start") if "--start" in argv else len(argv)
        options = dict(zip(argv[3:split:2], argv[4:split:2], strict=False))
        self.client, self.event = argv[1:3] if split > 2 else ("", "")
        self.state = options.get("--state", "")
        deadline = options.get("--deadline", "")
        self.deadline_ms = int(deadline) if deadline.isdecimal() else DEFAULT_DEADLINE_MS
        self.start_command = argv[split + 1 :]
        self.held = NO_SHA256
        self.digest = self.snapshot = self.request = b""
        self.looked = self.late = self.waiting = self.missed = self.answered = self.unreachable = False
        self.why = "ended early"

    def arm(self) -> None:
        """From here on one timer covers everything, and no signal ends the hook without its digest."""
        signals = (_signal.SIGALRM, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
        for number in signals:
            _signal.signal(number, self.interrupt)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, signals)  # the client's own mask would be inherited
        _signal.setitimer(_signal.ITIMER_REAL, min(max(self.deadline_ms, 20), 25_000) / 1000)

    def interrupt(self, number: int, _frame: object) -> None:
        """Print what there is and go, wherever the hook was."""
        if not (
            self.looked or self.late
        ):  # starved since the start; the snapshot is a fifth of a millisecond away
            self.late = True
            _signal.setitimer(_signal.ITIMER_REAL, GRACE_S)
            return
        self.missed = self.waiting and number == _signal.SIGALRM
        self.why = "deadline" if number == _signal.SIGALRM else f"signal {number}"
        self.finish()

    def run(self) -> None:
        """Read the snapshot, then stdin, then ask."""
        if self.client not in CLIENTS or self.event not in EVENTS:
            self.why = f"no such client or event: {self.client} {self.event}"
            return
        scope = read_scope()
        at_home = enter(self.state)  # from here on names are short: a socket's path may not pass 107 bytes
        if at_home and self.event == "prompt":
            self.take_first(snapshot_names(scope))
        self.looked = True
        if self.late:
            self.why = "deadline"
            return
        stdin = read_stdin()  # of use or not: a client that cannot write may take it for a failure
        if not at_home or not stdin:
            self.why = "stdin empty or too long" if at_home else "no state folder"
            return
        left_ms = int(_signal.getitimer(_signal.ITIMER_REAL)[0] * 1000)
        kind = bytes((EVENTS[self.event], CLIENTS.index(self.client), 0))
        numbers = len(scope).to_bytes(4, "little") + left_ms.to_bytes(4, "little") + bytes(8)
        self.request = b"".join((b"RCLQ\1", kind, numbers, self.held, bytes(8), scope, stdin))
        self.take_answer(self.ask())

    def take_first(self, names: list[bytes]) -> None:
        """Hold the first of these snapshots of which every byte is right."""
        for name in names:
            mode, payload, units, _, sha256 = parse(read_file(b"snapshots/" + name, MAX_FRAME_BYTES), b"RCLS")
            if mode == 0 and units <= MAX_UNITS and 0 <= units_of(payload) <= MAX_UNITS:
                self.digest = self.snapshot = payload
                self.held = sha256
                return

    def ask(self) -> bytes:
        """Send the request; the answer's bytes, or nothing."""
        slow = read_stat("slow")  # one byte for each deadline missed in a row
        if slow and slow.st_size >= MISSES_ALLOWED and 0 <= time() - slow.st_mtime < PAUSE_S:
            self.why = "worker too slow of late, not asked"
            return b""
        found = read_stat("worker.sock")
        if not found:
            self.unreachable, self.why = True, "no worker.sock"
            return b""
        if found.st_mode & 0o170000 != 0o140000 or found.st_uid != posix.geteuid():
            self.why = "worker.sock is not a socket of ours"
            return b""
        import _socket  # 5 % of a bare start, so only when somebody may listen

        line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.waiting = True
        try:
            line.connect("worker.sock")
        except OSError:
            self.waiting, self.unreachable, self.why = False, True, "nobody listens on worker.sock"
            return b""
        line.sendall(self.request)
        line.shutdown(_socket.SHUT_WR)
        answer = read_answer(line)
        self.waiting = False
        if slow and answer:
            posix.unlink("slow")
        return answer

    def take_answer(self, answer: bytes) -> None:
        """Turn a good answer into the digest; leave the snapshot alone in place of any other."""
        mode, payload, units, offset, sha256 = parse(answer, b"RCLA")
        kept = {1: self.snapshot, 2: b"", 3: self.snapshot[offset:], 4: b""}.get(mode)
        if kept is None or sha256 != self.held or units > MAX_UNITS or offset > len(self.snapshot):
            self.why = "answer does not fit" if answer else self.why
            return
        printed = units_of(kept), units_of(payload)
        if min(printed) < 0 or sum(printed) > MAX_UNITS or units_of(self.snapshot[:offset]) < 0:
            self.why = "answer is too long, not JSON, or cuts the snapshot inside an escape"
            return
        self.answered, self.why = True, f"answered, mode {mode}"
        if self.event == "prompt":
            self.digest = b"" if mode == 4 else kept + payload

    def finish(self) -> None:
        """Print, see to what lies beside the good path, and leave with 0."""
        for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(number, _signal.SIG_IGN)
        left_s = _signal.getitimer(_signal.ITIMER_REAL)[0]
        _signal.signal(_signal.SIGALRM, leave)
        _signal.setitimer(_signal.ITIMER_REAL, max(left_s, GRACE_S))
        try:
            if self.digest:
                event = b"BeforeAgent" if self.client == "gemini" else b"UserPromptSubmit"
                write_all(OUTPUT % (event, self.digest))
            unheard = self.event == "session-start" and self.request and not self.answered
            may_start = self.unreachable and self.start_command
            if self.missed or unheard or may_start or posix.environ.get(b"RECALL_DEBUG"):
                import aside  # type: ignore[import-not-found]  # beside this file, see main.py

                aside.settle(self)
        finally:
            leave()


def leave(*_signal_and_frame: object) -> None:
    """End the process at once, without Python's own tidying up."""
    posix._exit(0)


def enter(folder: str) -> bool:
    """Change to the state folder."""
    try:
        posix.chdir(folder)
    except OSError:
        return False
    return True


def read_scope() -> bytes:
    """The directory the session works in; empty if it is gone or has no absolute name."""
    named = posix.environ.get(b"CLAUDE_PROJECT_DIR", b"")
    if named[:1] == b"/" and len(named) <= MAX_SCOPE_BYTES:
        return named
    try:
        return posix.getcwdb()
    except OSError:
        return b""


def snapshot_names(scope: bytes) -> list[bytes]:
    """Snapshot files to try: that of the innermost known directory around the scope, then everywhere's."""
    for line in read_file(b"snapshots/scopes", MAX_SCOPES_BYTES).split(b"\n"):
        directory, _, name = line.rpartition(b"\t")
        if (
            directory[:1] == b"/"
            and b"/" not in name
            and (scope + b"/").startswith(directory.rstrip(b"/") + b"/")
        ):
            return [name, b"everywhere.snap"]
    return [b"everywhere.snap"]


def read_stat(name: str) -> posix.stat_result | None:
    """What the file system says of a file here, links not followed; None if it is not there."""
    try:
        return posix.lstat(name)
    except OSError:
        return None


def read_file(name: bytes, limit: int) -> bytes:
    """A file's bytes; none if it cannot be read or has more than `limit`."""
    try:
        number = posix.open(
            name, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK
        )  # a pipe must not hang us
    except OSError:
        return b""
    try:
        data = posix.read(number, limit + 1)
    except OSError:
        data = b""
    posix.close(number)
    return data if len(data) <= limit else b""


def read_stdin() -> bytes:
    """Everything the client sends; nothing if that is more than `MAX_STDIN_BYTES`."""
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            part = posix.read(0, 65_536)
        except BlockingIOError:
            posix.set_blocking(0, True)
            continue
        size += len(part)
        if not part:
            return b"".join(parts)
        if size > MAX_STDIN_BYTES:
            parts.clear()
        else:
            parts.append(part)


def write_all(data: bytes) -> None:
    """Write to stdout until nothing is left."""
    while data:
        try:
            data = data[posix.write(1, data) :]
        except BlockingIOError:
            posix.set_blocking(1, True)
