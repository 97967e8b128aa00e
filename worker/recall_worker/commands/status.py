"""`recall status`: one screen, or JSON."""

from __future__ import annotations

import time
from typing import Any

import click
import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recall_worker.client import ask
from recall_worker.config import Config
from recall_worker.errors import WorkerError
from recall_worker.locks import is_locked, lock_holder

BAR_CELLS = 24
SHOWN_PROBLEMS = 20
SHOWN_DECISIONS = 4


def show_status(config: Config, *, as_json: bool) -> int:
    """Print the status.

    Returns:
        0 if all is well, 1 if something needs a person.
    """
    facts = _ask_or_read(config)
    if as_json:
        click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(facts)
    return 0 if facts["healthy"] else 1


def _ask_or_read(config: Config) -> dict[str, Any]:
    """The worker's own word, else what its ledger says."""
    if is_locked(config.state_dir):
        try:
            return ask(config.state_dir, {"do": "status"})
        except WorkerError:
            click.echo(f"In use by {lock_holder(config.state_dir)}, which does not answer (yet).", err=True)
    from recall_worker.ledger import Ledger
    from recall_worker.status import read_status

    if not (config.state_dir / "ledger.sqlite3").exists():
        return {
            "done": True,
            "healthy": False,
            "worker": None,
            "state_dir": str(config.state_dir),
            "vault": {
                "path": str(config.vault),
                "exists": config.vault.is_dir(),
                "files": 0,
                "records": 0,
                "passages": 0,
            },
            "index": None,
            "encoder": None,
            "snapshot_policy": config.snapshot,
            "scopes": [],
            "decisions": [],
            "problems": [],
            "failures": [],
        }
    with Ledger.open(config.state_dir / "ledger.sqlite3") as ledger:
        return read_status(config, ledger, worker=None, encoder=None, view=None)


def _print(facts: dict[str, Any]) -> None:
    """One screen, 60 columns and up; colour only on a terminal, never with NO_COLOR."""
    console = Console(highlight=False, soft_wrap=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(facts):
        table.add_row(name, text)
    console.print(table)
    for scope in facts["scopes"]:
        _print_scope(console, scope)
    for failure in facts["failures"]:
        console.print(f"[red]{escape(failure['job'])} failed:[/] {escape(failure['message'])}")
    problems = facts["problems"]
    if problems:
        console.print(f"\n[yellow]{len(problems)} problems in the vault[/]")
        for problem in problems[:SHOWN_PROBLEMS]:
            place = problem["path"] if problem["line"] is None else f"{problem['path']}:{problem['line']}"
            console.print(f"  [bold]{escape(place)}[/]: {escape(problem['message'])}")
        if len(problems) > SHOWN_PROBLEMS:
            console.print(
                f"  … and {len(problems) - SHOWN_PROBLEMS} more: `recall status --json` lists them all."
            )


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    worker, vault, index, encoder = (facts[key] for key in ("worker", "vault", "index", "encoder"))
    if worker is None:
        running = "[yellow]not running[/]: `recall start` starts it"
    else:
        running = f"running, process {worker['pid']}, for {_age(time.time() - worker['since'])}"
        if worker["rebuilding"]:
            running += ", rebuilding"
    lines = [("worker", running)]
    notes = f"{vault['records']} records in {vault['files']} files"
    if not vault["exists"]:
        notes = (
            "[red]no such folder[/]: make it, or set `vault` in recall.toml. Showing the last good version"
        )
    lines.append(("vault", f"{escape(vault['path'])}\n{notes}"))
    if worker is not None and worker["last_scan"]:
        scan = worker["last_scan"]
        lines.append(("last scan", f"{_age(time.time() - scan['at'])} ago, {scan['ms']} ms"))
    if index is not None:
        lines.append(("index", f"{index['passages']} passages, {index['embedded']} with a vector"))
    if encoder is not None:
        state = escape(encoder["state"])
        bad = state.startswith("failed")
        lines.append(
            (
                "model",
                f"{escape(encoder['model'])}, {'[red]' + state + '[/] (BM25 goes on alone)' if bad else state}",
            )
        )
    latest = sorted(facts["decisions"], key=lambda decision: -decision["at"])[:SHOWN_DECISIONS]
    for number, decision in enumerate(latest):
        lines.append(("" if number else "published", _decision(decision)))
    lines.append(("state", escape(facts["state_dir"])))
    return lines


def _decision(decision: dict[str, Any]) -> str:
    """Why a snapshot is as it is, newest first in the table."""
    text = f"{_age(time.time() - decision['at'])} ago, {escape(decision['scope'])}: {decision['reason']}"
    if decision["until"] is not None:
        text += f" until {time.strftime('%H:%M:%S', time.localtime(decision['until']))} at the latest"
    return text


def _print_scope(console: Console, scope: dict[str, Any]) -> None:
    """Budget bar of one snapshot."""
    share = scope["units"] / scope["target_units"]
    filled = min(BAR_CELLS, round(share * BAR_CELLS))
    colour = "green" if share <= 1 else "yellow"
    console.print(
        f"\n[bold]{escape(scope['scope'])}[/]  [{colour}]{'█' * filled}[/]{'░' * (BAR_CELLS - filled)} "
        f"{scope['units']} of {scope['target_units']} units"
    )
    console.print(
        f"  {scope['profile']} profile, {scope['prohibitions']} prohibitions, {scope['recent']} recent"
        + ("" if scope["published"] else "  [yellow](not published yet)[/]")
    )
    if scope["pending"]:
        console.print(f"  {scope['pending']} newer records stand beside it until slot 3 is chosen anew")
    for note in scope["notes"]:
        console.print(f"  {escape(note)}")
    if scope["left_out"]:
        console.print(
            f"  [red]{len(scope['left_out'])} prohibitions do not fit the digest:[/] "
            f"{escape(', '.join(scope['left_out'][:8]))}. Merge some, or lower their priority."
        )


def _age(seconds: float) -> str:
    """Seconds in the largest whole unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
