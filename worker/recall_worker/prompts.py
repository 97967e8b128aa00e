"""Prompts: from what the client sends to the text that is worth searching for.

Flow:  stdin of the hook → [prompt] → search → digest
In:    the client's JSON object.   Out: session, prompt text, or a reason to stay silent.
Never: a prompt on disk or in a log.
Next:  worker/recall_worker/answer.py
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import orjson
import regex

SHORT_TERMS: Final = 3
"""A prompt with fewer informative terms borrows the session's previous one."""

REMEMBERED_SESSIONS: Final = 256

MACHINE_MADE: Final = regex.compile(
    r"<(?:task-notification|command-name|command-message|command-args|local-command-(?:caveat|stdout|stderr)"
    r"|bash-(?:input|stdout|stderr)|system-reminder|user-prompt-submit-hook|ide_(?:selection|opened_file))\b",
    regex.IGNORECASE,
)
"""Tags that the client itself puts at the head of a prompt nobody typed."""

CLIENT_COMMANDS: Final = frozenset(
    [
        "add-dir",
        "agents",
        "bashes",
        "bug",
        "clear",
        "compact",
        "config",
        "context",
        "cost",
        "doctor",
        "effort",
        "exit",
        "export",
        "fast",
        "feedback",
        "help",
        "hooks",
        "ide",
        "init",
        "install-github-app",
        "login",
        "logout",
        "mcp",
        "memory",
        "model",
        "output-style",
        "permissions",
        "plan",
        "plugin",
        "privacy-settings",
        "quit",
        "release-notes",
        "rename",
        "resume",
        "rewind",
        "sandbox",
        "status",
        "statusline",
        "tasks",
        "terminal-setup",
        "theme",
        "todos",
        "upgrade",
        "usage",
        "vim",
    ]
)
"""Slash commands that the client handles itself: nothing to recall for them."""

SLASH_COMMAND: Final = regex.compile(r"/([\w:.-]+)(?:\s+|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPrompt:
    """What a hook's stdin says.

    Attributes:
        session_id: Empty if the client names none.
        prompt_id: Empty if the client names none; two hooks on one prompt share it.
        cwd: Empty if not said.
        text: The prompt as typed.
        source: Of a session-start event: startup, resume, clear, compact, fork; else empty.
    """

    session_id: str
    prompt_id: str
    cwd: str
    text: str
    source: str


def parse_client_prompt(body: bytes) -> ClientPrompt | None:
    """Read the hook's stdin; unknown fields are welcome, only a prompt is needed.

    Returns:
        None for anything that is not a JSON object.

    Source: Claude Code documentation, hooks reference, UserPromptSubmit and SessionStart input.
    """
    fields = _parse_object(body)
    if fields is None:
        return None

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    return ClientPrompt(
        session_id=text("session_id"),
        prompt_id=text("prompt_id"),
        cwd=text("cwd"),
        text=text("prompt"),
        source=text("source"),
    )


def searchable(prompt: str) -> str:
    """The part of a prompt that a person meant; empty when there is nothing to recall for.

    A custom command is searched by its arguments, the client's own commands and machine-made prompts by nothing.
    """
    text = prompt.strip()
    if MACHINE_MADE.match(text):
        return ""
    command = SLASH_COMMAND.match(text)
    if command is None:
        return text
    return "" if command[1].lower() in CLIENT_COMMANDS else text[command.end() :].strip()


class PreviousPrompts:
    """The last prompt of each session, in memory only, so that "yes, do it" is searched by what it answers."""

    def __init__(self, capacity: int = REMEMBERED_SESSIONS) -> None:
        """Remember at most `capacity` sessions, the least recent forgotten first."""
        self._capacity = capacity
        self._by_session: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        """Sessions remembered."""
        return len(self._by_session)

    def complete(self, session_id: str, text: str, *, informative_terms: int) -> str:
        """The text to search: the prompt, and before a short one what the session said last."""
        if not session_id or not text:
            return text
        before = self._by_session.get(session_id, "")
        if informative_terms >= SHORT_TERMS or not before:
            self._remember(session_id, text)
            return text
        # A short prompt does not replace what it stands on: "yes" then "and now?" both lean on the same sentence.
        return f"{text}\n{before}"

    def _remember(self, session_id: str, text: str) -> None:
        self._by_session[session_id] = text[:4_000]
        self._by_session.move_to_end(session_id)
        while len(self._by_session) > self._capacity:
            self._by_session.popitem(last=False)


def _parse_object(body: bytes) -> dict[str, Any] | None:
    """JSON in UTF-8; a prompt with a lone surrogate or a stray byte is repaired rather than refused."""
    for data in (body, body.decode("utf-8", "replace").encode()):
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        return fields if isinstance(fields, dict) else None
    return _parse_lenient(body)


def _parse_lenient(body: bytes) -> dict[str, Any] | None:
    """The standard library's parser accepts the escaped lone surrogates that orjson refuses."""
    import json

    try:
        fields = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    return {
        key: value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if isinstance(value, str)
        else value
        for key, value in fields.items()
    }
