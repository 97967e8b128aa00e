"""`recall explain`: why a prompt gets the notes it gets, for people or as JSON."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from recall_worker.client import ask
from recall_worker.config import NO_MODEL, Config
from recall_worker.errors import FrameError, ModelError, WorkerError
from recall_worker.locks import is_locked, lock_holder

if TYPE_CHECKING:
    from recall_worker.asking import QueryEncoder
    from recall_worker.explain import Above
    from recall_worker.hybrid import HybridIndex
    from recall_worker.ledger import Ledger
    from recall_worker.turns import TurnSense

ASK_S = 30.0
SHOWN_TERMS = 12
SHOWN_IDS = 4


def show_explanation(config: Config, prompt: str, *, directory: Path, top: int, as_json: bool) -> None:
    """Explain and print.

    Args:
        directory: Where the prompt is typed.
        top: Candidates at most, those that are shown not counted.

    Raises:
        WorkerError: There is no worker and nothing was indexed yet.
    """
    order = {"do": "explain", "prompt": prompt, "directory": str(directory.resolve()), "top": top}
    facts = _ask(config, order) or _look(config, order)
    if as_json:
        click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(facts)


def _ask(config: Config, order: dict[str, Any]) -> dict[str, Any] | None:
    """The running worker's own word, None if there is no worker to ask."""
    if not is_locked(config.state_dir):
        return None
    try:
        return ask(config.state_dir, order, timeout_s=ASK_S)
    except WorkerError:
        click.echo(
            f"In use by {lock_holder(config.state_dir)}, which does not answer (yet): looking myself.",
            err=True,
        )
        return None


def _look(config: Config, order: dict[str, Any]) -> dict[str, Any]:
    """The same code over the state folder, in this process: what was indexed last, nothing is brought up to date."""
    from recall_worker.answer import Answerer
    from recall_worker.explain import explain, read_order
    from recall_worker.hybrid import HybridIndex
    from recall_worker.ledger import Ledger
    from recall_worker.projects import Projects
    from recall_worker.rebuild import serving_generation

    generation = serving_generation(config.state_dir)
    if not generation.is_dir() or not (config.state_dir / "ledger.sqlite3").exists():
        raise WorkerError(f"{config.state_dir}: nothing is indexed here yet. `recall start` does it.")
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(config.state_dir / "ledger.sqlite3"))
        index = stack.enter_context(HybridIndex(generation, ledger))
        encoder, sense, state = _encoder(config, index, stack)
        projects = Projects(config.projects, ledger)
        asked = read_order(order)
        explained = explain(
            asked,
            projects.of(asked.directory, ledger.project_names(), remember=False),
            answerer=Answerer(
                config,
                ledger,
                projects,
                view=lambda: index.view,
                published=dict,
                encoder=encoder,
                sense=lambda: sense,
            ),
            ledger=ledger,
            view=index.view,
            above=lambda project: _above(config, ledger, project),
        )
        return {"done": True, "worker": None, "encoder": state, **asdict(explained)}


def _encoder(
    config: Config, index: HybridIndex, stack: ExitStack
) -> tuple[QueryEncoder | None, TurnSense | None, str]:
    """The worker's encoder in a process of our own, if its model is on this disk; and its state, for people."""
    from recall_worker.keeper import make_encoder
    from recall_worker.languages import load_language_space
    from recall_worker.turns import load_turn_sense

    models = config.models
    here = (models / config.model).is_dir() or Path(config.model).is_dir()
    encoder = make_encoder(config) if here and config.model != NO_MODEL else None
    if encoder is None:
        return None, None, "off" if config.model == NO_MODEL else "not converted yet"
    stack.callback(encoder.stop)
    encoder.start()
    try:
        encoder.wait_ready()
        space = load_language_space(encoder, name=encoder.name, folder=models)
        sense = load_turn_sense(encoder.encode_queries, name=encoder.name, folder=models)
    except ModelError as error:
        return None, None, f"failed: {error}"
    index.attach(encoder.name, encoder.dimension, space)
    return encoder, sense, encoder.state


def _above(config: Config, ledger: Ledger, project: str | None) -> Above:
    """The snapshot on disk, by what the ledger remembers that it says."""
    from recall_worker.explain import NOTHING_ABOVE, Above
    from recall_worker.frames import unpack_snapshot
    from recall_worker.publish import snapshot_name
    from recall_worker.records import EVERYWHERE

    try:
        frame = unpack_snapshot((config.state_dir / "snapshots" / snapshot_name(project)).read_bytes())
    except (OSError, FrameError):
        return NOTHING_ABOVE
    known = ledger.manifests(frame.sha256).get(project or EVERYWHERE)
    return Above(shown=known.shown if known else (), units=frame.units)


def _print(facts: dict[str, Any]) -> None:
    """What was searched, what stands above, then each candidate; 60 columns and up."""
    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(facts):
        table.add_row(name, text)
    listed = [_candidate(candidate, facts["candidates"]) for candidate in facts["candidates"]]
    if facts["searched"] and not listed:
        listed = [Group("", "There are no notes to search.")]
    if console.is_terminal:
        console.print(table, *listed)
    else:
        with console.capture() as captured:
            console.print(table, *listed)
        for line in captured.get().splitlines():
            click.echo(line.rstrip())  # a grid fills its lines with spaces


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The head of the report, by name."""
    worker = facts["worker"]
    by = (
        f"answered by the worker (process {worker})"
        if worker
        else "no worker runs: read from its state folder"
    )
    lines = [("prompt", escape(facts["searched"])) if facts["searched"] else ("prompt", _not_searched(facts))]
    lines.append(("search", f"{facts['by']}; {by}; encoder {escape(facts['encoder'])}; no priors"))
    lines.append(
        (
            "notes",
            f"{facts['passages']} passages, {facts['embedded']} with a vector; project "
            f"{escape(facts['project'] or 'none')}; language {facts['language'] or 'not told apart'}",
        )
    )
    words = [term for term in facts["terms"] if term["field"] == "words"]
    said = [_term(term) for term in words[:SHOWN_TERMS]]
    if len(words) > SHOWN_TERMS:
        said.append(f"[dim]… and {len(words) - SHOWN_TERMS} more[/]")
    if grams := len(facts["terms"]) - len(words):
        said.append(f"[dim]and {grams} parts of words[/]")
    lines.append(("words", ", ".join(said) or "none"))
    for slot, name in zip(facts["above"], ("profile", "prohibitions", "recent"), strict=True):
        ids = [escape(record) for record in slot["records"]]
        more = f" … and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
        lines.append((f"slot {slot['slot']}", f"{name}, {slot['units']} units\n{_ids(ids)}{more}"))
    lines.append(
        (
            "slot 4",
            f"{facts['relevant_units']} of {facts['room_units']} units, beside {facts['above_units']} above",
        )
    )
    return lines


def _ids(ids: list[str]) -> str:
    return "\n".join(f"[dim]{record}[/]" for record in ids[:SHOWN_IDS]) or "[dim]nothing[/]"


def _not_searched(facts: dict[str, Any]) -> str:
    return f"[yellow]nothing to search for[/] in {escape(repr(facts['prompt'][:60]))}: slot 4 stays empty"


def _term(term: dict[str, Any]) -> str:
    """A word, what it counts, and in how many passages it is."""
    found = f"[dim]×{term['documents']}[/]" if term["documents"] else "[dim]in none[/]"
    return f"{escape(term['term'])} {term['counted']:.1f} {found}"


def _candidate(candidate: dict[str, Any], all_of_them: list[dict[str, Any]]) -> Group:
    """Title, fate, figures, place: what a person asks first comes first."""
    fate, colour = _fate(candidate, all_of_them)
    place = f"{candidate['date']} {candidate['type']}, {candidate['path']}:{candidate['line']}"
    title = candidate["title"] or candidate["excerpt"]
    under = (Text(fate, style=colour), Text(_figures(candidate)), Text(place, style="dim"))
    return Group(
        "",
        Text.assemble((f"{candidate['rank']:>2}. ", "dim"), (title, "bold")),
        *(Padding(line, (0, 0, 0, 4)) for line in under),
    )


def _fate(candidate: dict[str, Any], all_of_them: list[dict[str, Any]]) -> tuple[str, str]:
    """What became of it, in a sentence, and the colour of that."""
    fate, other = candidate["fate"], candidate["other"]
    place = next((str(item["rank"]) for item in all_of_them if item["record"] == other), "")
    named = f"{other} (number {place})" if place and other != candidate["record"] else other
    percent = f"{candidate['ratio']:.0%}"
    above = f"{abs(candidate['above'] or 0):.1f}"
    says = {
        "shown": (f"shown: {above} above the floor", "green"),
        "repeats an earlier slot": (f"left out: {percent} of it stands above, in {other}", "yellow"),
        "repeats a better hit": (f"left out: {percent} of it stands in {named}", "yellow"),
        "older version": (f"left out: older version of {named}, {percent} alike", "yellow"),
        "enough of this record": ("left out: enough of this record is shown", "yellow"),
        "no room": ("left out: no room", "yellow"),
        "other project": (f"out of reach: belongs to project {candidate['project']}", "red"),
        "below the floor": (f"below the floor by {above}", "red"),
    }
    return says.get(fate, (fate, "red"))


def _figures(candidate: dict[str, Any]) -> str:
    """Evidence on one line: words, meaning, both."""
    bm25 = f"BM25 {candidate['bm25']:.2f} (no. {candidate['bm25_rank']})"
    cosine = f"cosine {candidate['cosine'] or 0:.3f} (no. {candidate['cosine_rank']})"
    figures = [
        bm25 if candidate["bm25_rank"] else "no word met",
        cosine if candidate["cosine_rank"] else "no vector",
        f"fused {candidate['fused']:.2f}",
        *([] if candidate["held"] is None else [f"holds {candidate['held']:.0%}"]),
        *(f"{name} {amount:+.2f}" for name, amount in candidate["priors"]),
    ]
    return " · ".join(figures)
