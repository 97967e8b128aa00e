"""Withheld: what a person marked as not to be read, cut out before anything else looks at the note.

Flow:  vault → [withheld] → notes → records → ledger
In:    the lines of a note.   Out: the lines without private parts and comments, and what to tell the person.
Never: a private word in a record, a key, a tag, a message; a doubt settled in favour of showing.
Next:  worker/recall_worker/notes.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from recall_worker.markdown import Body, Range, code_ranges, is_inside, parse_blocks
from recall_worker.own_digest import digest_ranges
from recall_worker.records import Problem

# Attributes need their "=": `ssh -i <private key>` is a gap to fill in. Japanese keyboards type ＜ and ＞.
_PRIVATE: Final = re.compile(
    r"[<＜]\s*(?P<close>[/／]?)\s*private(?:\s+[\w:-]+\s*=[^<>＜＞]*)?\s*[/／]?[>＞]", re.IGNORECASE
)
_COMMENT: Final = re.compile(r"<!--|%%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """What is left of some lines.

    Attributes:
        body: The rest.
        problems: One for every mark without its partner, in the order of their lines.
        is_open: True if a private part runs on past the last line.
    """

    body: Body
    problems: tuple[Problem, ...] = ()
    is_open: bool = False


def withhold_private(path: str, body: Body) -> Withheld:
    """Leave out `<private>…</private>`, in code as well: the safe side.

    Parts may nest. One that is never closed takes all that follows; a `</private>` that closes nothing
    takes all that comes before it, since somebody meant some of that to be private.

    Args:
        path: Vault-relative path, for the problems.
        body: Lines of the file.

    Returns:
        The rest.
    """
    text = body.text
    ranges: list[Range] = []
    opener, depth, stray = 0, 0, -1
    for tag in _PRIVATE.finditer(text):
        if not tag["close"]:
            opener = opener if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                ranges.append((opener, tag.end()))
        else:
            ranges, stray = [(0, tag.end())], tag.start()
    problems = []
    if stray >= 0:
        line = _number(body, text, stray)
        problems.append(_unpaired(path, line, "</private> closes nothing", "above it"))
    if depth:
        ranges.append((opener, len(text)))
        line = _number(body, text, opener)
        problems.append(_unpaired(path, line, "<private> is never closed", "below it"))
    return Withheld(body=body.without(ranges), problems=tuple(problems), is_open=depth > 0)


def _unpaired(path: str, line: int, wrong: str, taken: str) -> Problem:
    """A mark without its partner: what was done about it is always to show less."""
    message = f"{wrong}. Left out everything {taken}. Add the other mark, or remove this one."
    return Problem(path=path, line=line, message=message, fatal=False)


def drop_comments(path: str, body: Body) -> Withheld:
    """Leave out `<!-- … -->` and Obsidian's `%% … %%`, but not where they are code.

    An HTML comment that starts a line and is never closed takes all that follows, as it does on the
    rendered page. Other openers without a partner are plain text.

    Args:
        path: Vault-relative path, for the problem.
        body: Lines of the file below its front matter.

    Returns:
        The rest.

    Source: CommonMark 0.31, HTML blocks; Obsidian's help, "Comments".
    """
    text = body.text
    if not _COMMENT.search(text):
        return Withheld(body=body)
    code = code_ranges(body, parse_blocks(body))
    ranges: list[Range] = []
    position = 0
    while opener := _COMMENT.search(text, position):
        start, position = opener.span()
        if is_inside(start, code):
            continue
        stop = _comment_end(text, opener, code)
        if stop is not None:
            ranges.append((start, stop))
            position = stop
        elif opener[0] == "<!--" and _starts_line(text, start):
            problem = _unpaired(path, _number(body, text, start), "<!-- is never closed by -->", "below it")
            return Withheld(body=body.without([*ranges, (start, len(text))]), problems=(problem,))
    return Withheld(body=body.without(ranges))


def drop_digests(path: str, body: Body) -> Withheld:
    """Leave out digests of ours that somebody keeps as a note: recalled again, they would grow each time.

    Args:
        path: Vault-relative path, for the problem.
        body: Lines of the file below its front matter.

    Returns:
        The rest.
    """
    text = body.text
    ranges = digest_ranges(text)
    problems = tuple(
        Problem(path=path, line=_number(body, text, start), message=_DIGEST, fatal=False)
        for start, _ in ranges
    )
    return Withheld(body=body.without(ranges), problems=problems)


_DIGEST: Final = (
    "This is a digest that Recall made. Left it out: what it says is recalled from where it comes from. "
    "Keep your own words about it, and take the digest out."
)


def _comment_end(text: str, opener: re.Match[str], code: list[Range]) -> int | None:
    """Offset after the comment, or None if it is never closed."""
    if opener[0] == "<!--":
        end = text.find("-->", opener.start() + 2)  # `<!-->` is a whole comment
        return end + 3 if end >= 0 else None
    end = text.find("%%", opener.end())
    while end >= 0 and is_inside(end, code):
        end = text.find("%%", end + 2)
    return end + 2 if end >= 0 else None


def _starts_line(text: str, offset: int) -> bool:
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip()


def _number(body: Body, text: str, offset: int) -> int:
    """Line of the file where an offset stands."""
    return body.numbers[text.count("\n", 0, offset)]
