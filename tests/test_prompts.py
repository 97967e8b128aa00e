"""Prompts: what is worth searching in what the client sends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.prompts import PreviousPrompts, parse_client_prompt, searchable


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


def test_a_short_prompt_leans_on_the_one_before() -> None:
    """ "yes, do it" twice in a row still means the sentence before; other sessions do not mix in."""
    previous = PreviousPrompts(capacity=2)
    previous.complete("s", "drop the old migration table", informative_terms=4)
    assert previous.complete("s", "yes", informative_terms=0) == "yes\ndrop the old migration table"
    assert previous.complete("s", "do it", informative_terms=0) == "do it\ndrop the old migration table"
    assert previous.complete("t", "yes", informative_terms=0) == "yes"


def test_sessions_are_forgotten_in_order() -> None:
    """Memory stays bounded."""
    previous = PreviousPrompts(capacity=2)
    for name in "abc":
        previous.complete(name, f"a long enough prompt of {name}", informative_terms=5)
    assert len(previous) == 2
    assert previous.complete("a", "yes", informative_terms=0) == "yes"
