"""Prompts: what is worth searching in what the client sends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.prompts import EarlierPrompts, is_for_nobody, parse_client_prompt, searchable


def test_unknown_fields_are_welcome_and_missing_ones_empty() -> None:
    """Only `prompt` is needed; newer clients add fields."""
    prompt = parse_client_prompt(b'{"prompt": "hi", "new_field": [1], "session_id": 7}')
    assert prompt is not None
    assert (prompt.text, prompt.session_id, prompt.cwd) == ("hi", "", "")


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b"null", b'{"prompt": "cut', b"\x00", b"{" * 100_000])
def test_what_is_no_object_is_none(body: bytes) -> None:
    """Garbage on stdin is told apart from an empty prompt."""
    assert parse_client_prompt(body) is None


def test_broken_text_is_repaired() -> None:
    """Invalid UTF-8 and lone surrogates become replacement characters instead of costing the prompt."""
    assert parse_client_prompt(b'{"prompt": "a\xffb"}').text == "a\N{REPLACEMENT CHARACTER}b"  # type: ignore[union-attr]
    assert parse_client_prompt(rb'{"prompt": "a\ud800b"}').text == "a\N{REPLACEMENT CHARACTER}b"  # type: ignore[union-attr]
    assert parse_client_prompt(rb'{"prompt": "\ud83d\ude00"}').text == "😀"  # type: ignore[union-attr]


@given(st.text())
def test_any_prompt_comes_back_whole(text: str) -> None:
    """JSON in, the same text out."""
    clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    parsed = parse_client_prompt(json.dumps({"prompt": text}).encode())
    assert parsed is not None
    assert parsed.text == clean


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("  fix the login  ", "fix the login"),
        ("/review the billing migration", "the billing migration"),
        ("/my-tools:check src/app.py", "src/app.py"),
        ("/clear", ""),
        ("/compact keep the plan", ""),
        ("/usr/bin/env fails", "/usr/bin/env fails"),
        ("<task-notification>done</task-notification>", ""),
        ("<command-name>/clear</command-name>", ""),
        ("why does <div> break?", "why does <div> break?"),
        ("", ""),
    ],
)
def test_what_a_person_meant(prompt: str, text: str) -> None:
    """Custom commands give their arguments, the client's own and machine-made prompts nothing."""
    assert searchable(prompt) == text


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("<ide_opened_file>a.py is open</ide_opened_file>\nfix the login", "fix the login"),
        ("<system-reminder>x</system-reminder> <ide_selection>y</ide_selection>why?", "why?"),
        ("<ide_selection>only this</ide_selection>", ""),
        ("<task-notification>done</task-notification>\nFull output: /tmp/x", ""),
    ],
)
def test_notes_of_the_client_are_not_the_prompt(prompt: str, text: str) -> None:
    """What an editor puts ahead of a typed prompt is left out; a machine-made prompt stays one to its end."""
    assert searchable(prompt) == text


@pytest.mark.parametrize(
    ("prompt", "nobody"),
    [
        ("/clear", True),
        ("/review", False),
        ("/review the billing migration", False),
        ("<command-name>/clear</command-name>", True),
        ("<ide_selection>only this</ide_selection>", True),
        ("", False),
        ("why?", False),
    ],
)
def test_who_asks(prompt: str, nobody: bool) -> None:
    """A custom command without arguments asks the model something, though nothing can be searched by it."""
    assert is_for_nobody(prompt) is nobody


def test_a_session_keeps_its_last_topics() -> None:
    """Latest first, each once, no more than three, of its own session only."""
    earlier = EarlierPrompts()
    for text in ("one", "two", "three", "two", "four"):
        earlier.remember("s", text)
    assert earlier.of("s") == ("four", "two", "three")
    assert earlier.of("t") == ()
    earlier.remember("", "nobody's")
    assert earlier.of("") == ()


def test_sessions_are_forgotten_in_order() -> None:
    """Memory stays bounded."""
    earlier = EarlierPrompts(capacity=2)
    for name in "abc":
        earlier.remember(name, "x" * 5_000)
    assert len(earlier) == 2
    assert earlier.of("a") == ()
    assert len(earlier.of("c")[0]) == 1_000
