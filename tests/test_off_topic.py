"""Off-topic: the shares count what they say, and the command prints them for corpora and for plain vaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from recall_worker.cli import main
from recall_worker.dataset import read_dataset
from recall_worker.off_topic import CURVE, Silence, halve

NOTES = {
    "a": "Vacuum freezes old rows of the orders table at night.",
    "b": "The tea kitchen is on the second floor beside the lift.",
    "c": "Invoices are rounded line by line, never at the total.",
    "d": "The office printer wants a badge before it prints.",
}
QUESTIONS = {
    "a": "when does vacuum freeze rows of the orders table?",
    "b": "on which floor is the tea kitchen?",
    "c": "are invoices rounded line by line?",
    "d": "does the office printer want a badge?",
}


def write_corpus(folder: Path) -> Path:
    """Four notes, a question for each."""
    folder.mkdir()
    rows = [{"_id": name, "title": "", "text": text} for name, text in NOTES.items()]
    asked = [{"_id": f"q{name}", "text": text} for name, text in QUESTIONS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    (folder / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{name}\t{name}\t1\n" for name in NOTES)
    )
    return folder


def run(tmp_path: Path, *arguments: str) -> dict[str, object]:
    """What `recall eval` prints as JSON, words alone."""
    result = CliRunner().invoke(
        main, ["eval", *arguments, "--state", str(tmp_path / "state"), "--set", "model=none", "--json"]
    )
    assert result.exit_code == 0, result.output
    printed: dict[str, object] = json.loads(result.stdout)
    return printed


def test_shares_are_of_what_reaches_the_bar() -> None:
    """The bar itself is close enough; nothing at all has no share."""
    silence = Silence(off_topic=(-1.0, 0.0, 2.0, float("-inf")), gold=(0.5, -0.5))
    assert silence.at(0) == {"bar": 0, "injected": 0.5, "survived": 0.5}
    assert silence.at(1) == {"bar": 1, "injected": 0.25, "survived": 0.0}
    assert Silence(off_topic=(), gold=()).at(0) == {"bar": 0, "injected": None, "survived": None}


def test_shares_fall_along_the_curve() -> None:
    """A higher bar lets less through, of either kind."""
    curve = Silence(off_topic=(-2.0, 0.0, 1.0), gold=(-1.0, 3.0)).summary()["curve"]
    assert [at["bar"] for at in curve] == list(CURVE)
    for name in ("injected", "survived"):
        shares = [at[name] for at in curve]
        assert shares == sorted(shares, reverse=True)


def test_half_a_corpus_makes_the_other_half_off_topic(tmp_path: Path) -> None:
    """Every other document stays, with the questions that it answers."""
    half, off_topic = halve(read_dataset(write_corpus(tmp_path / "corpus")))
    assert [document.id for document in half.documents] == ["a", "c"]
    assert [question.id for question in half.questions] == ["qa", "qc"]
    assert off_topic == [QUESTIONS["b"], QUESTIONS["d"]]


def test_the_command_measures_silence(tmp_path: Path) -> None:
    """Questions about the notes survive, questions about others bring nothing up; recall is printed beside it."""
    printed = run(tmp_path, str(write_corpus(tmp_path / "corpus")), "--half")
    silence = printed["off_topic"]
    assert isinstance(silence, dict)
    assert (silence["queries"], silence["gold"]) == (2, 2)
    assert (silence["injected"], silence["survived"]) == (0.0, 1.0)
    assert printed["records"] == 2
    assert "fused" in printed


def test_a_plain_vault_can_be_asked_off_topic(tmp_path: Path) -> None:
    """Nothing is judged there: only what is brought up counts."""
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "tea.md").write_text("The tea kitchen is on the second floor beside the lift.")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        '{"_id": 1, "text": "who won the world cup?"}\n'
        '{"_id": 2, "text": "is the tea kitchen on the second floor?"}\n'
    )
    printed = run(tmp_path, str(vault), "--off-topic", str(prompts))
    silence = printed["off_topic"]
    assert isinstance(silence, dict)
    assert (silence["queries"], silence["gold"], silence["injected"], silence["survived"]) == (
        2,
        0,
        0.5,
        None,
    )
    assert "fused" not in printed


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("{", "prompts.jsonl:1: not JSON"),
        ('{"_id": "a"}', "prompts.jsonl:1: wanted text in 'text'"),
        ('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}', "prompts.jsonl:2: the id 'a' stands twice"),
    ],
)
def test_malformed_prompts_name_the_line(tmp_path: Path, rows: str, words: str) -> None:
    """As for any dataset."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(rows)
    result = CliRunner().invoke(main, ["eval", str(tmp_path), "--off-topic", str(prompts)])
    assert result.exit_code != 0
    assert words in (result.output + result.stderr)


def test_a_table_is_printed_for_people(tmp_path: Path) -> None:
    """The floor's own row is named."""
    corpus = write_corpus(tmp_path / "corpus")
    result = CliRunner().invoke(
        main, ["eval", str(corpus), "--half", "--state", str(tmp_path / "s"), "--set", "model=none"]
    )
    assert "the floor" in result.stdout
    assert "2 off-topic prompts" in result.stdout
