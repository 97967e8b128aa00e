"""Explain types: what `recall explain --json` prints, field by field.

Flow:  prompt → answer → explain → [explain_types] → `recall explain`
Never: behaviour; a field whose name says another thing than in the glossary.
Next:  worker/recall_worker/explain.py
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term that BM25 looked up: as `QueryTerm`.

    Attributes:
        counted: What it adds to the prompt's idf mass, weight times idf.
    """

    term: str
    field: str
    weight: float
    idf: float
    documents: int
    counted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAbove:
    """One of slots 1 to 3.

    Attributes:
        slot: 1 profile, 2 prohibitions, 3 recent.
        units: UTF-16 units of its records' texts, without heading, dates and bullets.
        records: Their ids, in order.
    """

    slot: int
    units: int
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One passage, what was found out about it, and what became of it. Ranks are among what the prompt may recall.

    Attributes:
        rank: 1-based by fused score, over all candidates.
        passage: 0-based place in its record.
        excerpt: How its text begins.
        bm25: Score; 0 where no term meets.
        bm25_rank: None where no term meets.
        words: BM25+ as a share of the prompt's idf mass, ratio from 0 to about 3.
        cosine: None where it is not embedded, or without an encoder.
        cosine_rank: None likewise.
        meaning: Cosine above the level of its language, in standard deviations over the vault; None likewise.
        fused: What orders the candidates.
        held: Share of what the prompt says that it holds, ratio 0 to 1; None past the best 64.
        above: How far above the floor it lies, below 0 under it; None likewise.
        priors: What moved the score beside words and meaning, name and amount: none does (docs/decisions/0010).
        fate: A verdict of `digest.Fate`, or `below the floor`, `other project`, `not among the best 24`.
        other: Id of the record that it repeats or gives way to, else empty.
        ratio: How much of it that shows, 0 to 1; 0 where it does not apply.
    """

    rank: int
    record: str
    passage: int
    title: str
    excerpt: str
    path: str
    line: int
    date: str
    type: str
    project: str | None
    bm25: float
    bm25_rank: int | None
    words: float
    cosine: float | None
    cosine_rank: int | None
    meaning: float | None
    fused: float
    held: float | None
    above: float | None
    priors: tuple[tuple[str, float], ...]
    fate: str
    other: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that decided one prompt's slot 4.

    Attributes:
        searched: What BM25 searched for; empty for a prompt that gets nothing: a client's command, say.
        by: `words and meaning`, or `words alone` without a vector.
        language: ISO 639-1 code of the group of notes that the prompt was held to be in, None if of none.
        project: The prompt's project, None for none.
        passages: Passages that can be found.
        embedded: How many of them have a vector.
        terms: What BM25 looked up, the most informative first.
        above: Slots 1 to 3.
        above_units: UTF-16 units of slots 1 to 3, headings included.
        room_units: UTF-16 units that slot 4 might take.
        relevant: Slot 4 as it stands in the digest, empty if nothing is shown.
        relevant_units: UTF-16 units of it.
        candidates: Best first.
    """

    prompt: str
    searched: str
    by: str
    language: str | None
    project: str | None
    passages: int
    embedded: int
    terms: tuple[Term, ...]
    above: tuple[SlotAbove, ...]
    above_units: int
    room_units: int
    relevant: str
    relevant_units: int
    candidates: tuple[Candidate, ...]
