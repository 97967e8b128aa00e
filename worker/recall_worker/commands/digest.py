"""`recall digest`: the digest as text, or as message parts for a request of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click
import orjson

from recall_worker.blocks import BLOCKS, Parts, openai_blocks, read_parts
from recall_worker.config import Config

STDIN: Final = "-"


def show_digest(
    config: Config,
    *,
    form: str,
    prompt: str | None,
    directory: Path,
    openai_breakpoints: bool,
    timeout_s: float,
) -> None:
    """Print the digest on stdout, and on stderr what is missing from it.

    Args:
        form: `text`, or a vendor's name as in `BLOCKS`.
        prompt: What slot 4 shall be close to; `-` reads it from stdin, None leaves slot 4 out.
        directory: Where the prompt is typed.
        openai_breakpoints: Mark where OpenAI's cache may end.
        timeout_s: How long the worker may take, seconds.
    """
    if prompt == STDIN:
        prompt = sys.stdin.buffer.read().decode("utf-8", "replace") if sys.stdin else ""
    parts = read_parts(config.state_dir, prompt=prompt, directory=directory, timeout_s=timeout_s)
    if not parts.stable and not (config.state_dir / "snapshots").is_dir():
        click.echo(f"{config.state_dir}: nothing is published here yet. `recall start` does it.", err=True)
    if parts.missing:
        click.echo(f"Slot 4 is missing: {parts.missing}", err=True)
    if form == "text":
        # For a program the digest is these bytes and no newline; a person's terminal wants one.
        click.echo(parts.text.encode("utf-8", "replace"), nl=sys.stdout is not None and sys.stdout.isatty())
    else:
        click.echo(orjson.dumps(_blocks(parts, form, openai_breakpoints), option=orjson.OPT_INDENT_2))


def _blocks(parts: Parts, form: str, openai_breakpoints: bool) -> object:
    return openai_blocks(parts, breakpoints=True) if openai_breakpoints else BLOCKS[form](parts)
