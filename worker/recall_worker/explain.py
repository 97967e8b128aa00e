"""Explain: why a prompt gets the slot 4 it gets, passage by passage.

Flow:  prompt → answer → search, digest → [explain] → `recall explain`
In:    a prompt and the directory it is typed in.   Out: every candidate's evidence and fate, ready for JSON.
Never: a search of its own: slot 4 comes out of the code that answers hooks; a repository bound to a project.
Next:  worker/recall_worker/commands/explain.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recall_worker.answer import TOP_K, Answerer, Recalled
from recall_worker.background import load_background
from recall_worker.delivery import plan_whole
from recall_worker.errors import UsageError
from recall_worker.explain_types import Candidate, Explanation, SlotAbove, Term
from recall_worker.fusion import Scores
from recall_worker.hybrid import View
from recall_worker.languages import NO_GROUP
from recall_worker.ledger import Ledger
from recall_worker.ledger_types import ShownLike
from recall_worker.prompts import searchable
from recall_worker.publish import Published
from recall_worker.records import Hit
from recall_worker.search import Evidence, close_enough, order, read_hits, weigh
from recall_worker.text import one_line, units

ENCODE_S: Final = 5.0
"""How long the encoder may take here, seconds: a hook waits less, but a person asked for the whole story."""

EXCERPT: Final = 160
"""Characters of a passage that are shown."""

OTHER_PROJECT: Final = "other project"
BELOW_FLOOR: Final = "below the floor"
PAST_THE_BEST: Final = f"not among the best {TOP_K}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """What slots 1 to 3 say to a session's first prompt, and the UTF-16 units of that.

    Attributes:
        units: Pending records included.
        pending_units: Of these, the ones of records that wait beside the snapshot for its next stride.
    """

    shown: Sequence[ShownLike]
    units: int
    pending_units: int = 0


NOTHING_ABOVE: Final = Above(shown=(), units=0)


def above_of(current: Published | None, ledger: Ledger) -> Above:
    """What a hook says that holds the snapshot of now.

    Args:
        current: What the prompt's scope has; None if it has nothing.
    """
    if current is None:
        return NOTHING_ABOVE
    plan = plan_whole(current, current.sha256, ledger=ledger, on_other=lambda: None)
    return Above(shown=plan.shown or (), units=plan.units, pending_units=plan.pending_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What shall be explained.

    Attributes:
        prompt: As a person would type it.
        directory: Where, absolute.
        top: Candidates at most, those that are shown not counted.
    """

    prompt: str
    directory: Path
    top: int


def read_order(said: Mapping[str, object]) -> Asked:
    """Read `{"do": "explain", "prompt": …, "directory": …, "top": …}`.

    Raises:
        UsageError: A field is missing or of the wrong kind.
    """
    prompt, directory, top = said.get("prompt"), said.get("directory"), said.get("top", TOP_K)
    if not isinstance(prompt, str) or not isinstance(directory, str) or not isinstance(top, int):
        raise UsageError("explain: wanted a prompt, a directory and a number `top`.")
    return Asked(prompt=prompt, directory=Path(directory), top=top)


def explain(
    asked: Asked,
    project: str | None,
    *,
    answerer: Answerer,
    ledger: Ledger,
    view: View,
    above: Callable[[str | None], Above],
) -> Explanation:
    """Answer a prompt as a hook's would be answered that is its session's first, and keep what decided it.

    Args:
        project: Of the directory.
        answerer: Whose code makes slot 4.
        view: What is searched.
        above: Gives the snapshot of a project, or the common one for None.
    """
    held = above(project)
    text = searchable(asked.prompt)
    found = answerer.recall(
        text,
        project,
        held.shown,
        held.units,
        pending_units=held.pending_units,
        view=view,
        timeout_s=ENCODE_S,
    )
    evidence = weigh(view, found.text, found.vector) if found.text.strip() and len(view.corpus) else None
    embedded = view.meaning.matrix.embedded_mask()[: len(view.corpus)] if view.meaning is not None else False
    return Explanation(
        prompt=asked.prompt,
        searched=found.text,
        by="words alone" if found.vector is None else "words and meaning",
        language=_language(found),
        project=project,
        passages=int(np.count_nonzero(view.corpus.live)),
        embedded=int(np.count_nonzero(view.corpus.live & embedded)),
        terms=_terms(found),
        above=_slots(held.shown),
        above_units=held.units,
        room_units=found.room_units,
        relevant=found.relevant.text,
        relevant_units=found.relevant.units,
        candidates=()
        if evidence is None
        else tuple(_candidates(found, evidence, ledger, project, asked.top)),
    )


def _candidates(
    found: Recalled, evidence: Evidence, ledger: Ledger, project: str | None, top: int
) -> Iterable[Candidate]:
    """The best of all live passages, of other projects too, and whatever is shown."""
    corpus = found.view.corpus
    allowed = corpus.within(project)
    passed = close_enough(evidence)
    fates = {fate.hit.passage.id: fate for fate in found.relevant.fates}
    rows = order(found.view, evidence.fused, corpus.live, top_k=max(top, TOP_K))
    for rank, row in enumerate(rows, 1):
        fate = fates.get(corpus.passage_id(row))
        if rank > top and (fate is None or fate.verdict != "shown"):
            continue
        for hit in read_hits(found.view, ledger, evidence.fused, [row]):
            if fate is not None:
                verdict, other, ratio = fate.verdict, fate.other, fate.ratio
            else:
                within = PAST_THE_BEST if passed[row] else BELOW_FLOOR
                verdict, other, ratio = within if allowed[row] else OTHER_PROJECT, "", 0.0
            yield _candidate(
                hit,
                row,
                rank,
                evidence,
                allowed,
                (verdict, other, ratio),
            )


def _candidate(
    hit: Hit,
    row: int,
    rank: int,
    evidence: Evidence,
    allowed: NDArray[np.bool_],
    fate: tuple[str, str, float],
) -> Candidate:
    """One row with everything known of it."""
    cosine = _known(evidence.dense, row)
    bm25 = float(evidence.lexical[row])
    return Candidate(
        rank=rank,
        record=hit.record.id,
        passage=hit.passage.ordinal,
        title=one_line(hit.passage.title_path or hit.record.title),
        excerpt=one_line(hit.passage.text[: 2 * EXCERPT])[:EXCERPT],
        path=hit.record.path,
        line=hit.record.line,
        date=hit.record.date.isoformat(),
        type=hit.record.type.value,
        project=hit.record.project,
        bm25=bm25,
        bm25_rank=_rank(evidence.lexical, row, allowed) if bm25 > 0 else None,
        words=float(evidence.words[row]),
        cosine=cosine,
        cosine_rank=None if evidence.dense is None or cosine is None else _rank(evidence.dense, row, allowed),
        meaning=None if evidence.meaning is None else _known(evidence.meaning.score, row),
        fused=float(evidence.fused[row]),
        held=_known(evidence.rated.held, row),
        above=_known(evidence.rated.above, row),
        priors=(),
        fate=fate[0],
        other=fate[1],
        ratio=fate[2],
    )


def _known(scores: Scores | None, row: int) -> float | None:
    """A score, None where there is none."""
    return None if scores is None or np.isnan(scores[row]) else float(scores[row])


def _rank(scores: Scores, row: int, allowed: NDArray[np.bool_]) -> int:
    """1-based: how many of the allowed are better; ties share a rank."""
    return 1 + int(np.count_nonzero(allowed & (scores > scores[row])))


def _language(found: Recalled) -> str | None:
    """The group of languages that the search held the prompt to be in."""
    half = found.view.meaning
    if half is None or found.vector is None:
        return None
    group = half.groups.of_prompt(half.space, found.text, found.vector)
    return None if group == NO_GROUP else list(load_background())[group]


def _terms(found: Recalled) -> tuple[Term, ...]:
    return tuple(
        Term(
            term=term.term,
            field=term.field,
            weight=term.weight,
            idf=term.idf,
            documents=term.documents,
            counted=term.weight * term.idf,
        )
        for term in found.view.lexical.explain(found.text)
    )


def _slots(shown: Sequence[ShownLike]) -> tuple[SlotAbove, ...]:
    return tuple(
        SlotAbove(
            slot=slot,
            units=sum(units(item.text) for item in shown if item.slot == slot),
            records=tuple(item.record_id for item in shown if item.slot == slot),
        )
        for slot in (1, 2, 3)
    )
