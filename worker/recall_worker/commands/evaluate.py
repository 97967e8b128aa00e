"""`recall eval`: index a judged corpus in a temporary state and print how well each ranking does."""

from __future__ import annotations

import datetime as dt
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
from recall_worker.errors import DatasetError
from recall_worker.metrics import NAMES

if TYPE_CHECKING:
    from recall_worker.dataset import Dataset
    from recall_worker.encoder import Encoder
    from recall_worker.hybrid import HybridIndex
    from recall_worker.ledger import Ledger


def run_eval(
    folder: Path, config: Config, *, as_json: bool, field: str | None, off_topic: Path | None, half: bool
) -> None:
    """Evaluate and print.

    Args:
        field: Of queries.jsonl, to break figures down by.
        off_topic: Prompts that nothing in the folder answers.
        half: Index every other document, and take the questions about the rest for off-topic ones.

    Raises:
        DatasetError: The folder is incomplete or malformed.
        ModelError: The encoder does not load; `--set model=none` measures BM25 alone.
    """
    from recall_worker.dataset import read_dataset
    from recall_worker.evaluate import judge, summarise
    from recall_worker.ledger import Ledger
    from recall_worker.off_topic import halve, listen, read_off_topic

    prompts = read_off_topic(off_topic) if off_topic is not None else []
    plain_vault = off_topic is not None and not half and not (folder / "corpus.jsonl").exists()
    dataset = None if plain_vault else read_dataset(folder)
    if dataset is not None and half:
        dataset, theirs = halve(dataset)
        prompts += theirs
    questions = dataset.questions if dataset is not None else ()
    fields = sorted({name for question in questions for name in question.fields})
    if field is not None and field not in fields:
        raise DatasetError(
            folder / "queries.jsonl",
            None,
            f"no query has a field {field!r}; there are: {', '.join(fields) or 'none'}",
        )
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recall-eval-")))
        bars = stack.enter_context(Bars())
        ledger = stack.enter_context(Ledger.open(state / "ledger.sqlite3"))
        _fill(ledger, dataset, folder, config)
        index, encoder = _index(state, ledger, config, bars, stack)
        summary: dict[str, Any] = {"records": ledger.passage_count()}
        if dataset is not None:
            judged = judge(dataset, index, ledger, encoder, progress=bars.tell)
            summary = summarise(judged, field=field) | summary
        if prompts:
            silence = listen(questions, prompts, index, ledger, encoder, dataset=dataset, progress=bars.tell)
            summary["off_topic"] = silence.summary()
    if as_json:
        click.echo(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(summary, folder)


def _fill(ledger: Ledger, dataset: Dataset | None, folder: Path, config: Config) -> None:
    """Store the corpus, or scan the vault."""
    from recall_worker.evaluate import fill_ledger
    from recall_worker.scan import scan

    if dataset is not None:
        fill_ledger(ledger, dataset)
        return
    if not folder.is_dir():
        raise DatasetError(folder, None, "no such folder")
    scan(folder, ledger, today=dt.date.today(), max_note_bytes=config.max_note_bytes)


def _index(
    state: Path, ledger: Ledger, config: Config, bars: Bars, stack: ExitStack
) -> tuple[HybridIndex, Encoder | None]:
    """Index and embed everything; no encoder with `model = "none"`."""
    from recall_worker.hybrid import HybridIndex
    from recall_worker.languages import load_language_space
    from recall_worker.rebuild import embed_all

    index = stack.enter_context(HybridIndex(state / "generations" / "0001", ledger))
    index.follow(lambda done, total: bars.tell("index", done, total))
    if config.model == NO_MODEL:
        return index, None
    encoder = _load(config, bars)
    space = load_language_space(encoder, name=encoder.name, folder=config.models)
    index.attach(encoder.name, encoder.dimension, space)
    embed_all(index, encoder, progress=bars.tell)
    return index, encoder


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
    """One table for all questions, one for each value of the field, and the floor's curve."""
    console = Console(highlight=False)
    if "fused" in summary:
        title = f"{folder.name}: {summary['records']} records, {summary['queries']} queries"
        console.print(_table(summary, title))
    for value, group in summary.get("by", {}).items():
        console.print(_table(group, f"{value}: {group['queries']} queries"))
    if "off_topic" in summary:
        console.print(_curve(summary["off_topic"], summary["records"]))


def _curve(silence: Mapping[str, Any], records: int) -> Table:
    """What each bar lets through; the floor's own row stands out."""
    title = f"floor: {records} records, {silence['queries']} off-topic prompts, {silence['gold']} gold found"
    table = Table(title=title, title_justify="left")
    table.add_column("bar", justify="right")
    table.add_column("off-topic prompts that bring something up", justify="right")
    table.add_column("gold that survives", justify="right")
    for at in silence["curve"]:
        table.add_row(
            f"{at['bar']:+.1f}" if at["bar"] else "the floor",
            _percent(at["injected"]),
            _percent(at["survived"]),
            style=None if at["bar"] else "bold",
        )
    return table


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.1f}"


def _table(summary: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("ranking")
    for name in NAMES:
        table.add_column(
            name.replace("recall@", "R@").replace("mrr", "MRR").replace("ndcg", "nDCG"), justify="right"
        )
    for ranking in ("bm25", "dense", "fused"):
        measured = summary[ranking]
        if any(measured.values()):  # no dense ranking without a model
            table.add_row(ranking, *(f"{100 * measured[name]:.1f}" for name in NAMES))
    return table
