"""Text: measure, cut and disarm what people wrote before it stands in a prompt.

Flow:  vault → records → [text] → snapshot, digest → hook
In:    any text.   Out: text that is short enough, whole at its edges and harmless.
Never: code points or bytes as a measure (the client counts UTF-16 units), a locale, a clock.
Next:  worker/recall_worker/snapshot.py
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import regex

MARK: Final = "…"


def units(text: str) -> int:
    """Length in UTF-16 code units, the client's own measure: two for an emoji, one for a lone surrogate."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def tidy(text: str) -> str:
    """NFC, `\\n` newlines, no outer white space; nothing else changes."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def one_line(text: str) -> str:
    """Every run of white space, newlines included, becomes one space; outer white space goes."""
    return " ".join(text.split())


def escape_json(text: str) -> bytes:
    """Body of a JSON string without its quotes; two bodies one after the other are a valid body.

    A lone surrogate, which no UTF-8 can hold, becomes U+FFFD (also one unit); U+2028 and U+2029 are escaped
    because older JavaScript takes them for newlines.

    Source: RFC 8259, section 7.
    """
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    body = json.dumps(paired, ensure_ascii=False)[1:-1]
    return body.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()


# What must not be torn: an HTML tag, an Obsidian link, a run of backticks, a Thai or Lao vowel written
# before its consonant, and else a grapheme cluster. None of them may end in front of a combining mark.
_ATOM: Final = regex.compile(
    r"""(?: </?[A-Za-z][^<>\n]{0,38}> | \[\[[^\[\]\n]{1,60}\]\] | `{1,64}+ )
            (?! [\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}] )
      | [\u0E40-\u0E44\u0EC0-\u0EC4]? \X""",
    regex.VERBOSE,
)

_LONGEST_ATOM: Final = 128
"""More than any atom takes but a cluster, which then ends past every limit all the same."""

_ASCII_ATOM: Final = re.compile(r"[<\[`\r]")
"""What an ASCII text may have that is not torn."""

# Thai and Lao put a space where a phrase or sentence ends and nothing else; a full stop before a small
# letter is an abbreviation; Chinese and Japanese put no space after their stop.
_SENTENCE_END: Final = regex.compile(
    r"""[\p{SB=STerm}…ฯๆ] [\p{Pe}\p{Pf}"']* (?= \s )
      | [。！？｡．] [\p{Pe}\p{Pf}]*
      | \. [\p{Pe}\p{Pf}"']* (?= \s++ \P{Ll} )
      | [\p{Thai}\p{Lao}] (?= \s )
      | \S (?= [ \t]* \n )""",
    regex.VERBOSE,
)
_NO_SPACES: Final = regex.compile(r"[\p{Han}\p{Hiragana}]")
_DANGLING: Final = " \t\n,;:、，；：([{（「『"

_CODE_START: Final = regex.compile(r"(?m)^[ \t>]*+(?P<fence>`{3,}+|~{3,}+)[^`\n]*+$|(?P<ticks>`++)")
_BLANK_LINE: Final = regex.compile(r"\n[ \t]*+\n")


_SENTENCE, _WORD, _CODE_LINE, _CODE_WORD, _CLUSTER = range(5)  # where a cut may fall, best first


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """A code span or fenced block: `start ≤ opening mark < inside ≤ content ≤ closing < stop`."""

    start: int
    inside: int
    closing: int
    stop: int
    closer: str


def cut(text: str, limit: int) -> str:
    """Shorten a text at a sentence end, else a word, else a grapheme cluster, with a visible mark.

    A better place is taken only where it keeps at least half of the limit. A code span or fence that the
    cut opens is closed again before the mark.

    Args:
        text: Any text; returned as it is if it fits.
        limit: Most units of the result, mark included.

    Returns:
        At most `limit` units, ending with "…" if anything was left out; empty if `limit` is below 1.

    Source: Unicode Standard Annex 29, text segmentation; CommonMark 0.31, code spans and fenced code.
    """
    if units(text) <= limit:
        return text
    if limit < 1:
        return ""
    ends = _ends(text, limit)
    last = ends[-1] if ends else 0
    codes = _codes(text, before=last)
    sentence_ends = {match.end() for match in _SENTENCE_END.finditer(text, 0, last + 64)}
    breaks = sentence_ends | _breaks(text, before=last + 1)
    best, best_place = MARK, None
    for end in reversed(ends):
        if best_place is not None and end not in breaks:
            continue  # no better place than the first one looked at
        while codes and codes[-1].start >= end:
            codes.pop()
        code = codes[-1] if codes and end < codes[-1].stop else None
        place = _place(text, end, in_code=code is not None, sentence_ends=sentence_ends)
        if best_place is not None and place >= best_place:
            continue
        shortened = _close(text[:end], place, code, end)
        if shortened is None or units(shortened) > limit:
            continue
        too_far_back = 2 * units(shortened) < limit
        if best_place is None or not too_far_back:
            best, best_place = shortened, place
        if too_far_back or place is _SENTENCE:
            break
    return best


def close_fence(text: str) -> str:
    """End a fenced block that the text leaves open, so that it does not swallow what follows."""
    codes = _codes(text, before=len(text))
    return text.rstrip() + codes[-1].closer.rstrip() if codes and codes[-1].stop > len(text) else text


def _ends(text: str, limit: int) -> list[int]:
    """Offsets after each atom that leaves room for the mark; the text is longer than the limit."""
    head = text[: limit + _LONGEST_ATOM]
    if head.isascii() and _ASCII_ATOM.search(head) is None:
        return list(range(1, limit))
    atoms = _ATOM.findall(head)
    if max(head) <= "\uffff":
        return [end for end in accumulate(map(len, atoms)) if end < limit]
    sizes = zip(accumulate(map(len, atoms)), accumulate(map(units, atoms)), strict=True)
    return [end for end, used in sizes if used < limit]


def _breaks(text: str, *, before: int) -> set[int]:
    """Offsets at which `_place` may find more than the end of a cluster, those of sentences left out."""
    head = text[:before]
    found = {offset for offset, character in enumerate(head) if character.isspace()}
    if not head.isascii():
        for match in _NO_SPACES.finditer(head):
            found.add(match.start())
            found.add(match.end())
    return found


def _place(text: str, end: int, *, in_code: bool, sentence_ends: set[int]) -> int:
    before_space = text[end : end + 1].isspace()
    if in_code and before_space:
        return _CODE_LINE if text[end] == "\n" else _CODE_WORD
    if in_code:
        return _CLUSTER
    if end in sentence_ends:
        return _SENTENCE
    return _WORD if before_space or _NO_SPACES.search(text, end - 1, end + 1) else _CLUSTER


def _close(kept: str, place: int, code: _Code | None, end: int) -> str | None:
    """What is kept plus closing marks and "…", or None where a cut is not allowed."""
    if code is not None:
        kept = kept.rstrip()
        last_line = kept.rpartition("\n")[2]
        if not code.inside <= end <= code.closing or not last_line.strip("`~> \t") or kept.endswith("`"):
            return None
        return kept + code.closer + MARK
    kept = kept.rstrip() if place is _SENTENCE else kept.rstrip(_DANGLING)
    if kept.endswith(MARK):
        return kept
    spaced = place is _SENTENCE and unicodedata.east_asian_width(kept[-1:] or " ") not in ("W", "F")
    return kept + (" " if spaced else "") + MARK


def _codes(text: str, *, before: int) -> list[_Code]:
    """Code spans and fences that start before an offset, in order; an unpaired backtick is plain text."""
    found: list[_Code] = []
    unpaired: set[str] = set()
    position, paragraph_end = 0, 0
    while (match := _CODE_START.search(text, position)) and match.start() < before:
        position = match.end()
        if match["fence"]:
            found.append(_fence(text, match.start("fence"), match.end(), match["fence"]))
            position = found[-1].stop
            continue
        ticks = match["ticks"]
        if position >= paragraph_end:
            blank = _BLANK_LINE.search(text, position)
            paragraph_end = blank.start() if blank else len(text)
            unpaired.clear()
        same_run = rf"(?<!`){ticks}(?!`)"
        pair = ticks not in unpaired and regex.search(same_run, text, pos=position, endpos=paragraph_end)
        if not pair:
            unpaired.add(ticks)
            continue
        start, inside, position = match.start(), match.end(), pair.end()
        found.append(_Code(start=start, inside=inside, closing=pair.start(), stop=position, closer=ticks))
    return found


def _fence(text: str, start: int, inside: int, mark: str) -> _Code:
    """A fenced block; one that is never closed runs to the end of the text."""
    closing = regex.compile(rf"^[ \t>]*+{mark}{mark[0]}*+[ \t]*+$", regex.MULTILINE).search(text, inside)
    outer, stop = (closing.start(), closing.end()) if closing else (len(text), len(text) + 1)
    return _Code(start=start, inside=inside, closing=outer, stop=stop, closer=f"\n{mark}\n")


_ANSI: Final = regex.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"  # colours and cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])(?:[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c))?"  # titles, links
    r"|\x1b[ -/]*+[0-~]?"
)
_BREAKS: Final = regex.compile(r"\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_CONTROLS: Final = regex.compile(r"[\p{Cc}--[\n\t]]|[\uFFF9-\uFFFB]", regex.V1)

# Invisible characters go, but for those that scripts and emoji are spelt with: joiners inside Arabic,
# Indic and other joining scripts, emoji sequences, one variation selector after a character that has
# variants. Tag characters (U+E0000…) and runs of selectors, which can carry hidden text, always go.
_INVISIBLE: Final = regex.compile(
    r"""(?=\p{DI}) (?: (?P<keep>
        (?<= [[\p{L}\p{M}]--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{DI}]] )
            (?<! [\u0300-\u036F] ) [\u200C\u200D] (?!\p{DI})
      | (?<= \p{Extended_Pictographic}\uFE0F? | \p{Emoji_Modifier} ) \u200D (?=\p{Extended_Pictographic})
      | (?<= \p{Emoji} ) [\uFE0E\uFE0F]
      | (?<= [\p{Han}\p{Sm}\p{Myanmar}] ) [\uFE00-\uFE0D\U000E0100-\U000E01EF]
      | (?<= \p{Mongolian} (?<!\p{DI}) ) [\u180B-\u180F]
    ) | . )""",
    regex.VERBOSE | regex.V1,
)

_TAG: Final = regex.compile(
    r"""[<＜﹤] (?P<gap>\s*+) (?P<slash>[/／]?) \s*+ (?P<name>\p{L}[\w:\p{Pd}]*+)
        (?: (?P<close>\s*+[/／]?[>＞﹥] | \s[^<>＜＞]{0,200}[>＞﹥]) | (?! [.@] | [/／](?!\s*+[>＞﹥]|\Z) ) )
      | (?P<special> [<＜][|｜][^|｜<>\n]{1,40}[|｜][>＞] | <<(?=/?SYS>>) )""",
    regex.VERBOSE,
)
_DASH: Final = regex.compile(r"\p{Pd}")
_NAME_PARTS: Final = regex.compile(r"[-_]|(?<!:):(?!:)")  # `antml:invoke`, not `PG::Result`
_COMPOUND: Final = regex.compile(r"[a-z]{2,}[a-z0-9:]*[-_]")  # not Vim's `<C-w>`
_BRACKETS: Final = str.maketrans("<＜>＞", "‹‹››")
# Names that assistants and their clients use for whole blocks of a prompt. `code` and the like stay out:
# a name that HTML has (output, summary, search) would spoil ordinary notes.
_RESERVED: Final = frozenset({
    *("admin", "antml", "assistant", "budget", "context", "developer", "env", "environment", "function"),
    *("functions", "human", "important", "instruction", "instructions", "invoke", "memories", "memory"),
    *("message", "messages", "parameter", "policy", "prompt", "recall", "reminder", "result", "results"),
    *("rules", "sys", "system", "thinking", "tool", "tools", "user"),
})  # fmt: skip
_HEADING: Final = regex.compile(r"^([ \t]{0,3})#{1,2}(?=[ \t])", regex.MULTILINE)


def neutralise(text: str) -> str:
    """Make vault text safe to stand in a prompt and leave it readable.

    - Terminal escapes, control characters, bidirectional marks and invisible characters go.
    - A tag that could close or open a block of the prompt loses its angle brackets: `‹system-reminder›`.
      That is any complete tag whose name holds a hyphen or underscore (`<command-name>`, `</tool_use>`),
      a reserved name (`<system>`, `</recall>`), or a special token (`<|im_start|>`). The brackets become
      U+2039 and U+203A, not `&lt;`, since nothing downstream turns those back. `<div>`, `List<User>`,
      `vector<my_type>`, `a < b` and `<stdio.h>` stay as they are.
    - A heading of level 1 or 2 becomes level 3, below the digest's own.

    The result is NFC, and applying this again changes nothing.
    """
    text = _BREAKS.sub("\n", _ANSI.sub("", text))
    text = _INVISIBLE.sub(lambda match: match["keep"] or "", _CONTROLS.sub("", text))
    text = unicodedata.normalize("NFC", text)
    return _HEADING.sub(r"\1###", _TAG.sub(_disarm, text))


def _disarm(match: regex.Match[str]) -> str:
    """One tag-like match with its brackets changed if it could be taken for a block of the prompt."""
    whole = match[0]
    if match["special"]:
        return whole.translate(_BRACKETS)
    if not _is_block(match):
        return whole
    return f"‹{whole[1:-1]}›" if match["close"] else f"‹{whole[1:]}"


def _is_block(match: regex.Match[str]) -> bool:
    """A tag that clients, models or we ourselves may give a meaning to."""
    name = _DASH.sub("-", unicodedata.normalize("NFKC", match["name"])).casefold()
    closes, close, gap = bool(match["slash"]), match["close"] or "", match["gap"]
    after_word = (
        regex.match(r"[A-Za-z0-9_]", match.string, pos=max(match.start() - 1, 0), endpos=match.start())
        is not None
    )
    if _RESERVED.isdisjoint(_NAME_PARTS.split(name)):
        by_shape = _COMPOUND.match(name) and ("-" in name or closes or not after_word)
        return bool(by_shape and close and not gap)
    if closes or ("-" in name and not gap):
        return True
    if gap:  # `n < user_count` is code, `< user_count>` hardly
        return not name.isalpha() and close.strip(" \t\n/／") in (">", "＞", "﹥")
    return not after_word or (
        not name.isalpha() and bool(close)
    )  # `List<User>`, `HashMap<user_id, …>` are code
