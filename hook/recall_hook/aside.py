"""Aside: what lies beside the good path, done after the digest is out. Loaded only when needed.

Flow:  pipe → [aside] → slow | spool/ | starting, a worker for next time | one line on stderr
In:    the turn as it ended.   Out: files under the state folder, which is the working directory.
Never: a wait; a child that holds one of the client's descriptors.
Next:  worker/recall_worker/daemon.py, which reads spool/ and is what gets started
"""

import posix
from time import time, time_ns

TYPE_CHECKING = False  # `typing` would cost a millisecond
if TYPE_CHECKING:
    from recall_hook.pipe import Turn

MAX_SPOOLED_BYTES = 262_144  # one file; a session's start is a few hundred bytes
MAX_SPOOLED_FILES = 100
START_EVERY_S = 60
CLOSED_DESCRIPTORS = 65_536
KEPT_NAMES = (b"HOME", b"PATH", b"USER", b"LOGNAME", b"LANG", b"TMPDIR", b"TZ", b"LD_LIBRARY_PATH")
KEPT_PREFIXES = (b"RECALL_", b"LC_", b"XDG_", b"HF_")  # HF_HOME: where a model of the person's own lies


def settle(turn: "Turn") -> None:
    """Do what the turn left to do; a full disk or a read-only folder stops no later step."""
    for step in (note_miss, spool, start_worker, say_why):
        try:
            step(turn)
        except OSError as error:
            turn.why += f"; {step.__name__}: {error.strerror}"


def note_miss(turn: "Turn") -> None:
    """Add a byte to `slow`: its size says how many deadlines the worker missed in a row."""
    if turn.missed:
        number = posix.open("slow", posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW, 0o600)
        posix.write(number, b".")
        posix.close(number)


def spool(turn: "Turn") -> None:
    """Keep the request of a session's start for the worker to read later, under a name that sorts by time."""
    if turn.event != "session-start" or turn.answered or not 0 < len(turn.request) <= MAX_SPOOLED_BYTES:
        return
    try:  # noqa: SIM105 - contextlib would be an import of its own
        posix.mkdir("spool", 0o700)
    except FileExistsError:
        pass
    for oldest in sorted(posix.listdir("spool"))[: 1 - MAX_SPOOLED_FILES or None]:
        posix.unlink("spool/" + oldest)
    name = f"{time_ns():020}-{posix.getpid()}"
    number = posix.open("spool/." + name, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
    written = posix.write(number, turn.request)
    posix.close(number)
    if written == len(turn.request):
        posix.rename("spool/." + name, "spool/" + name)


def start_worker(turn: "Turn") -> None:
    """Start the worker for next time unless somebody did so less than a minute ago."""
    if not turn.unreachable or not turn.start_command[:1] or turn.start_command[0][:1] != "/":
        return
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW
    stamp = posix.open("starting", flags, 0o600)
    if is_fresh(stamp):
        return
    import fcntl

    try:
        fcntl.flock(stamp, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of fifty hooks at once, one
    except BlockingIOError:
        return
    if is_fresh(stamp):  # another one held the lock and was done before us
        return
    posix.pwrite(stamp, b"%-19d\n" % posix.getpid(), 0)
    if posix.fork() == 0:
        become_worker(turn.start_command)
    turn.why += ", started one"


def is_fresh(stamp: int) -> bool:
    """Whether a start was noted lately; an empty stamp was only just created."""
    found = posix.fstat(stamp)
    return found.st_size > 0 and -1 <= time() - found.st_mtime < START_EVERY_S


def become_worker(command: list[str]) -> None:
    """In the child: own session, no descriptor of the client's, then the worker. Never returns.

    One fork is enough: the hook ends within its deadline, and whoever inherits its children reaps this one.
    """
    import _signal  # type: ignore[import-not-found]  # typeshed knows only `signal`

    try:
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR)
        for number in (0, 1, 2):
            posix.dup2(null, number)
        posix.closerange(3, CLOSED_DESCRIPTORS)
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        posix.chdir("/")
        posix.umask(0o077)
        kept = {
            name: value
            for name, value in posix.environ.items()
            if name in KEPT_NAMES or name.startswith(KEPT_PREFIXES)
        }
        posix.execve(command[0], command, kept)
    finally:
        posix._exit(127)


def say_why(turn: "Turn") -> None:
    """One line for the person who set RECALL_DEBUG."""
    if posix.environ.get(b"RECALL_DEBUG"):
        line = f"recall hook: {turn.why}; printed {len(turn.digest)} bytes of digest\n"
        posix.write(2, line.encode("utf-8", "backslashreplace"))
