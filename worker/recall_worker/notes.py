"""Notes: one Markdown file into the records it holds.

Flow:  vault → [notes] → records → ledger
In:    a path and bytes.   Out: record drafts with their passages, and what a person should mend.
Never: an exception but NoteError; a private word or a secret in any of it; a clock (today comes from outside).
Next:  worker/recall_worker/withheld.py, secret_passages.py, frontmatter.py, facts.py, sections.py, passages.py
"""

from __future__ import annotations

import codecs
import datetime as dt
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from recall_worker.errors import NoteError
from recall_worker.facts import Facts, Split, read_facts, unique_tags
from recall_worker.frontmatter import Header, find_front_matter, misplaced_front_matter, parse_front_matter
from recall_worker.markdown import Body, code_ranges, is_inside, parse_blocks
from recall_worker.passages import TITLE_SEPARATOR, Heading, split_passages
from recall_worker.records import PassageDraft, Problem, RecordDraft, RecordType
from recall_worker.secret_passages import allowed_lines, find_in_note, withhold_keys, withhold_passages
from recall_worker.sections import Part, split_headings, split_items, whole_note
from recall_worker.text import tidy
from recall_worker.withheld import drop_comments, drop_digests, withhold_private

# UTF-32 first: its little-endian mark starts with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_TAG: Final = regex.compile(r"(?<!\S)#([\p{L}\p{M}\p{N}\p{Extended_Pictographic}\u200D\uFE0F_/-]++)")
_CONFLICT_OPENER: Final = regex.compile(r"^<{7} ", regex.MULTILINE)
_CONFLICT_CLOSER: Final = regex.compile(r"^>{7} ", regex.MULTILINE)
_NOT_A_NUMBER: Final = regex.compile(r"[^\p{N}_/-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedNote:
    """What a file holds.

    Attributes:
        records: In the order of the file; none if it has no words.
        problems: None of them fatal, in the order of lines.
    """

    records: tuple[RecordDraft, ...]
    problems: tuple[Problem, ...]


def parse_note(path: str, data: bytes, *, max_bytes: int, today: dt.date) -> ParsedNote:
    """Read one file.

    Args:
        path: Vault-relative POSIX path, NFC.
        data: The file's bytes.
        max_bytes: Longer ones are refused.
        today: A date after it is not believed.

    Returns:
        Its records, and what was read with a guess.

    Raises:
        NoteError: The file is too large, not text, not UTF-8, or its front matter is not YAML.
    """
    file = Body.of(_decode(path, data, max_bytes=max_bytes))
    fences = find_front_matter(path, file)
    header, body = Header(), file
    problems: list[Problem] = []
    if fences:
        above = withhold_private(path, file.part(*fences))
        keys = withhold_keys(path, above.body)
        problems += above.problems
        if parsed := parse_front_matter(path, keys.body):
            problems += keys.problems
            header, body = parsed, file.part(len(file.lines) if above.is_open else fences[1] + 1)
        else:
            problems.append(Problem(path=path, line=fences[0], message=_NO_KEYS, fatal=False))
    public = withhold_private(path, body)
    shown = drop_comments(path, public.body)
    visible = drop_digests(path, shown.body)
    problems += _doubts(path, visible.body)
    secret = find_in_note(path, visible.body, allowed=allowed_lines(public.body))
    facts, wrong = read_facts(path, header, today=today)
    parts, more = _parts(path, secret.body, facts, today)
    records = tuple(_records(path, withhold_passages(parts, secret.lines), facts))
    problems += [*public.problems, *shown.problems, *visible.problems, *secret.problems, *wrong, *more]
    return ParsedNote(records=records, problems=tuple(sorted(problems, key=lambda p: p.line or 0)))


_NO_KEYS: Final = (
    "What stands between the first two --- is not front matter. Read it as text. "
    "Write `key: value` lines there, or take the first --- out."
)

_TOML: Final = (
    "Front matter in TOML (+++) is not read. Read it as text. "
    "Write it as `key: value` lines between two --- instead."
)
_CONFLICT: Final = "This is the mark of a merge conflict. Read both sides. Keep one and remove the marks."


def _doubts(path: str, body: Body) -> Iterator[Problem]:
    """What is read as words, but was hardly meant so."""
    if misplaced := misplaced_front_matter(path, body):
        yield misplaced
    elif body.text.lstrip().startswith("+++\n"):
        yield Problem(path=path, line=body.first_number, message=_TOML, fatal=False)
    opener = _CONFLICT_OPENER.search(body.text)
    if opener is None or not _CONFLICT_CLOSER.search(body.text, opener.end()):
        return
    if not is_inside(opener.start(), code_ranges(body, parse_blocks(body))):
        line = body.numbers[body.text.count("\n", 0, opener.start())]
        yield Problem(path=path, line=line, message=_CONFLICT, fatal=False)


def _decode(path: str, data: bytes, *, max_bytes: int) -> str:
    """Text of a file: NFC, `\\n` newlines, no byte order mark."""
    if len(data) > max_bytes:
        problem = f"the file has {len(data):,} bytes, more than max_note_bytes ({max_bytes:,})"
        raise NoteError(path, None, problem, "Split it, or raise max_note_bytes.")
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", "utf-8"))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        before = data[len(mark) :][: error.start].decode(encoding, "replace")
        line = _unix(before).count("\n") + 1
        problem = f"the file is not {encoding.upper().removesuffix('-LE').removesuffix('-BE')}"
        raise NoteError(path, line, problem, "Save it as UTF-8.") from None
    text = _unix(text)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise NoteError(
            path, line, "the file is not text (it has NUL bytes)", "Save it as UTF-8, or move it out."
        )
    return unicodedata.normalize("NFC", text)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parts(path: str, body: Body, facts: Facts, today: dt.date) -> tuple[list[Part], list[Problem]]:
    """The note as one part, or as `split:` says."""
    parts: list[Part] = []
    if facts.split is Split.HEADINGS:
        parts = split_headings(body, title=facts.title, today=today)
    elif facts.split is Split.ITEMS:
        parts = split_items(body, title=facts.title, today=today)
    if parts:
        return parts, []
    problems = []
    if facts.split and body.text.strip():
        lacking = "heading" if facts.split is Split.HEADINGS else "list"
        message = (
            f"split says {facts.split}, but there is no {lacking}. Read as one record. Take the line out."
        )
        problems.append(Problem(path=path, line=facts.split_line, message=message, fatal=False))
    return [whole_note(body, title=facts.title)], problems


def _records(path: str, parts: Sequence[Part], facts: Facts) -> Iterator[RecordDraft]:
    """A record for every part with words, each with a key of its own."""
    base, taken = facts.id or path, dict[str, int]()
    for part in parts:
        text, headings, line = tidy(part.body.text), part.headings, part.body.first_number
        if text:
            passages = split_passages(part.body, headings=headings)
        else:
            headings = headings[:-1] if part.heading else headings
            text, line = part.heading or facts.description, part.heading_line
            passages = _only_passage(text, headings, line)
        if not text:
            continue
        yield RecordDraft(
            key=_free_key(f"{base}#{part.anchor}" if part.anchor else base, taken),
            stated_id=facts.id is not None,
            type=RecordType.KNOWLEDGE if part.is_remainder else facts.type,
            high=facts.high and not part.is_remainder,
            date=part.date or facts.date,
            project=facts.project,
            tags=unique_tags([*facts.tags, *_inline_tags(part)]),
            title=headings[-1][1] if headings else "",
            text=text,
            line=line,
            passages=passages,
        )


def _only_passage(text: str, headings: tuple[Heading, ...], line: int) -> tuple[PassageDraft, ...]:
    """A record that is nothing but a heading or a description."""
    path = TITLE_SEPARATOR.join(heading for _, heading in headings)
    return (PassageDraft(ordinal=0, title_path=path, text=text, line=line),)


def _free_key(wanted: str, taken: dict[str, int]) -> str:
    """`path#heading`, and `path#heading~2` for the second of that name."""
    key = wanted
    while key in taken:
        taken[wanted] += 1
        key = f"{wanted}~{taken[wanted]}"
    taken[key] = 1
    return key


def _inline_tags(part: Part) -> Iterator[str]:
    """Obsidian's `#tags`: after a space, outside code, not a number. The marks of a heading are none.

    Source: Obsidian's help, "Tags".
    """
    yield from (match[1].strip("/") for match in _tags_of(part.heading))
    if found := _tags_of(part.body.text):  # rare: most notes need no look at where their code is
        code = code_ranges(part.body, parse_blocks(part.body))
        yield from (match[1].strip("/") for match in found if not is_inside(match.start(), code))


def _tags_of(text: str) -> list[regex.Match[str]]:
    return [match for match in _TAG.finditer(text) if _NOT_A_NUMBER.search(match[1])]
