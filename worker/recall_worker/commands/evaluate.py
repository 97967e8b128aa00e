"""`recall eval`: index a judged corpus in a temporary state and print how well each ranking does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from recall_worker.commands.rebuild import Bars
from recall_worker.config import NO_MODEL, Config
from recall_worker.metrics import NAMES

if TYPE_CHECKING:
    from recall_worker.encoder import Encoder


def run_eval(folder: Path, config: Config, *, as_json: bool, field: str | None) -> None:
    """Evaluate and print.

    Raises:
        DatasetError: The folder is incomplete or malformed.
        ModelError: The encoder does not load; `--set model=none` measures BM25 alone.
    """
    from recall_worker.dataset import read_dataset
    from recall_worker.evaluate import fill_ledger, judge, summarise
    from recall_worker.hybrid import HybridIndex
    from recall_worker.languages import load_language_space
    from recall_worker.ledger import Ledger
    from recall_worker.rebuild import embed_all

    dataset = read_dataset(folder)
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recall-eval-")))
        bars = stack.enter_context(Bars())
        ledger = stack.enter_context(Ledger.open(state / "ledger.sqlite3"))
        fill_ledger(ledger, dataset)
        index = stack.enter_context(HybridIndex(state / "generations" / "0001", ledger))
        index.follow(lambda done, total: bars.tell("index", done, total))
        encoder = None if config.model == NO_MODEL else _load(config, bars)
        if encoder is not None:
            space = load_language_space(encoder, name=encoder.name, folder=config.models)
            index.attach(encoder.name, encoder.dimension, space)
            embed_all(index, encoder, progress=bars.tell)
        judged = judge(dataset, index, ledger, encoder, progress=bars.tell)
    summary = summarise(judged, field=field) | {"records": len(dataset.documents)}
    if as_json:
        click.echo(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(summary, folder)


def _load(config: Config, bars: Bars) -> Encoder:
    """The encoder, in this process: nobody waits for a prompt here."""
    from recall_worker.encoder import load_encoder

    return load_encoder(
        config.model,
        models_dir=config.models,
        allow_download=config.allow_download,
        progress=lambda stage, ratio: bars.tell(f"Encoder: {stage}", 0, 0),
    )


def _print(summary: Mapping[str, Any], folder: Path) -> None:
    """One table for all questions and one for each value of the field."""
    console = Console(highlight=False)
    title = f"{folder.name}: {summary['records']} records, {summary['queries']} queries"
    console.print(_table(summary, title))
    for value, group in summary.get("by", {}).items():
        console.print(_table(group, f"{value}: {group['queries']} queries"))


def _table(summary: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("ranking")
    for name in NAMES:
        table.add_column(name, justify="right")
    for ranking in ("bm25", "dense", "fused"):
        table.add_row(ranking, *(f"{100 * summary[ranking][name]:.1f}" for name in NAMES))
    return table
