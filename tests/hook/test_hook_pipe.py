"""The hook's good path: what it prints, what it sends, what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hook_process import (
    MAIN,
    PROMPT,
    SLOT_4,
    SNAPSHOT,
    FakeWorker,
    Hook,
    answer,
    healthy,
    healthy_but_never_closes,
    install_snapshot,
    saying,
    sealed,
)

from recall_worker.frames import (
    NO_SHA256,
    Client,
    Event,
    Mode,
    pack_snapshot,
    unpack_request,
    unpack_snapshot,
)

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with one good snapshot for everywhere."""
    folder = tmp_path / "state"
    install_snapshot(folder, pack_snapshot(SNAPSHOT))
    return folder


def loaded(*command: str) -> set[str]:
    """Modules that a Python process imports, by its own account."""
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", *command],
        input=PROMPT,
        capture_output=True,
        check=True,
    )
    lines = [line for line in run.stderr.decode().splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def test_snapshot_and_answer_stand_in_one_object(state: Path) -> None:
    """Snapshot and slot 4 come out as one string of one JSON object, at once."""
    with FakeWorker(state, healthy):
        outcome = Hook(state=state).run()
    assert outcome.context == SNAPSHOT + SLOT_4
    assert (outcome.code, outcome.err) == (0, b"")


def test_a_whole_answer_is_enough(state: Path) -> None:
    """The hook goes when the announced bytes are there, not when the worker hangs up."""
    hook = Hook(state=state, deadline_ms=5_000)
    with FakeWorker(state, healthy_but_never_closes):
        outcome = hook.run()
    assert outcome.context == SNAPSHOT + SLOT_4
    assert outcome.ms < 2_500


def test_no_worker_leaves_the_snapshot(state: Path) -> None:
    """Without a worker the snapshot is printed alone, byte for byte the same each time."""
    hook = Hook(state=state)
    first, second = hook.run(), hook.run(b'{"prompt":"another"}')
    assert first.context == SNAPSHOT
    assert first.out == second.out


@pytest.mark.parametrize(
    ("client", "event_name"),
    [
        ("claude-code", "UserPromptSubmit"),
        ("codex", "UserPromptSubmit"),
        ("gemini", "BeforeAgent"),
        ("qwen", "UserPromptSubmit"),
        ("droid", "UserPromptSubmit"),
    ],
)
def test_each_client_gets_its_own_wrapper(state: Path, client: str, event_name: str) -> None:
    """Gemini's event is BeforeAgent, all others' UserPromptSubmit; the worker is told which client asks."""
    with FakeWorker(state, healthy) as worker:
        outcome = Hook(state=state, client=client).run()
    assert outcome.out.startswith(b'{"hookSpecificOutput":{"hookEventName":"%b",' % event_name.encode())
    assert outcome.context == SNAPSHOT + SLOT_4
    assert unpack_request(worker.requests[0]).client == Client[client.upper().replace("-", "_")]


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        (Mode.SNAPSHOT_AND_PAYLOAD, SLOT_4, SNAPSHOT + SLOT_4),
        (Mode.SNAPSHOT_AND_PAYLOAD, "", SNAPSHOT),
        (Mode.PAYLOAD, SLOT_4, SLOT_4),
        (Mode.PAYLOAD, "", None),
        (Mode.NOTHING, "", None),
    ],
)
def test_the_mode_says_what_is_printed(state: Path, mode: Mode, text: str, expected: str | None) -> None:
    """Modes 1, 2 and 4 print both, slot 4 alone and nothing; no text at all means no output at all."""
    with FakeWorker(
        state, lambda worker, line: line.sendall(answer(worker.hear(line), mode=mode, text=text))
    ):
        assert Hook(state=state).run().context == expected


def test_mode_3_prints_what_was_appended(state: Path) -> None:
    """Mode 3 prints the snapshot from the offset on, then slot 4: the golden frames of both."""
    install_snapshot(state, (GOLDEN / "snapshot-grown.bin").read_bytes())
    golden = (GOLDEN / "answer-3-appended-and-payload.bin").read_bytes()
    with FakeWorker(state, saying(golden)):
        context = Hook(state=state).run().context
    assert (
        context
        == "\n- 日本語の決まり: 金曜日にデプロイしない。\n\n# Close to this prompt\n- ห้าม migrate ก่อน dump 🐘"
    )


def test_mode_3_at_the_very_end_prints_slot_4_alone(state: Path) -> None:
    """An offset equal to the snapshot's length is in bounds."""
    length = len(unpack_snapshot(pack_snapshot(SNAPSHOT)).payload)
    with FakeWorker(state, sealed(mode=3, offset=length, payload=b"slot 4")):
        assert Hook(state=state).run().context == "slot 4"


def test_without_a_snapshot_the_answer_stands_alone(tmp_path: Path) -> None:
    """With no snapshot on disk the worker is told so by 32 zero bytes, and its answer is printed."""
    with FakeWorker(tmp_path, healthy) as worker:
        assert Hook(state=tmp_path).run().context == SLOT_4
    assert unpack_request(worker.requests[0]).snapshot_sha256 == NO_SHA256


def test_the_request_says_everything(state: Path, tmp_path: Path) -> None:
    """Scope, snapshot, remaining time and stdin arrive as they are."""
    with FakeWorker(state, healthy) as worker:
        Hook(state=state, cwd=tmp_path, deadline_ms=900).run()
    request = unpack_request(worker.requests[0])
    assert (request.event, request.body) == (Event.PROMPT, PROMPT)
    assert request.scope == str(tmp_path).encode()
    assert request.snapshot_sha256 == unpack_snapshot(pack_snapshot(SNAPSHOT)).sha256
    assert 0 < request.deadline_ms <= 900


@pytest.mark.parametrize(
    "stdin",
    [
        b"not JSON",
        b"\xff\xfe\x00 invalid",
        b'{"prompt":"\\ud83d"}',
        b"\0" * 10,
        b'{"prompt":"' + b"x" * 10_000_000 + b'"}',
    ],
    ids=["not JSON", "invalid UTF-8", "lone surrogate", "NUL", "10 MB"],
)
def test_stdin_is_passed_on_unread(state: Path, stdin: bytes) -> None:
    """The hook sends whatever came, and leaves the reading to the worker."""
    with FakeWorker(state, healthy) as worker:
        outcome = Hook(state=state, deadline_ms=5_000).run(stdin)
    assert unpack_request(worker.requests[0]).body == stdin
    assert outcome.context == SNAPSHOT + SLOT_4


def test_longest_digest_passes(state: Path) -> None:
    """9,800 UTF-16 units of letters that take most bytes are printed whole."""
    text = "\x1b" * 4_900 + "😀" * 2_450
    install_snapshot(state, pack_snapshot(text))
    assert Hook(state=state).run().context == text


class TestScope:
    """Which snapshot is read."""

    @pytest.fixture
    def state(self, tmp_path: Path) -> Path:
        """Snapshots for everywhere, /srv/a, /srv/a/deep and one directory that is really there."""
        folder = tmp_path / "state"
        names = {
            "everywhere": "",
            "project-a": "/srv/a",
            "project-deep": "/srv/a/deep",
            "project-here": str(tmp_path),
        }
        for name in names:
            install_snapshot(folder, pack_snapshot(name), f"{name}.snap")
        lines = sorted(
            (f"{place}\t{name}.snap\n" for name, place in names.items() if place), key=len, reverse=True
        )
        (folder / "snapshots" / "scopes").write_text("".join(lines))
        return folder

    @pytest.mark.parametrize(
        ("directory", "expected"),
        [
            ("/srv/a", "project-a"),
            ("/srv/a/", "project-a"),
            ("/srv/a/src", "project-a"),
            ("/srv/a/deep/er", "project-deep"),
            ("/srv/ab", "everywhere"),
            ("/srv", "everywhere"),
            ("/", "everywhere"),
            ("", "project-here"),
            ("srv/a", "project-here"),
            ("../..", "project-here"),
        ],
    )
    def test_innermost_directory_wins(
        self, state: Path, tmp_path: Path, directory: str, expected: str
    ) -> None:
        """CLAUDE_PROJECT_DIR, or the cwd if that is relative, is matched at path boundaries."""
        hook = Hook(state=state, env={"CLAUDE_PROJECT_DIR": directory}, cwd=tmp_path)
        assert hook.run().context == expected

    def test_working_directory_stands_in(self, state: Path, tmp_path: Path) -> None:
        """Without CLAUDE_PROJECT_DIR the working directory decides."""
        (tmp_path / "src").mkdir()
        assert Hook(state=state, cwd=tmp_path / "src").run().context == "project-here"

    def test_vanished_working_directory_is_everywhere(self, state: Path, tmp_path: Path) -> None:
        """A working directory that was deleted under the session costs only the project's snapshot."""
        (tmp_path / "gone").mkdir()
        hook = Hook(
            state=state, wrap=("sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path / "gone"))
        )
        assert hook.within_deadline(hook.run()).context == "everywhere"

    def test_damaged_project_snapshot_falls_back(self, state: Path) -> None:
        """Where the project's snapshot is torn, that of everywhere is the best there is."""
        install_snapshot(state, pack_snapshot("project-a")[:-1], "project-a.snap")
        assert Hook(state=state, env={"CLAUDE_PROJECT_DIR": "/srv/a"}).run().context == "everywhere"

    @pytest.mark.parametrize(
        "scopes", [b"", b"\n\n\t\n", b"/srv/a", b"/srv/a\t../../x.snap\n", b"\xff\t\0\n", b"\t" * 9]
    )
    def test_damaged_scopes_mean_everywhere(self, state: Path, scopes: bytes) -> None:
        """A scopes file of any bytes leads at worst to everywhere, never out of the folder."""
        (state / "x.snap").write_bytes(pack_snapshot("stolen"))
        (state / "snapshots" / "scopes").write_bytes(scopes)
        hook = Hook(state=state, env={"CLAUDE_PROJECT_DIR": "/srv/a"})
        assert hook.within_deadline(hook.run()).context == "everywhere"

    @pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses names that are not UTF-8")
    def test_bytes_that_are_not_utf_8_match(self, state: Path) -> None:
        """Directories are bytes: one that is not UTF-8 is matched and sent as it is."""
        (state / "snapshots" / "scopes").write_bytes(b"/srv/\xff\tproject-a.snap\n")
        with FakeWorker(state, healthy) as worker:
            hook = Hook(state=state, env={"CLAUDE_PROJECT_DIR": "/srv/\udcff/src", "LC_ALL": "C"})
            assert hook.run().context == "project-a" + SLOT_4
        assert unpack_request(worker.requests[0]).scope == b"/srv/\xff/src"


def test_a_long_state_path_still_connects(tmp_path: Path) -> None:
    """A state folder whose path is longer than a socket's may be works like any other."""
    state = tmp_path / ("long-" * 20) / ("name-" * 20)
    install_snapshot(state, pack_snapshot(SNAPSHOT))
    assert len(str(state)) > 107
    with FakeWorker(state, healthy):
        assert Hook(state=state).run().context == SNAPSHOT + SLOT_4


@pytest.mark.parametrize("with_worker", [False, True])
def test_only_allowed_modules_are_loaded(state: Path, with_worker: bool) -> None:
    """Beside what a bare interpreter loads, the good path imports three modules of C and two of ours."""
    bare = loaded("-c", "pass")
    arguments = (str(MAIN), "claude-code", "prompt", "--state", str(state), "--deadline", "5000")
    loaded(*arguments)  # compiles
    if with_worker:
        with FakeWorker(state, healthy):
            ours = loaded(*arguments)
    else:
        ours = loaded(*arguments)
    builtin = set(sys.builtin_module_names)
    assert ours - bare - builtin - {"zlib"} == (
        {"pipe", "frame", "_socket"} if with_worker else {"pipe", "frame"}
    )
