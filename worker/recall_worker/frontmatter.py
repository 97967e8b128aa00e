"""Front matter: the YAML between two `---` lines, as text values that know their lines.

Flow:  vault → [front matter] → facts → notes → records → ledger
In:    the lines of a file.   Out: a Header, and the lines below it.
Never: YAML's own ideas of a value (`2026-13-45` raises there, `no` is False, `007` is 7), an alias that
       multiplies, a constructed object.
Next:  worker/recall_worker/facts.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from recall_worker.errors import NoteError
from recall_worker.markdown import Body
from recall_worker.records import Problem

Loader = type[yaml.SafeLoader] | type[yaml.CSafeLoader]
FASTEST_LOADER: Final[Loader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # C is ten times as fast

_MAX_CHARACTERS: Final = 65_536
_MAX_NODES: Final = 10_000
_MAX_DEPTH: Final = 20

# Word processors and phones make a dash of `---`; a person still sees three strokes.
_FENCE: Final = re.compile(r"(?:-{3,}|-*[–—][-–—]*)\s*")
_CLOSING: Final = re.compile(r"(?:-{3,}|-*[–—][-–—]*|\.\.\.)\s*")
_KEY: Final = re.compile(r"\s*[\"']?\w[\w .-]*[\"']?\s*[:：](?:\s|$)")
_CONFLICT: Final = re.compile(r"(?:<{7}|>{7}|\|{7})(?: |$)")

# What looks like a space or a line to YAML but not to a person, or the reverse. One character for one (a
# tab for two spaces), so that lines stay where they are.
_SPACES: Final = (*range(9), *range(11, 32), *range(127, 161), 0x2028, 0x2029, 0x3000, 0xFFFE, 0xFFFF)
_NOTHING: Final = (0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF)
_CLEAN: Final = dict.fromkeys(_SPACES, " ") | {9: "  "} | dict.fromkeys(_NOTHING, "")
_WIDE_COLON: Final = re.compile(r"^(\s*[\w-]+)\s*：\s*", re.MULTILINE)

# Tags with their "#", which would start a comment: `tags: #a #b`, `tags: [#a, #b]`, `- #a`.
_TAGS_LINE: Final = re.compile(
    r"^\s*tags?\s*:[^\n\[]*(?:\[[^\n\]]*)?|^\s*-\s+#", re.MULTILINE | re.IGNORECASE
)
_TAG_MARK: Final = re.compile(r"(?<=[\s\[,])#(?=[^\s#]|$)")

_TELLING_KEY: Final = re.compile(r"[\s>*-]*(?:type|priority|split)[\s*]*(?:::?|：)", re.IGNORECASE)
_OUR_KEY: Final = re.compile(r"\W*(?:type|priority|date|project|tags|split)\s*[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What stands behind a key.

    Attributes:
        items: Every scalar in it as text, nested lists flattened; empty if there is nothing.
        line: 1-based line of the file where its key stands.
    """

    items: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The front matter of a file.

    Attributes:
        values: By key, in small letters and with spaces for `_` and `-`.
        problems: What a person should mend.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def get(self, key: str) -> Value | None:
        """What stands behind a key; None for a key without a value, too."""
        value = self.values.get(key)
        return value if value and value.items else None


def find_front_matter(path: str, body: Body) -> tuple[int, int] | None:
    """Where the front matter stands, by its fences alone.

    Args:
        path: Vault-relative path, for the error.
        body: All lines of the file.

    Returns:
        Index of the line below the opening fence and of the closing one; None if there is no front matter.

    Raises:
        NoteError: It opens, names a key, and never closes.
    """
    opening = next((index for index, line in enumerate(body.lines) if line.strip()), None)
    if opening is None or not _FENCE.fullmatch(body.lines[opening]):
        return None
    named = opening + 1 < len(body.lines) and bool(_KEY.match(body.lines[opening + 1]))
    if not named and (opening > 0 or body.lines[opening].rstrip() != "---"):
        return None
    for index in range(opening + 1, len(body.lines)):
        if _CLOSING.fullmatch(body.lines[index]):
            return opening + 1, index
    if not named:
        return None
    problem = "front matter is never closed"
    raise NoteError(
        path, body.numbers[opening], problem, "Put a line of three hyphens, ---, below its last key."
    )


def parse_front_matter(path: str, body: Body, *, loader: Loader = FASTEST_LOADER) -> Header | None:
    """Read the lines between the fences.

    Tabs, no-break and wide spaces count as spaces, a wide colon after a key as a colon, and the "#" of a tag
    as nothing.

    Args:
        path: Vault-relative path.
        body: The lines between the fences.
        loader: PyYAML's in C, or in Python where that is missing.

    Returns:
        The header; None if these lines are words between two rules rather than keys and values.

    Raises:
        NoteError: Not YAML, or more of it than a person writes; with the line of the file.
    """
    text = _clean(body.text)
    if not text.strip():
        return Header()
    if not any(_KEY.match(line) for line in text.split("\n")):
        return None
    try:
        _check_bounds(path, body, text, loader)
        node = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise _note_error(path, body, error) from None
    return _read_mapping(path, body, text, node) if isinstance(node, yaml.MappingNode) else None


def misplaced_front_matter(path: str, body: Body) -> Problem | None:
    """What looks like front matter among the words: indented, quoted, fenced, twice, below the title, bare.

    Args:
        path: Vault-relative path, for the problem.
        body: What is read as the note's words.

    Returns:
        A problem on its first line, since a type or priority must not be lost without a word.
    """
    written = [index for index, line in enumerate(body.lines) if line.strip()][:3]
    for index in written:
        line, below = body.lines[index], body.lines[index + 1 : index + 2]
        opens = _FENCE.fullmatch(line.strip("> \t")) and below and _OUR_KEY.match(below[0])
        if opens or _TELLING_KEY.match(line):
            message = (
                "These lines look like front matter, but are not where it is read. Read them as text. "
                "Put them at the top of the file, between two lines of ---, without other marks."
            )
            return Problem(path=path, line=body.numbers[index], message=message, fatal=False)
        if not line.lstrip("> \t").startswith(("#", "```", "~~~")):
            break
    return None


def _clean(text: str) -> str:
    """Mend what only looks like YAML to a person; lines stay where they are."""
    text = _WIDE_COLON.sub(r"\1: ", text.translate(_CLEAN))
    return _TAGS_LINE.sub(lambda line: _TAG_MARK.sub("", line[0]), text)


def _check_bounds(path: str, body: Body, text: str, loader: Loader) -> None:
    """Refuse what would take long to read, before it is read.

    Aliases go altogether: a handful of them can stand for billions of values.
    """
    if len(text) > _MAX_CHARACTERS:
        wrong = f"front matter has {len(text):,} characters, more than {_MAX_CHARACTERS:,}"
        raise NoteError(path, body.numbers[0], wrong, "Move the text below the closing ---.")
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = _number(body, event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.AliasEvent):
            wrong, cure = (
                "front matter repeats a value by an alias (*name)",
                "Write the value out, or quote it.",
            )
            raise NoteError(path, line, wrong, cure)
        if depth > _MAX_DEPTH or count > _MAX_NODES:
            raise NoteError(
                path, line, "front matter is nested too deep or too long", "Keep to `key: value` lines."
            )


def _read_mapping(path: str, body: Body, text: str, node: yaml.MappingNode) -> Header:
    """Values by key. Of a key that stands twice the last counts; what `metadata:` holds counts last of all.

    Source: Claude Code 2.1 writes the `type` and `modified` of its memories below `metadata:`.
    """
    values: dict[str, Value] = {}
    nested: dict[str, Value] = {}
    problems: list[Problem] = []
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        key = re.sub(r"[\s_-]+", " ", key_node.value.strip().casefold())
        line = _number(body, key_node.start_mark.line)
        if key in values:
            message = f"`{key}` stands twice. Used this one. Remove the other."
            problems.append(Problem(path=path, line=line, message=message, fatal=False))
        if key == "metadata" and isinstance(value_node, yaml.MappingNode):
            nested = dict(_read_mapping(path, body, text, value_node).values)
        values[key] = Value(items=tuple(_scalars(value_node, text)), line=line)
    return Header(values=nested | values, problems=tuple(problems))


def _scalars(node: yaml.Node, text: str) -> Iterator[str]:
    """Text of every scalar of a value; a mapping comes as it is written."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, text)
    elif isinstance(node, yaml.MappingNode):
        yield text[node.start_mark.index : node.end_mark.index]
    elif node.tag != "tag:yaml.org,2002:null" and node.value.strip():
        yield node.value.strip()


_WHOLE_COLLECTION: Final = ("block mapping", "block collection", "block sequence")
_CURES: Final = {
    "mapping values": "Put the value in quotes, because it holds a colon.",
    "expected ':'": "Write it as `key: value`.",
    "cannot start": "Put the value in quotes, because of the sign it starts with.",
    "alphabetic": "Put the value in quotes, because of the sign it starts with.",
    "quoted scalar": "Close the quotes, or leave them out.",
    "flow": "Close the bracket, or write one item a line.",
    "block": "Indent this line like the ones around it, or put its value in quotes.",
}


def _note_error(path: str, body: Body, error: yaml.YAMLError) -> NoteError:
    """Say what YAML says, on the line where a person can mend it."""
    conflict = next((i for i, line in enumerate(body.lines) if _CONFLICT.match(line)), None)
    if conflict is not None:
        wrong = "front matter holds the marks of a merge conflict"
        return NoteError(path, _number(body, conflict), wrong, "Keep one side and remove the marks.")
    context = getattr(error, "context", None) or ""
    problem = getattr(error, "problem", None) or "a character is not allowed"
    mark = getattr(error, "problem_mark", None)
    if context and not any(name in context for name in _WHOLE_COLLECTION):
        mark = getattr(error, "context_mark", None) or mark  # where it began, not where YAML gave up
    cure = next((cure for sign, cure in _CURES.items() if sign in f"{problem} {context}"), "Correct it.")
    line = _number(body, mark.line if mark else 0)
    return NoteError(path, line, f"front matter is not YAML ({problem})", cure)


def _number(body: Body, index: int) -> int:
    """Line of the file of a line that YAML counts from 0; it may point below the last one."""
    return body.numbers[min(index, len(body.numbers) - 1)] if body.numbers else 1
