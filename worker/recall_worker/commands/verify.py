"""`recall verify`: the list of environments tried, and whether the bytes were the same in all of them."""

from __future__ import annotations

from dataclasses import asdict

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from recall_worker.config import Config
from recall_worker.errors import SnapshotsDiffer
from recall_worker.verify import Verdict, verify


def run_verify(config: Config, *, as_json: bool) -> None:
    """Verify and print.

    Raises:
        SnapshotsDiffer: Some rendering is not what is published; printed first.
        RecallError: There is nothing to verify yet, or it could not be done.
    """
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("Rendering", total=None)
        verdict = verify(
            config, progress=lambda done, total: progress.update(bar, completed=done, total=total)
        )
    if as_json:
        click.echo(orjson.dumps(_facts(verdict), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(verdict)
    if verdict.differences:
        first = verdict.differences[0]
        raise SnapshotsDiffer(
            str(first), str(verdict.environments[first.environment]), len(verdict.differences)
        )


def _facts(verdict: Verdict) -> dict[str, object]:
    differing = {item.environment for item in verdict.differences}
    return {
        "identical": not differing,
        "snapshots": dict(verdict.snapshots),
        "environments": [
            {**asdict(item), "umask": f"{item.umask:03o}", "identical": number not in differing}
            for number, item in enumerate(verdict.environments)
        ],
        "differences": [asdict(item) for item in verdict.differences],
        "unread": verdict.unread,
    }


def _print(verdict: Verdict) -> None:
    for name, sha256 in verdict.snapshots.items():
        click.echo(f"{sha256[:16]}  {name}")
    for number, environment in enumerate(verdict.environments):
        places = [item for item in verdict.differences if item.environment == number]
        click.echo(f"{'DIFFERS' if places else 'identical'}  {environment}")
        for place in places:
            click.echo(f"           {place}")
    if verdict.unread:
        click.echo(
            f"{verdict.unread} notes changed since the ledger read them: copied vaults were compared with each other, "
            "not with what is published. `recall start` or `recall rebuild` reads them.",
            err=True,
        )
