"""The main job through real processes: a note on disk stands in front of the next prompt."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from .conftest import Place


def fill(place: Place) -> None:
    """A small vault with something for each slot."""
    place.note("profile/me.md", "Backend engineer in Chiang Mai, writes Go and SQL.", date="2026-01-01")
    place.note(
        "lessons/dump.md",
        "Never migrate production without a fresh dump.",
        priority="high",
        date="2026-01-02",
    )
    place.note("lessons/flaky.md", "Retry flaky network tests at most once.", date="2026-02-01")
    place.note(
        "conclusions/queue.md", "We chose the outbox pattern for the billing queue.", date="2026-02-02"
    )
    place.note(
        "knowledge/vpn.md", "The office VPN drops idle sessions after nine minutes.", date="2025-01-01"
    )
    place.note("knowledge/th.md", "สำรองฐานข้อมูลทุกคืนเวลาตีสองด้วย cron", date="2025-01-02")
    place.note("knowledge/ja.md", "本番サーバーの証明書は毎年三月に更新する。", date="2025-01-03")
    place.note("knowledge/soup.md", "Tom yum needs galangal, not ginger.", date="2025-01-04")


def test_four_slots_in_order_in_three_languages(place: Place) -> None:
    """Each slot is filled, in order, and slot 4 answers the prompt in its own language."""
    fill(place)
    place.recall("rebuild")
    place.recall("start")
    digest = place.digest("why does the VPN session drop when idle?")
    places = [digest.index(words) for words in ("Chiang Mai", "Never migrate", "outbox", "nine minutes")]
    assert places == sorted(places)
    assert "galangal" not in digest
    assert "ตีสอง" in place.digest("ฐานข้อมูลสำรองตอนกี่โมง")
    assert "三月" in place.digest("サーバーの証明書の更新はいつ？")


def test_the_next_scan_shows_what_changed(place: Place) -> None:
    """A lesson only appends, a prohibition appears, a deleted note goes, unchanged turns are byte-identical."""
    fill(place)
    place.recall("rebuild")
    place.recall("start")
    command = place.hook_command()
    quiet = "zzz"
    before = place.digest(quiet, command=command)
    assert place.digest(quiet, command=command) == before

    place.note("lessons/new.md", "Pin the linter's version.", date="2026-03-01")
    place.wait(lambda: "Pin the linter" in place.digest(quiet, command=command))
    grown = place.digest(quiet, command=command)
    assert grown.startswith(before)

    place.note("lessons/never.md", "Never push to main on a Friday.", priority="high", date="2026-03-02")
    place.wait(lambda: "Never push to main" in place.digest(quiet, command=command))

    (place.vault / "lessons/new.md").unlink()
    place.wait(lambda: "Pin the linter" not in place.digest(quiet, command=command))


def test_without_a_worker_the_snapshot_alone_and_a_worker_for_next_time(place: Place) -> None:
    """The hook prints the snapshot at once and starts the worker, once."""
    fill(place)
    place.recall("rebuild")
    alone = place.digest("why does the VPN session drop when idle?")
    assert "Never migrate" in alone
    assert "nine minutes" not in alone
    place.wait(lambda: place.status()["worker"])
    place.wait(lambda: "nine minutes" in place.digest("why does the VPN session drop when idle?"))


def test_an_empty_state_and_a_dead_socket_give_nothing(place: Place) -> None:
    """Nothing known yet: exit 0, no output."""
    place.settings["autostart"] = "false"
    assert place.digest("hello there") == ""
    place.state.mkdir(exist_ok=True)
    (place.state / "worker.sock").touch()
    assert place.digest("hello there") == ""


def test_a_record_of_a_project_stays_in_it(place: Place) -> None:
    """Inside the repository it is recalled, elsewhere not; the first prompt there already has it."""
    fill(place)
    place.note("lessons/tax.md", "Tax is rounded per line in billing.", project="billing", date="2026-03-05")
    place.note(
        "knowledge/ledgers.md", "Invoices live in the ledger_v2 table.", project="billing", date="2025-02-02"
    )
    inside = place.root / "src" / "billing"
    (inside / ".git").mkdir(parents=True)
    (inside / "deep").mkdir()
    place.recall("rebuild")
    place.recall("start")
    outside = place.digest("which table holds invoices?")
    assert "Tax is rounded" not in outside
    assert "ledger_v2" not in outside
    for _ in range(2):
        digest = place.digest("which table holds invoices?", cwd=inside / "deep")
        assert "Tax is rounded" in digest
        assert "ledger_v2" in digest
        assert digest.count("Never migrate") == 1
    place.wait(lambda: "billing" in (place.state / "snapshots" / "scopes").read_text())
    place.wait(lambda: "Tax is rounded" in place.digest("which table holds invoices?", cwd=inside / "deep"))


def test_two_hooks_on_one_prompt_inject_once(place: Place) -> None:
    """Installed twice, the second of two hooks on one prompt prints nothing."""
    fill(place)
    place.recall("rebuild")
    place.recall("start")
    first, second = (place.digest("the VPN drops", prompt_id="p1") for _ in range(2))
    assert "Never migrate" in first
    assert second == ""
    assert place.digest("the VPN drops", prompt_id="p2") == first


def test_a_hung_worker_costs_the_deadline_and_no_more(place: Place) -> None:
    """A stopped worker process: the snapshot alone, in time."""
    fill(place)
    place.settings["deadline_ms"] = "300"
    place.recall("rebuild")
    place.recall("start")
    pid = place.status()["worker"]["pid"]
    command = place.hook_command()
    os.kill(pid, signal.SIGSTOP)
    try:
        digest = place.digest("why does the VPN session drop when idle?", command=command)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "Never migrate" in digest
    assert "nine minutes" not in digest


def test_sigterm_leaves_nothing_behind(place: Place) -> None:
    """No socket, no lock, and a second worker is refused while one runs."""
    fill(place)
    place.recall("start")
    second = subprocess.run(
        [str(Path(place.hook_command()[place.hook_command().index("--start") + 1])), *place.options()],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 9
    assert "in use already by a worker" in second.stderr
    os.kill(place.status()["worker"]["pid"], signal.SIGTERM)
    place.wait(lambda: place.status()["worker"] is None)
    assert not (place.state / "worker.sock").exists()


def test_a_rebuild_under_a_running_worker_keeps_serving(place: Place) -> None:
    """The worker does it itself, the answers go on, the generation changes, an edit made meanwhile is not lost."""
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["vault"]["records"] == 8)
    before = place.status()["worker"]["generation"]
    digest = place.digest("why does the VPN session drop when idle?")
    place.note("knowledge/fresh.md", "The printer's address ends in forty-two.", date="2026-01-05")
    place.recall("rebuild")
    assert place.status()["worker"]["generation"] != before
    assert place.digest("why does the VPN session drop when idle?") == digest
    assert "forty-two" in place.digest("what is the printer's address?")
    assert [folder.name for folder in (place.state / "generations").iterdir()] == [
        place.status()["worker"]["generation"]
    ]


def test_a_bad_note_is_reported_and_costs_no_other(place: Place) -> None:
    """`recall status` names the line; the note's last good version stays."""
    fill(place)
    place.recall("start")
    place.wait(lambda: place.status()["vault"]["records"] == 8)
    (place.vault / "lessons/flaky.md").write_text("---\ntags: [a\n---\nBroken now.\n")
    place.wait(lambda: place.status()["problems"])
    problem = place.status()["problems"][0]
    assert problem["path"] == "lessons/flaky.md"
    assert problem["fatal"] is True
    assert problem["line"] is not None
    assert "Retry flaky network tests" in place.digest("zzz")
    said = " ".join(place.recall("status", check=False).stdout.split())
    assert f"lessons/flaky.md:{problem['line']}: " in said
    assert "Skipped this file" in said


@pytest.mark.parametrize(
    "arguments", [["status"], ["start"], ["stop"], ["rebuild"], ["hook-config"], ["eval"], []]
)
def test_help_needs_no_model(arguments: list[str]) -> None:
    """`--help` answers without loading anything heavy."""
    from .conftest import RECALL

    run = subprocess.run(
        [str(RECALL), *arguments, "--help"], capture_output=True, text=True, check=True, timeout=30
    )
    assert "Usage: recall" in run.stdout


def test_a_missing_vault_is_said_clearly(place: Place) -> None:
    """Exit code 4 and the path."""
    place.vault.rmdir()
    run = place.recall("rebuild", check=False)
    assert run.returncode == 4
    assert str(place.vault) in run.stderr
    place.vault.mkdir()


def test_an_emptied_vault_wipes_nothing_unasked(place: Place) -> None:
    """The digest goes on, status says why; `--confirm-empty` is the way out."""
    fill(place)
    place.recall("rebuild")
    place.recall("start")
    for note in place.vault.rglob("*.md"):
        note.unlink()
    place.wait(lambda: place.status()["failures"])
    assert "--confirm-empty" in place.status()["failures"][0]["message"]
    assert "Never migrate" in place.digest("zzz")
    assert place.recall("rebuild", check=False).returncode == 4
    place.recall("rebuild", "--confirm-empty")
    assert place.digest("zzz") == ""


def test_a_worker_whose_state_is_taken_away_ends(place: Place) -> None:
    """It cannot be told to stop any more, so it must not stay."""
    fill(place)
    place.recall("start")
    pid = place.status()["worker"]["pid"]
    shutil.rmtree(place.state)
    place.wait(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    """True while a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_status_is_json_without_a_state(place: Place) -> None:
    """A program that asks gets JSON even before the first start."""
    assert json.loads(place.recall("status", "--json", check=False).stdout)["worker"] is None
