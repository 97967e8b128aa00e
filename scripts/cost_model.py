"""Cost model: what a request's blocks cost under the prompt-cache rules that vendors publish.

Flow:  sessions → [cost model] → bench cost → docs/caching.md
In:    requests, each a list of blocks, with the time they are sent.   Out: tokens written, read, uncached; a price.
Never: a network call, a clock; money in a currency (prices are multiples of a model's input price).
Next:  scripts/bench_cost.py

Two kinds of cache cover the vendors:
    BreakpointCache   whole blocks: an entry is kept at each breakpoint and found again at a block's end
    PrefixCache       token by token: the longest beginning shared with a recent request, in steps
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import regex

_TOKEN: Final = regex.compile(r"\s?\p{Latin}{1,6}|\s?\d{1,3}|\s?[\p{Thai}\p{M}]{1,2}|\s+|.", regex.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one vendor's cache works and what it charges.

    Attributes:
        vendor: Name, with the models it holds for.
        minimum_tokens: A shorter beginning is not cached.
        write: Price of a token that is written to the cache, as a multiple of the input price.
        read: Price of one that is read from it.
        life_s: Seconds that an entry lives after it was last used.
        look_back: Blocks searched for an entry, from each breakpoint backwards and with it; 0 is without limit.
        breakpoints: Most of them in one request; 0 where the cache matches any beginning.
        step_tokens: Length of a hit is a multiple of this.
        implicit: True if the vendor puts a breakpoint of its own on the last block.
        source: Page that states it.
    """

    vendor: str
    minimum_tokens: int
    write: float
    read: float
    life_s: float
    look_back: int = 0
    breakpoints: int = 0
    step_tokens: int = 1
    implicit: bool = False
    source: str


_ANTHROPIC: Final = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_OPENAI: Final = "https://developers.openai.com/api/docs/guides/prompt-caching"
_GEMINI: Final = "https://ai.google.dev/gemini-api/docs/caching"

RULES: Final[Mapping[str, Rules]] = {
    "anthropic": Rules(
        vendor="Anthropic, minimum as for Claude Sonnet 5, five minutes",
        minimum_tokens=1_024, write=1.25, read=0.1, life_s=300, look_back=20, breakpoints=4,
        source=_ANTHROPIC,
    ),
    "anthropic-1h": Rules(
        vendor="Anthropic, minimum as for Claude Sonnet 5, one hour",
        minimum_tokens=1_024, write=2.0, read=0.1, life_s=3_600, look_back=20, breakpoints=4,
        source=_ANTHROPIC,
    ),
    "anthropic-4096": Rules(
        vendor="Anthropic, minimum as for Claude Haiku 4.5, five minutes",
        minimum_tokens=4_096, write=1.25, read=0.1, life_s=300, look_back=20, breakpoints=4,
        source=_ANTHROPIC,
    ),
    # The page gives 5 to 10 minutes without use; the shorter is taken. Writing costs nothing extra.
    "openai": Rules(
        vendor="OpenAI before GPT-5.6", minimum_tokens=1_024, write=1.0, read=0.1, life_s=300, step_tokens=128,
        source=_OPENAI,
    ),
    # Matched at breakpoints, without a limit to looking back; one of the four is the vendor's own, on the last block.
    "openai-5.6": Rules(
        vendor="OpenAI, GPT-5.6 and later", minimum_tokens=1_024, write=1.25, read=0.1, life_s=1_800,
        breakpoints=4, implicit=True, source=_OPENAI,
    ),
    # No life is published and no hit is promised: five minutes are assumed, and every shared beginning hits.
    "gemini": Rules(
        vendor="Gemini 2.5, implicit", minimum_tokens=2_048, write=1.0, read=0.1, life_s=300, source=_GEMINI,
    ),
    "gemini-3": Rules(
        vendor="Gemini 3 and later, implicit", minimum_tokens=4_096, write=1.0, read=0.1, life_s=300,
        source=_GEMINI,
    ),
}  # fmt: skip
"""Vendors, as their pages stood in November 2026."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a request: what a vendor compares as one.

    Attributes:
        text: What it says. Blocks of the conversation around the digest are only told apart by it.
        tokens: Its length.
        kind: Whose tokens they are: `snapshot`, `relevant`, `digest` (both in one block) or `other`.
        breakpoint: True if the request asks for the cache to end here.
    """

    text: str
    tokens: int
    kind: str = "other"
    breakpoint: bool = False


@dataclass(slots=True, kw_only=True)
class Bill:
    """Tokens by kind, added up over requests."""

    written: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    uncached: Counter[str] = field(default_factory=Counter)

    def add(self, blocks: Sequence[Block], *, hit_tokens: int, written_until: int) -> None:
        """Charge one request.

        Args:
            blocks: All of it.
            hit_tokens: Length of the beginning that was read from the cache.
            written_until: Where the part that was written ends, counted from the request's start.
        """
        start = 0
        for block in blocks:
            read = _overlap(start, block.tokens, 0, hit_tokens)
            written = _overlap(start, block.tokens, hit_tokens, written_until)
            self.read[block.kind] += read
            self.written[block.kind] += written
            self.uncached[block.kind] += block.tokens - read - written
            start += block.tokens

    def cost(self, rules: Rules, kinds: Sequence[str]) -> float:
        """Price of these kinds' tokens, in input tokens."""
        return sum(
            rules.write * self.written[kind] + rules.read * self.read[kind] + self.uncached[kind]
            for kind in kinds
        )


class Cache(Protocol):
    """One vendor's cache during a session."""

    bill: Bill

    def send(self, blocks: Sequence[Block], *, at_s: float) -> None:
        """Process a request that is sent at this time, seconds; later ones come later."""


def cache_of(rules: Rules) -> Cache:
    """An empty cache under these rules."""
    return BreakpointCache(rules) if rules.breakpoints else PrefixCache(rules)


class BreakpointCache:
    """Entries are written at breakpoints and found by whole blocks.

    A request reads up to the last block that ends where an earlier request wrote an entry, at most `look_back` blocks
    before one of its own breakpoints; it writes from there to its last breakpoint; what follows costs the input price.
    Every entry that it passes at a breakpoint lives on.

    Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """

    def __init__(self, rules: Rules) -> None:
        """Start empty."""
        self.bill = Bill()
        self._rules = rules
        self._beginnings: dict[tuple[int, str], int] = {}
        self._lives_until: dict[int, float] = {}

    def send(self, blocks: Sequence[Block], *, at_s: float) -> None:
        """Process a request.

        Raises:
            ValueError: More breakpoints than the vendor takes.
        """
        marked = {place for place, block in enumerate(blocks) if block.breakpoint}
        if self._rules.implicit:
            marked.add(len(blocks) - 1)
        if len(marked) > self._rules.breakpoints:
            raise ValueError(f"a request takes {self._rules.breakpoints} breakpoints, got {len(marked)}")
        names, ends = self._beginnings_of(blocks)
        hit = -1
        for place in marked:
            first = max(0, place + 1 - self._rules.look_back) if self._rules.look_back else 0
            alive = (i for i in range(place, first - 1, -1) if self._lives_until.get(names[i], -1) >= at_s)
            hit = max(hit, next(alive, -1))
        kept = [place for place in marked if ends[place] >= self._rules.minimum_tokens]
        for place in kept + [hit] * (hit >= 0):
            self._lives_until[names[place]] = at_s + self._rules.life_s
        self.bill.add(
            blocks,
            hit_tokens=ends[hit] if hit >= 0 else 0,
            written_until=max((ends[place] for place in kept), default=0),
        )

    def _beginnings_of(self, blocks: Sequence[Block]) -> tuple[list[int], list[int]]:
        """A number for each beginning, the same whenever it is sent again, and where it ends, tokens."""
        names, ends, name, end = [], [], 0, 0
        for block in blocks:
            name = self._beginnings.setdefault((name, block.text), len(self._beginnings) + 1)
            end += block.tokens
            names.append(name)
            ends.append(end)
        return names, ends


@dataclass(slots=True)
class _Node:
    """A block that was sent after certain others."""

    used_s: float = float("-inf")
    after: dict[str, _Node] = field(default_factory=dict)


class PrefixCache:
    """The longest beginning that a recent request shares, token by token, rounded down to a step.

    Source: https://developers.openai.com/api/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching
    """

    def __init__(self, rules: Rules) -> None:
        """Start empty."""
        self.bill = Bill()
        self._rules = rules
        self._root = _Node()

    def send(self, blocks: Sequence[Block], *, at_s: float) -> None:
        """Process a request."""
        shared, node, together = 0, self._root, True
        for block in blocks:
            if together:
                recent = {text: then for text, then in node.after.items() if self._is_alive(then, at_s)}
                together = block.text in recent
                shared += block.tokens if together else _most_shared(block, recent)
            node = node.after.setdefault(block.text, _Node())
            node.used_s = at_s
        hit = shared - shared % self._rules.step_tokens if shared >= self._rules.minimum_tokens else 0
        self.bill.add(blocks, hit_tokens=hit, written_until=0)

    def _is_alive(self, node: _Node, at_s: float) -> bool:
        return at_s - node.used_s <= self._rules.life_s


@lru_cache(4_096)
def count_tokens(text: str) -> int:
    """Tokens of a text, estimated: no vendor's tokenizer runs without a network.

    Up to six Latin letters, three digits, two Thai characters, one of anything else; a space belongs to what follows.
    English prose comes to about four characters a token, which is what vendors state.
    """
    return len(_tokens(text))


@lru_cache(512)
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text))


def _most_shared(block: Block, others: Mapping[str, _Node]) -> int:
    """Tokens at the block's start that one of the others begins with, too."""
    if block.kind == "other" or not others:
        return 0
    return max(_shared(block.text, text) for text in others)


@lru_cache(65_536)
def _shared(one: str, other: str) -> int:
    """Tokens that two texts begin with."""
    first, second = _tokens(one), _tokens(other)
    pairs = zip(first, second, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _overlap(start: int, length: int, first: int, until: int) -> int:
    """Tokens of a stretch that lie between two others."""
    return max(0, min(start + length, until) - max(start, first))
