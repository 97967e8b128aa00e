"""Prompts: from what the client sends to the text that is worth searching for.

Flow:  stdin of the hook → [prompt] → search → digest
In:    the client's JSON object.   Out: session, prompt text, or a reason to stay silent.
Never: a prompt on disk or in a log.
Next:  worker/recall_worker/asking.py
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import orjson
import regex

from recall_worker.own_digest import without_digest

REMEMBERED_SESSIONS: Final = 256
REMEMBERED_PROMPTS: Final = 3
"""Prompts of a session that a short one may stand on."""

MOST_REMEMBERED: Final = 1_000
"""Characters of each."""

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

CLIENT_NOTE: Final = regex.compile(
    r"\s*<(system-reminder|ide_selection|ide_opened_file)\b[^>]*>.*?</\1>", regex.IGNORECASE | regex.DOTALL
)
"""What the client puts ahead of a prompt that somebody did type."""

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
    text = without_digest(_typed(prompt))  # what we said ourselves would find itself
    command = SLASH_COMMAND.match(text)
    if MACHINE_MADE.match(text) or (command is not None and _is_clients(command)):
        return ""
    return text if command is None else text[command.end() :].strip()


def is_for_nobody(prompt: str) -> bool:
    """True where no person asks the model anything: the client's own commands and machine-made prompts."""
    text = _typed(prompt)
    command = SLASH_COMMAND.match(text)
    if not text:
        return bool(prompt.strip())
    return MACHINE_MADE.match(text) is not None or (command is not None and _is_clients(command))


def _typed(prompt: str) -> str:
    """The prompt without the notes that the client put ahead of it."""
    text = prompt
    while note := CLIENT_NOTE.match(text):
        text = text[note.end() :]
    return text.strip()


def _is_clients(command: regex.Match[str]) -> bool:
    return command[1].lower() in CLIENT_COMMANDS


class EarlierPrompts:
    """The last prompts of each session, in memory only, so that "yes, do it" is searched by what it answers.

    Only prompts with a topic are kept: "yes" and then "and now?" both stand on the sentence before them.
    """

    def __init__(self, capacity: int = REMEMBERED_SESSIONS) -> None:
        """Remember at most `capacity` sessions, the least recent forgotten first."""
        self._capacity = capacity
        self._by_session: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def __len__(self) -> int:
        """Sessions remembered."""
        return len(self._by_session)

    def of(self, session_id: str) -> tuple[str, ...]:
        """What the session said, latest first."""
        return self._by_session.get(session_id, ())

    def remember(self, session_id: str, text: str) -> None:
        """Add a prompt that has a topic; a session without an id has no memory."""
        if not session_id or not text:
            return
        others = [earlier for earlier in self.of(session_id) if earlier != text]
        self._by_session[session_id] = (text[:MOST_REMEMBERED], *others[: REMEMBERED_PROMPTS - 1])
        self._by_session.move_to_end(session_id)
        while len(self._by_session) > self._capacity:
            self._by_session.popitem(last=False)

    def forget(self, session_id: str) -> None:
        """Forget a session that was cleared."""
        self._by_session.pop(session_id, None)


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
