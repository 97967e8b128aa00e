"""Facts: what a note's front matter, folder and name say about it.

Flow:  vault → front matter → [facts] → notes → records → ledger
In:    a Header and a path.   Out: Facts, and a problem for everything that had to be guessed.
Never: a value that makes a note unreadable: whatever stands there, there is a sensible reading.
Next:  worker/recall_worker/notes.py
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, TypeVar

from recall_worker.dates import parse_date, split_name
from recall_worker.frontmatter import Header, Value
from recall_worker.records import Problem, RecordType
from recall_worker.text import cut, one_line, tidy

_TITLE_UNITS: Final = 120
_ID_UNITS: Final = 200
_GOT_UNITS: Final = 40

# Claude Code's own names for its memories: what it was told about the person, what it was corrected in,
# what was decided, and where to look.
_AUTO_MEMORY: Final = {
    "user": RecordType.PROFILE,
    "feedback": RecordType.LESSON,
    "project": RecordType.CONCLUSION,
    "reference": RecordType.KNOWLEDGE,
}
_TYPES: Final = {kind.value: kind for kind in RecordType}
_PRIORITIES: Final = {"high": True, "normal": False, "medium": False, "low": False}

_KEYS: Final = ("type", "priority", "date", "project", "tags", "split")
_NEAR: Final = 0.8  # ratio at which a key is taken for a misspelling: "typ", "priorty", "projekt"

_QUOTES: Final = " \t\"'“”‘’«»[]"
_FOLDER_NUMBER: Final = re.compile(r"^[\W\d_]+")
_TAG_GAP: Final = re.compile(r"\s*[,，、;]\s*")
_LINK: Final = re.compile(r"\[\[(?:[^\]|]*/)?(?P<name>[^\]|#]+)[^\]]*\]\]")
_OTHER_DATES: Final = ("created", "created at", "date created", "modified", "updated", "last modified")


class Split(StrEnum):
    """How one file holds several records."""

    HEADINGS = "headings"
    ITEMS = "items"


_SPLIT_WORDS: Final = {"list": Split.ITEMS, "bullets": Split.ITEMS, "sections": Split.HEADINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What holds for every record of a file.

    Attributes:
        type: What kind of records these are.
        high: True for prohibitions.
        date: The day stated for them, or None.
        project: The only project to recall them in, or None.
        id: The stated id, or None.
        tags: From the front matter, without "#", no repeats.
        title: From `title:` or `name:`, else the file's name as words.
        description: From the front matter; stands in for a body that is empty.
        split: How to find several records, or None for one.
        split_line: 1-based line of the file where `split:` stands.
    """

    type: RecordType
    high: bool
    date: dt.date | None
    project: str | None
    id: str | None
    tags: tuple[str, ...]
    title: str
    description: str
    split: Split | None
    split_line: int


Report = Callable[[int, str], None]
"""Takes a line of the file and what a person should know about it."""


def read_facts(path: str, header: Header, *, today: dt.date) -> tuple[Facts, tuple[Problem, ...]]:
    """Settle what a file says about its records.

    The date is `date:`, else one in the file's name, else `created:` or `modified:` as Obsidian's plugins
    and Claude Code's memories write them.

    Args:
        path: Vault-relative POSIX path.
        header: Its front matter, empty if it has none.
        today: The last day that can be meant.

    Returns:
        The facts; and what a person should mend, in the order of lines.
    """
    problems = [*header.problems, *_misspelt(path, header)]

    def report(line: int, message: str) -> None:
        problems.append(Problem(path=path, line=line, message=message, fatal=False))

    named_date, name = split_name(PurePosixPath(path).stem, today=today)
    kind = _type(path, header.get("type"), report)
    facts = Facts(
        type=kind,
        high=_is_high(kind, header.get("priority"), report),
        date=_stated_date(header, named_date, today, report),
        project=_project(header.get("project"), report),
        id=cut(_flat(header.get("id")), _ID_UNITS) or None,
        tags=_tags(header),
        title=cut(_title(header) or name, _TITLE_UNITS),
        description=_flat(header.get("description")),
        split=_split(header.get("split"), report),
        split_line=split.line if (split := header.get("split")) else 1,
    )
    return facts, tuple(sorted(problems, key=lambda problem: problem.line or 0))


def unique_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags in order, each once whatever the size of its letters, as Obsidian has it."""
    first: dict[str, str] = {}
    for tag in tags:
        first.setdefault(tag.casefold(), tag)
    return tuple(first.values())


def _misspelt(path: str, header: Header) -> Iterator[Problem]:
    """Keys that are nearly ours: `priorty: high` must not be lost without a word."""
    for key, value in header.values.items():
        for ours in _KEYS:
            swapped = sorted(key) == sorted(ours)
            near = swapped or difflib.SequenceMatcher(None, key, ours).ratio() >= _NEAR
            if near and key not in (*_KEYS, "tag") and ours not in header.values:
                message = (
                    f"`{cut(key, _GOT_UNITS)}` says nothing to Recall. Left it out. Did you mean `{ours}`?"
                )
                yield Problem(path=path, line=value.line, message=message, fatal=False)


def _type(path: str, value: Value | None, report: Report) -> RecordType:
    """The stated type, else the nearest folder that is called after one, else knowledge."""
    by_folder = _folder_type(path) or RecordType.KNOWLEDGE
    if value is None:
        return by_folder
    word = _word(value)
    found = _find(word, _TYPES | _AUTO_MEMORY)
    if found is None:
        hint = _hint(word, _TYPES)
        report(
            value.line, f"type {_got(value)} is not one of {', '.join(_TYPES)}. Read as {by_folder}. {hint}"
        )
    return found or by_folder


def _folder_type(path: str) -> RecordType | None:
    """Type of the nearest folder named after one: `lessons`, `Lesson`, `03 - Lessons`."""
    for folder in reversed(PurePosixPath(path).parts[:-1]):
        if found := _find(_FOLDER_NUMBER.sub("", folder).strip().casefold(), _TYPES):
            return found
    return None


def _is_high(kind: RecordType, value: Value | None, report: Report) -> bool:
    """Whether the records are prohibitions."""
    if value is None:
        return False
    high = _PRIORITIES.get(_word(value))
    if high is None:
        hint = _hint(_word(value), _PRIORITIES)
        report(value.line, f"priority {_got(value)} is not high or normal. Read as normal. {hint}")
    elif high and kind is not RecordType.LESSON:
        report(
            value.line,
            f"priority high counts for lessons only, and this is {kind}. Read as normal. "
            "Write `type: lesson` if it must stand in every digest, else take the priority out.",
        )
        return False
    return bool(high)


def _stated_date(header: Header, named: dt.date | None, today: dt.date, report: Report) -> dt.date | None:
    """The day that the file states, in front matter or name."""
    if value := header.get("date"):
        try:
            return parse_date(" ".join(value.items), today=today)
        except ValueError as reason:
            instead = "the one in the file's name" if named else "the day the note was first seen"
            report(value.line, f"date {_got(value)} {reason}. Used {instead}. Write it like 2026-11-02.")
            return named
    if named:
        return named
    for key in _OTHER_DATES:
        if value := header.get(key):
            with suppress(ValueError):
                return parse_date(" ".join(value.items), today=today)
    return None


def _project(value: Value | None, report: Report) -> str | None:
    """The one project; of several the first, since a note must not show where nobody asked for it."""
    if value is None:
        return None
    names = [name for item in value.items if (name := _link_text(item))]
    if len(names) > 1:
        report(
            value.line, "project names several projects. Used the first. Keep one, or none for everywhere."
        )
    return names[0] if names else None


def _tags(header: Header) -> tuple[str, ...]:
    """`tags:` and `tag:` as a list, or as words between commas or spaces, with or without "#"."""
    found: list[str] = []
    for value in filter(None, map(header.values.get, ("tags", "tag"))):
        for item in value.items:
            if len(value.items) > 1:
                found.append(item)
            else:
                found += _TAG_GAP.split(item) if _TAG_GAP.search(item) else item.split()
    tags = (one_line(tag).strip(_QUOTES).lstrip("#") for tag in found)
    return unique_tags(tag for tag in tags if tag and not set("{}") & set(tag))


def _title(header: Header) -> str:
    """`title:`, else `name:`; a name like `feedback_ui-timeouts` as words."""
    title = _flat(header.get("title") or header.get("name"))
    return title if " " in title else re.sub(r"(?<=\w)[-_]+(?=\w)", " ", title)


def _split(value: Value | None, report: Report) -> Split | None:
    if value is None:
        return None
    word = _word(value)
    found = _find(word, {split.value: split for split in Split}) or _SPLIT_WORDS.get(word)
    if found is None and word not in ("no", "none", "false"):
        report(
            value.line,
            f"split {_got(value)} is not headings or items. Read as one record. {_hint(word, Split)}",
        )
    return found


# --- words ---------------------------------------------------------------------------------------

_Choice = TypeVar("_Choice")


def _find(word: str, choices: Mapping[str, _Choice]) -> _Choice | None:
    """A choice by its name, singular or plural."""
    stem = word.removesuffix("s")
    return next((choice for name, choice in choices.items() if name.removesuffix("s") == stem), None)


def _hint(word: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f"Did you mean {near[0]}?" if near else "Correct it, or take the line out."


def _word(value: Value) -> str:
    return one_line(" ".join(value.items)).strip(_QUOTES + ",.;!").casefold()


def _got(value: Value) -> str:
    return f'"{cut(one_line(" ".join(value.items)), _GOT_UNITS)}"'


def _flat(value: Value | None) -> str:
    return tidy(one_line(" ".join(value.items))) if value else ""


def _link_text(item: str) -> str:
    """`[[folder/Billing|the billing thing]]` names the note Billing, as a property of Obsidian does."""
    link = _LINK.fullmatch(item.strip())
    return tidy(one_line(link["name"] if link else item))
