"""Lexical query: whatever is typed is text, and its informative terms decide."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from recall_worker.analysis_stopwords import stop_words_of
from recall_worker.lexical_scoring import GRAMS, WORDS, Bm25, lucene_idf
from tests.lexical_helpers import best, filled, ids


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("snake_case_name", ["snake case", "snake"]),
        ("parseHttpHeader", ["parse header", "http header"]),
        ("src/app/ledger.py", ["ledger.py", "ledger", "app ledger"]),
        ("--no-verify", ["no-verify", "verify"]),
        ("E1101", ["e1101", "1101"]),
        ("CVE-2024-31497", ["cve 2024 31497", "31497"]),
        ("v2.13.0", ["2.13.0", "v2.13"]),
        ("C++", ["c++"]),
        ("c#", ["C#"]),
        (".env", ["env file", ".ENV"]),
    ],
)
def test_an_identifier_finds_its_note(tmp_path: Path, identifier: str, parts: list[str]) -> None:
    """Typed whole or by parts, an identifier finds the note that has it among some that nearly have it."""
    decoys = [
        "verified cases named after a snail",
        "see app for the map",
        "version 3.14.1",
        "error E1102 in c code",
    ]
    opened = filled(tmp_path / "lexical", [*decoys, f"Remember: {identifier} broke the nightly build once"])
    for query in (identifier, f"why does {identifier} fail?", *parts):
        assert best(opened, query, 5) == 5, query


@pytest.mark.parametrize("composed", [True, False])
def test_normal_forms_find_each_other(tmp_path: Path, composed: bool) -> None:
    """A note in NFD is found by a prompt in NFC, and the reverse."""
    import unicodedata

    forms = ("NFC", "NFD") if composed else ("NFD", "NFC")
    texts = [
        unicodedata.normalize(forms[0], text)
        for text in ("größere Brücke", "データガード", "đường phố", "쓰레기")
    ]
    opened = filled(tmp_path / "lexical", texts)
    for number, text in enumerate(texts, 1):
        assert best(opened, unicodedata.normalize(forms[1], text), 4) == number


@pytest.mark.parametrize(
    "query",
    [
        'words:"alpha" AND (beta OR NOT gamma)',
        "alpha* ?eta ~2 ^5 [a TO z] {",
        'passage:1 "unclosed',
        "+alpha -beta",
        "\\",
        "(((((",
        "''; DROP TABLE passages; --",
        "<alpha> $(beta) %s {0}",
    ],
)
def test_whatever_is_typed_is_text(tmp_path: Path, query: str) -> None:
    """Query syntax of any engine is read as words: the same answer as its words alone."""
    opened = filled(tmp_path / "lexical", ["alpha beta", "gamma", "drop table", "words passage"])
    plain = "".join(char if char.isalnum() else " " for char in query)
    np.testing.assert_array_equal(opened.scores(query, ids(4)).values, opened.scores(plain, ids(4)).values)


def test_long_prompts_are_cut_to_their_informative_terms(tmp_path: Path) -> None:
    """Of a prompt of 5,000 words at most 32 words and 24 grams are scored, the rare ones among them."""
    common = [f"filler{chr(97 + n)}{chr(97 + m)}" for n in range(20) for m in range(20)]
    opened = filled(tmp_path / "lexical", [*(" ".join(common) for _ in range(5)), "the zymurgist's kettle"])
    prompt = " ".join([*random.Random(1).choices(common, k=5_000), "zymurgist"])
    found = opened.scores(prompt, ids(6))
    terms = opened.explain(prompt)
    assert "zymurgist" in found.terms
    assert len(found.terms) == sum(term.field == WORDS for term in terms) == 32
    assert sum(term.field == GRAMS for term in terms) <= 24
    assert found.values[5] > 0


def test_coverage_is_the_share_of_the_prompt_explained(tmp_path: Path) -> None:
    """1 if the best passage has every term, 0 if nothing meets; unknown words weigh most."""
    opened = filled(tmp_path / "lexical", ["alpha beta", "alpha gamma", "alpha delta"])
    assert opened.scores("alpha beta", ids(3)).coverage == pytest.approx(1)
    assert opened.scores("unheard", ids(3)).coverage == 0
    common, rare, unknown = (opened.explain(word)[0].idf for word in ("alpha", "beta", "unheard"))
    assert common < rare < unknown == pytest.approx(lucene_idf(3, 0))
    assert opened.scores("beta unheard", ids(3)).coverage == pytest.approx(rare / (rare + unknown))


def test_stop_words_count_less_but_count(tmp_path: Path) -> None:
    """Function words do not outvote the topic, and a prompt of nothing else still finds its words."""
    chatter = ["what did you do to it then", "when you were there", "did you do it", "what were you to do"]
    opened = filled(tmp_path / "lexical", [*chatter, "vacuum settings"])
    assert best(opened, "what did you do to the vacuum there", 5) == 5
    assert best(opened, "what did you do", 5) == 1


@pytest.mark.parametrize(
    ("prompt", "stops", "kept"),
    [
        ("clean up the bin folder on this os", {"the", "this"}, {"bin", "folder", "os"}),
        ("wo ist die Sicherung der Datenbank", {"die", "der", "ist"}, {"sicherung"}),
        ("bin folder missing", set(), {"bin", "folder"}),
        ("データベース", set(), {"データベース"}),
        ("ποια είναι η βάση", {"ποια", "η"}, {"βάση"}),
        ("डेटाबेस क्या है", {"है"}, {"डेटाबेस"}),
        ("cái gì là cơ sở dữ liệu", {"cái", "gì", "là"}, {"sở", "liệu"}),
        ("jak przywrócić bazę danych i kiedy to było", {"jak", "i", "kiedy"}, {"bazę", "danych"}),
    ],
)
def test_stop_words_are_of_the_prompts_language(prompt: str, stops: set[str], kept: set[str]) -> None:
    """The list is chosen by the prompt: German `bin` and Portuguese `os` are nouns in an English one."""
    found = stop_words_of(prompt.casefold().split())
    assert stops <= found
    assert kept.isdisjoint(found)


@pytest.mark.parametrize(
    ("prompt", "stop", "kept"),
    [
        (
            "東京大学のキャンパスはどこにありますか",
            {"どこ", "あり", "ます", "すか", "のキ"},
            {"東京", "大学"},
        ),
        ("东京大学的创始人是谁", {"的创", "人是", "是谁"}, {"东京", "创始"}),
        ("ทฤษฎีนี้คืออะไร", {"อะ", "ไร"}, {"ทฤ", "ษฎี"}),
    ],
)
def test_stop_words_without_spaces_count_less(
    tmp_path: Path, prompt: str, stop: set[str], kept: set[str]
) -> None:
    """Thai, Japanese and Chinese function words are found inside a sentence, and its topic keeps its weight."""
    opened = filled(tmp_path / "lexical", [prompt])
    weights = {term.term: term.weight for term in opened.explain(prompt) if term.field == WORDS}
    assert {weights[term] for term in kept} == {1.0}
    assert {weights[term] for term in stop} == {Bm25().stop_weight}
