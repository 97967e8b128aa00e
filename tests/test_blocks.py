"""Blocks: joined they are the digest, cut they change one at a time, and each vendor gets its own shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.blocks import (
    BLOCKS,
    Parts,
    anthropic_blocks,
    gemini_blocks,
    openai_blocks,
    split_digest,
)
from recall_worker.config import Budget
from recall_worker.digest import HEADING
from recall_worker.records import Record
from recall_worker.snapshot import FIRST_LINE, RULES_HEADING, render
from recall_worker.window import RECENT_HEADING, advance
from test_snapshot import budgets, golden_records, many, record, rendered, vaults

RELEVANT = f"\n\n{HEADING}\n- (2026-03-01) Take a dump first: it was missing once."


def texts_of(value: object) -> list[str]:
    """Every `text` of a vendor's blocks, in the order of the JSON document."""
    if isinstance(value, Mapping):
        return [
            text for key, inner in value.items() for text in ([inner] if key == "text" else texts_of(inner))
        ]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text for inner in value for text in texts_of(inner)]
    return []


@given(vaults(), budgets, st.sampled_from(["", RELEVANT]))
def test_joined_parts_are_the_digest(records: list[Record], budget: Budget, relevant: str) -> None:
    """Whatever the vault holds, no byte is lost or added, and each recent record has a part of its own."""
    snapshot = rendered(records, budget)
    parts = split_digest(snapshot, relevant)
    assert parts.text == snapshot.text + relevant
    recent = [shown.text for shown in snapshot.shown if shown.slot == 3]
    assert [text.endswith(said) for text, said in zip(parts.recent, recent, strict=True)] == [True] * len(
        recent
    )
    for form in BLOCKS:
        blocks = json.loads(json.dumps(BLOCKS[form](parts)))
        assert "".join(texts_of(blocks)) == snapshot.text + relevant
        assert "" not in texts_of(blocks)


def test_an_appended_record_leaves_the_parts_before_it() -> None:
    """Between two strides a new lesson is one more part, and every part before it is the same."""
    budget, window, seen = Budget(), (), []
    for count in range(1, 40):
        step = advance(window, many(count, "A lesson."), budget)
        seen.append((step.reason, split_digest(render(many(count, "A lesson."), step.window, budget))))
        window = step.window
    appended = [(old, new) for (_, old), (reason, new) in pairwise(seen) if reason == "append"]
    assert len(appended) > 20
    assert all((new.stable, new.recent[:-1]) == (old.stable, old.recent) for old, new in appended)


def test_text_alone_is_split_like_the_snapshot() -> None:
    """What a state folder gives, which is text, is cut in the same places."""
    snapshot = rendered(golden_records())
    assert split_digest(snapshot.text) == split_digest(snapshot)
    assert len(split_digest(snapshot).recent) > 3


@pytest.mark.parametrize("with_rules", [True, False])
@pytest.mark.parametrize("with_recent", [True, False])
def test_a_profile_that_quotes_a_digest(with_rules: bool, with_recent: bool) -> None:
    """A profile with a whole digest in it does not shift the cut to the wrong heading."""
    quoted = f"{FIRST_LINE}\n\n{RECENT_HEADING}\n- (2026-01-01) Old news\n\n{HEADING}\n- (2026-01-01) Older"
    records = [record(1, f"I paste:\n\n{quoted}", kind="profile")]
    records += [record(2, "Never force-push.", high=True)] * with_rules + many(
        2, "New.", start=3
    ) * with_recent
    snapshot = rendered(records)
    parts = split_digest(snapshot, RELEVANT)
    assert parts.text == snapshot.text + RELEVANT
    if with_recent:
        assert [text.rpartition(": ")[2] for text in parts.recent] == ["New.", "New."]
    elif with_rules:
        assert (parts.recent, RULES_HEADING in parts.stable) == ((), True)


def test_a_record_of_emoji() -> None:
    """Ten thousand emoji in a lesson end as one cut part, valid in every shape."""
    parts = split_digest(
        rendered([record(1, "🎉" * 10_000), record(2, "👩‍👩‍👧‍👦" * 10_000, high=True)]), RELEVANT
    )
    assert len(parts.recent) == 1
    for form in BLOCKS:
        assert "".join(texts_of(json.loads(json.dumps(BLOCKS[form](parts))))) == parts.text


def test_anthropic_shape() -> None:
    """Breakpoints after profile and prohibitions and on the last recent record; slot 4 is not cached."""
    parts = Parts(stable="s", recent=("\na", "\nb"), relevant="\n\nr")
    mark = {"type": "ephemeral"}
    assert anthropic_blocks(parts) == {
        "system": [
            {"type": "text", "text": "s", "cache_control": mark},
            {"type": "text", "text": "\na"},
            {"type": "text", "text": "\nb", "cache_control": mark},
        ],
        "content": [{"type": "text", "text": "\n\nr"}],
    }
    hour = anthropic_blocks(parts, ttl="1h")["system"]
    assert [block.get("cache_control") for block in hour] == [
        mark | {"ttl": "1h"},
        None,
        mark | {"ttl": "1h"},
    ]


def test_openai_shape() -> None:
    """A developer message, a key that lasts as long as the stable part, breakpoints only when asked for."""
    parts = Parts(stable="s", recent=("\na", "\nb"), relevant="\n\nr")
    blocks = openai_blocks(parts)
    assert blocks["input"] == [
        {
            "role": "developer",
            "content": [{"type": "input_text", "text": text} for text in ("s", "\na", "\nb")],
        }
    ]
    assert blocks["content"] == [{"type": "input_text", "text": "\n\nr"}]
    appended = openai_blocks(replace(parts, recent=("\na", "\nb", "\nc"), relevant=""))
    assert appended["prompt_cache_key"] == blocks["prompt_cache_key"]
    assert openai_blocks(replace(parts, stable="t"))["prompt_cache_key"] != blocks["prompt_cache_key"]
    assert openai_blocks(parts, cache_key="mine")["prompt_cache_key"] == "mine"
    marked = openai_blocks(parts, breakpoints=True)["input"][0]["content"]
    assert [text.get("prompt_cache_breakpoint") for text in marked] == [
        {"mode": "explicit"},
        None,
        {"mode": "explicit"},
    ]


def test_gemini_shape() -> None:
    """System instruction and parts, without any mark."""
    parts = Parts(stable="s", recent=("\na",), relevant="\n\nr")
    assert gemini_blocks(parts) == {
        "system_instruction": {"parts": [{"text": "s"}, {"text": "\na"}]},
        "parts": [{"text": "\n\nr"}],
    }


def test_empty_vault() -> None:
    """Nothing to show makes no part at all, since vendors refuse empty text."""
    parts = split_digest(rendered([]))
    assert anthropic_blocks(parts) == {"system": [], "content": []}
    assert gemini_blocks(parts) == {"parts": []}
    assert (openai_blocks(parts)["input"], openai_blocks(parts)["content"]) == ([], [])


def test_without_recent_records_one_breakpoint() -> None:
    """The stable part is then the last, too, and is marked once."""
    parts = split_digest(rendered([record(1, "Backend engineer.", kind="profile")]))
    assert [("cache_control" in block) for block in anthropic_blocks(parts)["system"]] == [True]


def test_since() -> None:
    """What a conversation lacks: nothing, the appended records, or everything once something before them changed."""
    held = Parts(stable="s", recent=("\na",), relevant="\n\nr")
    assert held.since(held) == replace(held, relevant="").since(held) == ""
    assert replace(held, recent=("\na", "\nb")).since(held) == "\nb"
    assert replace(held, stable="t").since(held) == "t\na"
    assert held.since(Parts(stable="")) == "s\na"
