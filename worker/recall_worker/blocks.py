"""Blocks: the digest as message parts, for people who call a model themselves.

Flow:  snapshot + slot 4 → [blocks] → somebody's own request to a model
In:    the text of slots 1 to 3 and of slot 4.   Out: parts in each vendor's shape, what changes least first.
Never: a network call; a byte more or less than the digest, when the parts' texts are joined.
Next:  docs/caching.md

One part holds what hardly ever changes (profile and prohibitions), then each recent record has a part of its own:
some vendors match whole parts, so a lesson that is appended leaves all parts before it cached. Slot 4 is another one
at every prompt and belongs into the user's message: in the system prompt it would undo the cache of all messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict

import regex

from recall_worker.snapshot import RULES_HEADING, Snapshot
from recall_worker.state_digest import read_digest
from recall_worker.window import RECENT_HEADING

CacheLife = Literal["5m", "1h"]

_RECENT: Final = f"\n\n{RECENT_HEADING}\n"
_RULES: Final = f"\n\n{RULES_HEADING}\n"
_RECORD_START: Final = regex.compile(r"\n(?:\n## [^\n]*\n)?- \(\d{4}-\d\d-\d\d\) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A digest, cut where its parts change at different times. Joined they are the digest, byte for byte.

    Attributes:
        stable: The digest's first line, profile and prohibitions; empty if there is no snapshot.
        recent: One for each record of slot 3, each with the newline before it; the first brings the heading.
        relevant: Slot 4 with the blank line before it; empty if nothing is close.
        missing: Why slot 4 could not be had, a sentence for people; empty if nothing is missing.
    """

    stable: str
    recent: tuple[str, ...] = ()
    relevant: str = ""
    missing: str = ""

    @property
    def snapshot(self) -> str:
        """Slots 1 to 3."""
        return self.stable + "".join(self.recent)

    @property
    def text(self) -> str:
        """The whole digest."""
        return self.snapshot + self.relevant

    def since(self, held: Parts) -> str:
        """What a conversation that holds an earlier snapshot lacks of this one.

        Returns:
            Nothing if it is the same, what was appended if it only grew, else all of it.
        """
        then, now = held.snapshot, self.snapshot
        return now.removeprefix(then) if now.startswith(then) else now


class CacheControl(TypedDict):
    """Anthropic's breakpoint: cache everything up to and with this block."""

    type: Literal["ephemeral"]
    ttl: NotRequired[CacheLife]


class AnthropicText(TypedDict):
    """A text block of the Messages API."""

    type: Literal["text"]
    text: str
    cache_control: NotRequired[CacheControl]


class AnthropicBlocks(TypedDict):
    """`system` as the request's field of that name; `content` ahead of the prompt in the user's message."""

    system: list[AnthropicText]
    content: list[AnthropicText]


class OpenAIBreakpoint(TypedDict):
    """OpenAI's breakpoint, understood by GPT-5.6 and later."""

    mode: Literal["explicit"]


class OpenAIText(TypedDict):
    """A text part of the Responses API."""

    type: Literal["input_text"]
    text: str
    prompt_cache_breakpoint: NotRequired[OpenAIBreakpoint]


class OpenAIMessage(TypedDict):
    """An item of the Responses API's `input`."""

    role: Literal["developer"]
    content: list[OpenAIText]


class OpenAIBlocks(TypedDict):
    """`prompt_cache_key` and `input` as the request's fields; `content` ahead of the prompt in the user's message."""

    prompt_cache_key: str
    input: list[OpenAIMessage]
    content: list[OpenAIText]


class GeminiText(TypedDict):
    """A text part of generateContent."""

    text: str


class GeminiContent(TypedDict):
    """What Gemini calls content: a list of parts."""

    parts: list[GeminiText]


class GeminiBlocks(TypedDict):
    """`system_instruction` as the request's field, absent without a snapshot; `parts` ahead of the prompt."""

    system_instruction: NotRequired[GeminiContent]
    parts: list[GeminiText]


def split_digest(snapshot: Snapshot | str, relevant: str = "") -> Parts:
    """Cut a digest into the parts that change at different times.

    Args:
        snapshot: Slots 1 to 3, or their text.
        relevant: Slot 4 as the digest shows it, its separator in front.

    Returns:
        Parts whose `text` is the digest.
    """
    text = snapshot if isinstance(snapshot, str) else snapshot.text
    start = text.rfind(_RECENT)
    # A profile may quote a digest, this heading and all. Slot 3 is the last: nothing but records stands behind it.
    starts = [] if start < 0 else [match.start() for match in _RECORD_START.finditer(text, start)]
    headings = sum(text.startswith("\n\n", begin) for begin in starts)
    if start not in starts or text.count("\n\n", start) != headings or _RULES in text[start:]:
        return Parts(stable=text, relevant=relevant)
    ends = [*starts[1:], len(text)]
    recent = tuple(text[begin:end] for begin, end in zip(starts, ends, strict=True))
    return Parts(stable=text[:start], recent=recent, relevant=relevant)


def read_parts(
    state_dir: Path, *, prompt: str | None = None, directory: Path | None = None, timeout_s: float = 3.0
) -> Parts:
    """Read the digest of a state folder, with slot 4 of a running worker.

    Args:
        state_dir: As `recall status` names it.
        prompt: What slot 4 shall be close to; None leaves it out.
        directory: Where the prompt is typed: picks the project. None is everywhere.
        timeout_s: How long the worker may take, seconds.

    Returns:
        The parts. Without a worker that answers they are the snapshot alone, and `missing` says why.
    """
    digest = read_digest(state_dir, prompt=prompt, directory=directory, timeout_s=timeout_s)
    parts = split_digest(digest.snapshot, digest.relevant)
    return Parts(stable=parts.stable, recent=parts.recent, relevant=parts.relevant, missing=digest.missing)


def anthropic_blocks(parts: Parts, *, ttl: CacheLife = "5m") -> AnthropicBlocks:
    """Parts for Anthropic's Messages API.

    Two of the four breakpoints that a request may have are used: one after profile and prohibitions, one on the
    last recent record. A later request looks back 20 blocks from each, so it finds the record that was last before.

    Args:
        ttl: How long the cache lives after each use; an hour costs 2 × the input price to write, five minutes 1.25 ×.

    Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    mark: CacheControl = {"type": "ephemeral"}
    if ttl != "5m":
        mark["ttl"] = ttl
    system: list[AnthropicText] = [{"type": "text", "text": text} for text in _steady(parts)]
    for place in _breakpoints(parts):
        system[place]["cache_control"] = mark.copy()
    return {
        "system": system,
        "content": [{"type": "text", "text": parts.relevant}] if parts.relevant else [],
    }


def openai_blocks(parts: Parts, *, cache_key: str | None = None, breakpoints: bool = False) -> OpenAIBlocks:
    """Parts for OpenAI's Responses API.

    Args:
        cache_key: `prompt_cache_key`: requests with one key and one beginning go to the machine that has it cached.
            By default made from profile and prohibitions, so it changes only when nothing would be cached anyway.
        breakpoints: Say where the cache may end. GPT-5.6 and later match at breakpoints only and need it, since
            their own one stands behind slot 4; earlier models match any beginning and refuse the field.

    Source: https://developers.openai.com/api/docs/guides/prompt-caching
    """
    texts: list[OpenAIText] = [{"type": "input_text", "text": text} for text in _steady(parts)]
    if breakpoints:
        for place in _breakpoints(parts):
            texts[place]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    sha256 = hashlib.sha256(parts.stable.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "prompt_cache_key": cache_key or f"recall-{sha256[:16]}",
        "input": [{"role": "developer", "content": texts}] if texts else [],
        "content": [{"type": "input_text", "text": parts.relevant}] if parts.relevant else [],
    }


def gemini_blocks(parts: Parts) -> GeminiBlocks:
    """Parts for Gemini's generateContent, which caches by itself and takes no breakpoint.

    Source: https://ai.google.dev/gemini-api/docs/caching, https://ai.google.dev/api/generate-content
    """
    blocks: GeminiBlocks = {"parts": [{"text": parts.relevant}] if parts.relevant else []}
    steady: list[GeminiText] = [{"text": text} for text in _steady(parts)]
    return {"system_instruction": {"parts": steady}, **blocks} if steady else blocks


BLOCKS: Final[Mapping[str, Callable[[Parts], Any]]] = {
    "anthropic": anthropic_blocks,
    "openai": openai_blocks,
    "gemini": gemini_blocks,
}
"""What makes the parts of each vendor, by the name that `recall digest --format` takes."""


def _steady(parts: Parts) -> list[str]:
    """The parts that do not depend on the prompt; vendors refuse an empty one."""
    return [text for text in (parts.stable, *parts.recent) if text]


def _breakpoints(parts: Parts) -> list[int]:
    """Places among the steady parts after which the cache may end: the stable one, and the last."""
    last = len(_steady(parts)) - 1
    return sorted({0, last}) if last >= 0 else []
