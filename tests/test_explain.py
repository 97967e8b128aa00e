"""Explain: every fate on a small vault, told by the code that answers hooks, in a form that programs can rely on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from recall_worker.answer import Answerer
from recall_worker.cli import main
from recall_worker.config import Budget, Config
from recall_worker.errors import UsageError
from recall_worker.explain import Asked, above_of, explain, read_order
from recall_worker.explain_types import Candidate, Explanation, SlotAbove, Term
from recall_worker.frames import Client, Event, Request, unpack_answer
from recall_worker.hybrid import HybridIndex
from recall_worker.languages import load_language_space
from recall_worker.ledger import Ledger
from recall_worker.projects import Projects
from recall_worker.rebuild import embed_all
from recall_worker.refresh import Publisher
from toy_encoder import ToyEncoder
from vaults import config_of, rescan, write_note

GOLDEN = Path(__file__).parent / "golden"
PROMPT = "why does the office vpn drop idle sessions after ten minutes?"
NOTES = {
    "lessons/newest.md": (
        "Restart it: the office VPN does drop idle sessions after ten minutes, at noon and on Mondays.",
        {"date": "2026-05-01"},
    ),
    "knowledge/now.md": (
        "Why the office VPN does drop idle sessions after ten minutes: a keep-alive of sixty seconds holds them.",
        {"date": "2026-03-01"},
    ),
    "knowledge/then.md": (
        "Why the office VPN does drop idle sessions after two minutes: a keep-alive of sixty seconds holds them.",
        {"date": "2025-03-01"},
    ),
    "knowledge/copy.md": ("# Now\n\nVPN does drop idle sessions after ten minutes", {"date": "2026-03-01"}),
    "knowledge/tax.md": ("Invoices are rounded line by line.", {"date": "2026-01-01"}),
    "knowledge/theirs.md": (
        "Ask billing: their office VPN does drop idle sessions, and after ten minutes.",
        {"date": "2026-01-02", "project": "billing"},
    ),
    "knowledge/long.md": (
        "\n\n".join(
            f"## Part {n}\n\nWhy the office VPN may drop idle sessions after ten minutes, part {n}: "
            + " ".join(f"{word}{n}{i}" for i in range(16) for word in ("gate", "route", "mtu"))
            for n in range(1, 5)
        ),
        {"date": "2026-02-01"},
    ),
}


@dataclass(frozen=True)
class Desk:
    """What answers and explains, in one process."""

    config: Config
    ledger: Ledger
    index: HybridIndex
    publisher: Publisher
    projects: Projects
    answerer: Answerer

    def explain(self, prompt: str, *, directory: Path = Path("/"), top: int = 50) -> Explanation:
        """As the daemon does."""
        return explain(
            Asked(prompt=prompt, directory=directory, top=top),
            self.answerer.project_of(directory, remember=False),
            answerer=self.answerer,
            ledger=self.ledger,
            view=self.index.view,
            above=lambda scope: above_of(self.publisher.published[scope or ""], self.ledger),
        )

    def slot_4(self, prompt: str) -> str:
        """What a hook gets."""
        request = Request(
            event=Event.PROMPT, client=Client.CLAUDE_CODE, scope=b"/", deadline_ms=20_000,
            snapshot_sha256=self.publisher.published[""].sha256, body=json.dumps({"prompt": prompt}).encode(),
        )  # fmt: skip
        return str(json.loads(b'"' + unpack_answer(self.answerer.answer(request)).payload + b'"'))


def open_desk(tmp_path: Path, *, encoder: ToyEncoder | None, budget: Budget) -> Iterator[Desk]:
    """The notes, indexed and published."""
    config = config_of(tmp_path, budget=budget)
    for name, (text, front) in NOTES.items():
        write_note(config.vault, name, text, **front)
    with (
        Ledger.open(config.state_dir / "ledger.sqlite3") as ledger,
        HybridIndex(config.state_dir / "g", ledger) as index,
    ):
        projects = Projects(config.projects, ledger)
        publisher = Publisher(config, ledger, projects)
        answerer = Answerer(
            config, ledger, projects,
            view=lambda: index.view, published=lambda: publisher.published, encoder=encoder,
        )  # fmt: skip
        rescan(config, ledger)
        index.follow()
        publisher.publish()
        if encoder is not None:
            space = load_language_space(encoder, name=encoder.name, folder=config.state_dir / "models")
            index.attach(encoder.name, encoder.dimension, space)
            embed_all(index, encoder, progress=lambda *_: None)
        yield Desk(config, ledger, index, publisher, projects, answerer)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Words and the toy encoder's meaning."""
    yield from open_desk(tmp_path, encoder=ToyEncoder(), budget=Budget())


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Desk]:
    """Words alone, and a slot of two lines."""
    yield from open_desk(
        tmp_path, encoder=None, budget=Budget(relevant_units=330, relevant_reserved_units=330)
    )


def fates(explained: Explanation) -> dict[tuple[str, int], tuple[str, str]]:
    """Record and passage to verdict and the record it gives way to."""
    return {(item.record, item.passage): (item.fate, item.other) for item in explained.candidates}


def test_every_candidate_has_its_fate(desk: Desk) -> None:
    """One of each: what is shown, and every reason why something is not."""
    found = fates(desk.explain(PROMPT))
    assert found["lessons/newest.md", 0] == ("repeats an earlier slot", "lessons/newest.md")
    assert found["knowledge/now.md", 0] == ("shown", "")
    assert found["knowledge/then.md", 0] == ("older version", "knowledge/now.md")
    assert found["knowledge/copy.md", 0] == ("repeats a better hit", "knowledge/now.md")
    assert found["knowledge/tax.md", 0] == ("below the floor", "")
    assert found["knowledge/theirs.md", 0] == ("other project", "")
    parts = [found["knowledge/long.md", passage] for passage in range(4)]
    assert parts.count(("shown", "")) == 2
    assert parts.count(("enough of this record", "knowledge/long.md")) == 2
    assert len(found) == 10


def test_what_does_not_fit_is_told(cramped: Desk) -> None:
    """The room is part of the story."""
    explained = cramped.explain(PROMPT)
    verdicts = [fate for fate, _ in fates(explained).values()]
    assert "no room" in verdicts
    assert explained.relevant_units <= explained.room_units == 330


def test_it_says_what_a_hook_gets(desk: Desk, cramped: Desk) -> None:
    """The same text to the byte, so an explanation never disagrees with an answer."""
    for place in (desk, cramped):
        for prompt in (PROMPT, "invoices", "nothing of the kind 🦥", "/clear", "", "vpn"):
            assert place.explain(prompt).relevant == place.slot_4(prompt)


def test_shown_candidates_are_those_of_the_text(desk: Desk) -> None:
    """Each shown passage's text stands in the slot, no other one's does."""
    explained = desk.explain(PROMPT, top=1)
    shown = [item for item in explained.candidates if item.fate == "shown"]
    assert len(shown) == explained.relevant.count("\n- (") > 1
    assert all(item.excerpt[:60] in explained.relevant for item in shown)


def test_evidence_is_ranked_and_complete(desk: Desk) -> None:
    """Best first; the best by words and by cosine have rank 1; nothing below the floor is shown."""
    explained = desk.explain(PROMPT)
    items = explained.candidates
    assert [item.fused for item in items] == sorted((item.fused for item in items), reverse=True)
    assert [item.rank for item in items] == list(range(1, len(items) + 1))
    assert {item.bm25_rank for item in items} >= {1}
    assert {item.cosine_rank for item in items} >= {1}
    assert all((item.bm25_rank is None) == (item.bm25 == 0) for item in items)
    assert all(item.above >= 0 for item in items if item.fate == "shown")
    assert all(item.above is None or item.above < 0 for item in items if item.fate == "below the floor")
    assert (explained.by, explained.language, explained.embedded) == (
        "words and meaning",
        "en",
        explained.passages,
    )
    assert "vpn" in {term.term for term in explained.terms if term.documents}


def test_without_an_encoder_there_is_no_cosine(cramped: Desk) -> None:
    """Words decide alone, and it says so."""
    explained = cramped.explain(PROMPT)
    assert (explained.by, explained.language) == ("words alone", None)
    assert {(item.cosine, item.cosine_rank, item.meaning) for item in explained.candidates} == {
        (None, None, None)
    }


def test_inside_a_project_its_notes_are_in_reach(desk: Desk, tmp_path: Path) -> None:
    """By the directory, as for a hook; only looking does not bind a repository to a project."""
    inside = tmp_path / "billing"
    (inside / ".git").mkdir(parents=True)
    explained = desk.explain(PROMPT, directory=inside)
    assert explained.project == "billing"
    assert fates(explained)["knowledge/theirs.md", 0][0] == "shown"
    assert desk.ledger.project_directory("billing") is None


def test_slots_above_are_listed(desk: Desk) -> None:
    """Ids and units of what the snapshot shows."""
    above = desk.explain(PROMPT).above
    assert [slot.slot for slot in above] == [1, 2, 3]
    assert above[2].records == ("lessons/newest.md",)
    assert above[2].units == len(
        "newest: Restart it: the office VPN does drop idle sessions after ten minutes, at noon and on Mondays."
    )


def test_a_prompt_that_is_not_searched_has_no_candidates(desk: Desk) -> None:
    """The client's own command."""
    explained = desk.explain("/clear")
    assert (explained.searched, explained.candidates, explained.relevant) == ("", (), "")


@pytest.mark.parametrize(
    "order", [{}, {"prompt": 1, "directory": "/"}, {"prompt": "x", "directory": "/", "top": "9"}]
)
def test_a_malformed_order_is_refused(order: dict[str, object]) -> None:
    """With a sentence, not a traceback."""
    with pytest.raises(UsageError, match="explain: wanted"):
        read_order(order)


def test_the_fields_are_a_promise() -> None:
    """Names and kinds of everything that `--json` prints; programs read them."""
    kinds = (Explanation, SlotAbove, Term, Candidate)
    fields = {
        kind.__name__: {item.name: str(item.type) for item in dataclasses.fields(kind)} for kind in kinds
    }
    assert fields == json.loads((GOLDEN / "explain-fields.json").read_text())


def test_help_is_a_reviewed_file() -> None:
    """`recall explain --help`."""
    run = CliRunner().invoke(main, ["explain", "--help"], prog_name="recall", terminal_width=100)
    assert run.output == (GOLDEN / "help" / "explain.txt").read_text()
