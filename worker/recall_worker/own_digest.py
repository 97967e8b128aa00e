"""Own digest: find a digest of ours where people paste one, so that it is not recalled or searched for again.

Flow:  a note, a prompt → [own digest] → the same without what we said ourselves
In:    any text.   Out: where a digest stands in it.
Never: a doubt settled in favour of an echo: what a profile says has no mark at its end, so all of it goes.
Next:  worker/recall_worker/notes.py, prompts.py
"""

from __future__ import annotations

import re
from typing import Final

FIRST_LINE: Final = "Recall: notes the user keeps, for context."
PROFILE_HEADING: Final = "## About the user"
LISTS: Final = (
    "## Rules the user never wants broken",
    "## Latest lessons and conclusions",
    "## Notes close to this prompt",
)

_QUOTE: Final = re.compile(r"[\s>]*")
_ITEM: Final = re.compile(r"- |\+\d|…|\(")
_END: Final = re.compile(r"</|`{3}|~{3}|#{1,2}\s|-{3,}\s*$|={3,}\s*$")


def digest_ranges(text: str) -> list[tuple[int, int]]:
    """Where digests of ours stand, whole ones and the lists of one.

    Args:
        text: A note or a prompt, quoted with `>` or not.

    Returns:
        Offsets of start and stop, ascending, in whole lines but for words ahead of the first.
    """
    if not any(mark in text for mark in (FIRST_LINE, *LISTS)):
        return []
    ranges: list[tuple[int, int]] = []
    start, in_list, offset = -1, False, 0
    for line in text.splitlines(keepends=True):
        said = line[_QUOTE.match(line).end() :].rstrip()  # type: ignore[union-attr]  # it matches the empty string
        opens = line.find(FIRST_LINE)
        if opens >= 0 or said in LISTS:
            start = start if start >= 0 else offset + max(opens, 0)
            in_list = opens < 0
        elif start >= 0 and said == PROFILE_HEADING:
            in_list = False
        elif start >= 0 and (_END.match(said) or (in_list and said and not _ITEM.match(said))):
            ranges.append((start, offset))
            start = -1
        offset += len(line)
    return [*ranges, (start, offset)] if start >= 0 else ranges


def without_digest(text: str) -> str:
    """A text without the digests that it quotes; outer white space goes with them."""
    ranges = digest_ranges(text)
    if not ranges:
        return text
    kept, position = [], 0
    for start, stop in ranges:
        kept.append(text[position:start])
        position = stop
    return "".join([*kept, text[position:]]).strip().removesuffix("<system-reminder>").rstrip("> \n")
