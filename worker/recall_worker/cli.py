"""CLI: `recall`, the person's tool.

Flow:  person → [cli] → client → daemon, or rebuild and evaluate in this process
In:    a command line.   Out: data on stdout, words for people on stderr, an exit code from errors.py.
Never: a heavy import before it is needed: `recall --help` and `recall status` answer at once.
Next:  worker/recall_worker/client.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recall_worker.errors import RecallError, UsageError

if TYPE_CHECKING:
    from recall_worker.config import Config

F = TypeVar("F", bound=Callable[..., Any])


class Group(click.Group):
    """Turns our errors into one line and their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a RecallError is for people, not a traceback."""
        if sys.platform not in ("linux", "darwin"):
            click.echo(f"recall: runs on Linux and macOS, not on {sys.platform}.", err=True)
            ctx.exit(1)
        try:
            return super().invoke(ctx)
        except RecallError as error:
            click.echo(f"recall: {error}", err=True)
            ctx.exit(error.exit_code)


def config_options(command: F) -> F:
    """The options by which any command finds its settings; flags win over RECALL_* and recall.toml."""
    for option in (
        click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override any setting, as in recall.toml.",
        ),
        click.option(
            "--config", "config_file", type=click.Path(path_type=Path), help="Read this recall.toml."
        ),
        click.option("--vault", type=click.Path(), help="The folder of Markdown notes."),
        click.option("--state", type=click.Path(), help="Where everything derived is kept."),
    ):
        command = option(command)
    return command


def read_config(
    state: str | None, vault: str | None, config_file: Path | None, pairs: tuple[str, ...]
) -> Config:
    """Load the settings for a command.

    Raises:
        UsageError: `--set` without `=`.
        ConfigError: A bad key or value.
    """
    from recall_worker.config import load_config

    flags = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: wanted KEY=VALUE, as in --set budget.recent_n=8.")
        flags[key.strip()] = value.strip()
    # A path typed here is relative to here, not to the config file's folder.
    if state is not None:
        flags["state_dir"] = str(Path(state).expanduser().absolute())
    if vault is not None:
        flags["vault"] = str(Path(vault).expanduser().absolute())
    return load_config(flags=flags, config_file=config_file)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="recall-worker", prog_name="recall")
def main() -> None:
    """Puts the right notes in front of every prompt of an AI coding assistant."""


@main.command()
@config_options
@click.option(
    "--wait", "wait_s", default=20.0, show_default=True, metavar="SECONDS", help="How long to wait for it."
)
def start(wait_s: float, **options: Any) -> None:
    """Start the worker in the background."""
    from recall_worker.commands.lifecycle import start_worker

    start_worker(read_config(**options), wait_s=wait_s)


@main.command()
@config_options
def stop(**options: Any) -> None:
    """Stop the worker; it finishes the batch in hand."""
    from recall_worker.commands.lifecycle import stop_worker

    stop_worker(read_config(**options))


@main.command()
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool, **options: Any) -> None:
    """Show worker, vault, index, model, budgets and problems. Exit code 1 if something needs you."""
    from recall_worker.commands.status import show_status

    sys.exit(show_status(read_config(**options), as_json=as_json))


@main.command()
@config_options
@click.option("--no-embed", is_flag=True, help="Leave missing vectors to the worker.")
@click.option(
    "--confirm-empty", is_flag=True, help="Forget the notes that are gone, even most or all of them."
)
def rebuild(no_embed: bool, confirm_empty: bool, **options: Any) -> None:
    """Build the index afresh from the vault, beside the one that serves, then swap. Run it after bulk imports."""
    from recall_worker.commands.rebuild import run_rebuild

    run_rebuild(read_config(**options), embed=not no_embed, confirm_empty=confirm_empty)


@main.command()
@config_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "anthropic", "openai", "gemini"]),
    default="text",
    show_default=True,
    help="The digest's text, or JSON with a vendor's message parts: what changes least first.",
)
@click.option("--prompt", metavar="TEXT", help="Add the notes close to this prompt; `-` reads it from stdin.")
@click.option(
    "--cwd",
    "directory",
    type=click.Path(path_type=Path),
    default=".",
    help="The directory the prompt is typed in; picks the project. [default: this one]",
)
@click.option(
    "--openai-breakpoints",
    is_flag=True,
    help="Mark where the cache may end: GPT-5.6 and later need it, earlier models refuse it.",
)
@click.option(
    "--wait",
    "timeout_s",
    type=click.FloatRange(0.05, 600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the worker may take.",
)
def digest(
    form: str,
    prompt: str | None,
    directory: Path,
    openai_breakpoints: bool,
    timeout_s: float,
    **options: Any,
) -> None:
    """Print what a prompt would get, also as message parts for a model that you call yourself."""
    if openai_breakpoints and form != "openai":
        raise UsageError("--openai-breakpoints goes with --format openai.")
    from recall_worker.commands.digest import show_digest

    show_digest(
        read_config(**options),
        form=form,
        prompt=prompt,
        directory=directory,
        openai_breakpoints=openai_breakpoints,
        timeout_s=timeout_s,
    )


@main.command("verify")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_snapshots(as_json: bool, **options: Any) -> None:
    """Render every snapshot in other environments and compare bytes. Exit code 12 if one differs."""
    from recall_worker.commands.verify import run_verify

    run_verify(read_config(**options), as_json=as_json)


@main.command("hook-config")
@config_options
@click.argument("client", type=click.Choice(["claude-code"]))
def hook_config(client: str, **options: Any) -> None:
    """Print the hooks block for a client's settings file."""
    from recall_worker.commands.hook_config import hook_block

    click.echo(hook_block(client, read_config(**options)))


@main.command("explain")
@click.argument("prompt")
@config_options
@click.option(
    "--project",
    "directory",
    type=click.Path(path_type=Path),
    default=".",
    help="Directory in which the prompt is typed.  [default: this one]",
)
@click.option(
    "--top", type=click.IntRange(1, 1_000), default=10, show_default=True, help="Candidates to list."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain_prompt(prompt: str, directory: Path, top: int, as_json: bool, **options: Any) -> None:
    """Tell why PROMPT gets the notes it gets: each candidate's evidence, and what became of it."""
    from recall_worker.commands.explain import show_explanation

    show_explanation(read_config(**options), prompt, directory=directory, top=top, as_json=as_json)


@main.command("eval")
@click.argument("folder", type=click.Path(path_type=Path))
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print ratios from 0 to 1 as JSON.")
@click.option("--by", "field", metavar="FIELD", help="Break the figures down by a field of queries.jsonl.")
@click.option(
    "--off-topic",
    type=click.Path(path_type=Path),
    metavar="QUERIES.jsonl",
    help="Prompts that nothing in FOLDER answers: how many bring anything up, and what silence costs.",
)
@click.option(
    "--half", is_flag=True, help="Index every other document; questions about the rest are off-topic."
)
def evaluate(
    folder: Path, as_json: bool, field: str | None, off_topic: Path | None, half: bool, **options: Any
) -> None:
    """Measure recall on FOLDER, a corpus with judged questions in BEIR layout.

    With --off-topic, FOLDER may also be a vault of plain notes.
    """
    from recall_worker.commands.evaluate import run_eval

    run_eval(folder, read_config(**options), as_json=as_json, field=field, off_topic=off_topic, half=half)


def worker_main() -> None:
    """Entry point of `recall-worker`: run in the foreground until told to stop."""

    @click.command(context_settings={"help_option_names": ["-h", "--help"]})
    @config_options
    def run(**options: Any) -> None:
        """Keep snapshots and indexes up to date and answer hooks, in the foreground, until told to stop."""
        # Before numpy loads: two threads wait for each other while another process holds one of two cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from recall_worker.daemon import serve

        try:
            serve(read_config(**options))
        except RecallError as error:
            click.echo(f"recall-worker: {error}", err=True)
            sys.exit(error.exit_code)

    run(prog_name="recall-worker")
