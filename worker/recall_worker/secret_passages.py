"""Secret passages: withhold what holds a key, token or password, and say where it stands.

Flow:  vault → withheld → [secret passages] → notes → records → ledger
In:    the lines of a note, or of one record.   Out: the same lines, emptied where a secret is near.
Never: a secret in a record, a title, a key, a tag or a message; a passage without a secret lost for one.
Next:  worker/recall_worker/notes.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from recall_worker.markdown import Block, Body, Kind, parse_blocks
from recall_worker.passages import passage_lines
from recall_worker.records import Problem
from recall_worker.secret_patterns import find_secrets
from recall_worker.sections import Part

_GONE: Final = "…"
# The mark that detect-secrets taught people to put on such a line.
_ALLOWED: Final = re.compile(r"pragma:\s*(?:allow|white)list\s+secret", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """Lines without their secrets, or the knowledge of where those are.

    Attributes:
        body: The lines; what was withheld is blank.
        lines: Lines of the file that hold a secret which `body` still has.
        problems: One for each secret found, in the order of lines.
    """

    body: Body
    lines: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = field(default=())


def allowed_lines(body: Body) -> frozenset[int]:
    """Lines of the file on which a person wrote that the secret there is none."""
    if not _ALLOWED.search(body.text):
        return frozenset()
    pairs = zip(body.lines, body.numbers, strict=True)
    return frozenset(number for line, number in pairs if _ALLOWED.search(line))


def withhold_keys(path: str, body: Body) -> Guarded:
    """Empty the lines of a front matter that hold a secret.

    Args:
        path: Vault-relative path, for the problems.
        body: The lines between the fences.

    Returns:
        The rest.
    """
    found = _find(body, allowed_lines(body))
    problems = tuple(
        _problem(path, body.numbers[index], kind, "line of the front matter")
        for index, (kind, is_first) in found.items()
        if is_first
    )
    return Guarded(body=_replaced(body, dict.fromkeys(found, "")), problems=problems)


def find_in_note(path: str, body: Body, *, allowed: frozenset[int]) -> Guarded:
    """Find the secrets of a note, and withhold the words of headings among them.

    A heading stands above many passages, and in their keys: it becomes "…", and they stay where they are.

    Args:
        path: Vault-relative path, for the problems.
        body: The lines below the front matter, comments left out.
        allowed: Lines of the file that a person vouched for.

    Returns:
        The lines, and which of them `withhold_passages` must deal with.
    """
    found = _find(body, allowed)
    if not found:
        return Guarded(body=body)
    headings: dict[int, str] = {}
    for block in _walk(parse_blocks(body)):
        if block.kind is Kind.HEADING and not found.keys().isdisjoint(range(block.start, block.stop)):
            headings |= dict.fromkeys(range(block.start, block.stop), "")
            headings[block.start] = f"{'#' * block.level} {_GONE}"
    problems = (
        _problem(path, body.numbers[index], kind, "heading" if index in headings else "passage")
        for index, (kind, is_first) in found.items()
        if is_first
    )
    lines = frozenset(body.numbers[index] for index in found if index not in headings)
    return Guarded(body=_replaced(body, headings), lines=lines, problems=tuple(problems))


def withhold_passages(parts: Sequence[Part], lines: frozenset[int]) -> list[Part]:
    """Empty every passage that one of these lines belongs to.

    A fenced block goes whole, so that none is left half open. A list item that is a record of its own goes
    whole, too: it is named by its words. So does a record of which nothing is left.

    Args:
        parts: The records of a note.
        lines: Lines of the file that hold a secret.

    Returns:
        What is left of them.
    """
    if not lines:
        return list(parts)
    return [left for part in parts if (left := _without(part, lines))]


def _without(part: Part, lines: frozenset[int]) -> Part | None:
    body = part.body
    held = {index for index, number in enumerate(body.numbers) if number in lines}
    if not held:
        return part
    if part.anchor and not part.heading:
        return None
    for start, stop in passage_lines(body, headings=part.headings):
        if not held.isdisjoint(range(start, stop)):
            held |= set(range(start, stop))
    for block in _walk(parse_blocks(body)):
        if block.kind is Kind.FENCE and not held.isdisjoint(range(block.start, block.stop)):
            held |= set(range(block.start, block.stop))
    left = _replaced(body, dict.fromkeys(held, ""))
    return replace(part, body=left) if left.text.strip() else None


def _find(body: Body, allowed: frozenset[int]) -> Mapping[int, tuple[str, bool]]:
    """Index of every line with a secret → its kind, and whether the secret begins there."""
    found: dict[int, tuple[str, bool]] = {}
    for secret in find_secrets(body.lines):
        if body.numbers[secret.first] not in allowed:
            for index in range(secret.first, secret.last + 1):
                found.setdefault(index, (secret.kind, index == secret.first))
    return dict(sorted(found.items()))


def _walk(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from _walk(block.children)


def _replaced(body: Body, lines: Mapping[int, str]) -> Body:
    return replace(body, lines=tuple(lines.get(index, line) for index, line in enumerate(body.lines)))


def _problem(path: str, line: int, kind: str, what: str) -> Problem:
    """Names the kind and the place, and how to say that it is none; never the value."""
    message = (
        f"This looks like a secret ({kind}). Withheld the {what}: it is in no index and no digest. "
        "Move the secret out of the note, or write `pragma: allowlist secret` on its line if it is none."
    )
    return Problem(path=path, line=line, message=message, fatal=False)
