"""Analysis: what a person would call the same word meets, in every script, and nothing typed is lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker.analysis import GRAM, MAX_TERM, analyze, expand, runs


def words(text: str) -> list[str]:
    """Terms of full weight."""
    return analyze(text).words


def grams(text: str) -> set[str]:
    """Terms of lower weight."""
    return set(analyze(text).grams)


@pytest.mark.parametrize(
    ("typed", "whole", "parts"),
    [
        ("snake_case", "snake_case", {"snake", "case"}),
        ("camelCase", "camelcas", {"camel", "case"}),
        ("HTTPServer", "httpserver", {"http", "server"}),
        ("src/app/db.py", "src/app/db.py", {"src", "app", "db.py", "db", "py"}),
        ("--no-verify", "--no-verify", {"no-verify", "no", "verifi"}),
        ("-v", "-v", {"v"}),
        ("E1101", "e1101", {"1101"}),
        ("CVE-2024-1234", "cve-2024-1234", {"cve", "2024", "1234"}),
        ("v2.13.0", "v2.13.0", {"2.13.0", "13"}),
        ("C++", "c++", {"c"}),
        ("c#", "c#", {"c"}),
        (".env", ".env", {"env"}),
        ("std::unordered_map", "std::unordered_map", {"unordered_map", "map"}),
        ("user@example.com", "user@example.com", {"user", "example.com", "exampl"}),
        ("größe_max", "grösse_max", {"grösse", "max"}),
    ],
)
def test_identifiers_are_kept_whole_and_split(typed: str, whole: str, parts: set[str]) -> None:
    """An identifier is indexed as typed and by each of its parts, also inside a sentence or backticks."""
    for text in (typed, f"see `{typed}`, then ({typed})"):
        assert {whole, *parts} <= set(words(text))


def test_spellings_of_one_compound_meet() -> None:
    """Snake, kebab, camel and closed spelling of one name share a term."""
    spelled = [set(words(text)) for text in ("health_check", "health-check", "healthCheck", "healthcheck")]
    assert set.intersection(*spelled)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("migrations", "migration"),
        ("deploying", "deployed"),
        ("Straße", "STRASSE"),
        ("ＰＯＳＴＧＲＥＳ", "postgres"),
        ("ﾃﾞｰﾀﾍﾞｰｽ", "データベース"),
        ("ёлка", "елка"),
        ("миграции", "миграция"),
        ("Ἄνθρωπος", "ΑΝΘΡΩΠΟΣ"),
        ("كِتَابٌ", "كتاب"),
        ("كـــتاب", "كتاب"),
        ("أحمد", "احمد"),
        ("שָׁלוֹם", "שלום"),
        ("क़लम", "कलम"),
        ("लड़कियों", "लड़की"),
        ("İSTANBUL", "istanbul"),
        ("ปี ๒๕๖๗", "ปี 2567"),
        ("٢٠٢٤", "2024"),
        ("น้ำ", "นํ้า"),
        ("soft\u00adhyphen", "softhyphen"),
        ("می\u200cخواهم", "میخواهم"),
        ("ﬁle", "file"),
    ],
)
def test_forms_of_one_word_meet(one: str, other: str) -> None:
    """Inflection, case, width, marks, digits and invisible characters do not part what is one word."""
    assert words(one) == words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("schon", "schön"),
        ("ano", "año"),
        ("ma", "má"),
        ("й", "и"),
        ("か", "が"),
        ("news", "new"),
        ("1234", "12345"),
    ],
)
def test_different_words_stay_apart(one: str, other: str) -> None:
    """Folding does not go so far that words of different meaning become one term."""
    assert set(words(one)).isdisjoint(words(other))


@pytest.mark.parametrize(
    "text",
    [
        "Größe über Äpfel",
        "trường đại học Việt Nam",
        "migración año corazón",
        "データベースが壊れた",
        "한국어 데이터베이스",
        "\u0958लम",
        "λόγος ἀρχή",
    ],
)
def test_normal_forms_meet(text: str) -> None:
    """A note saved in NFD (as macOS names files) and a prompt typed in NFC give the same terms."""
    forms = {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}
    assert len(forms) > 1
    assert len({tuple(words(form)) for form in forms}) == len({frozenset(grams(form)) for form in forms}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "der Datenbankserver und seine Sicherungen wurden überprüft",
        "đường phố Hà Nội trong những ngày này",
        "los niños corrían por las calles después",
        "çocukların okulları kapandı",
    ],
)
def test_english_stemming_leaves_other_languages_searchable(text: str) -> None:
    """Each word of another language still finds itself, and no two words of a sentence become one."""
    assert len(set(words(text))) == len(set(text.casefold().split()))
    for word in text.split():
        assert set(words(word)) <= set(words(text))


def test_words_without_spaces_become_bigrams() -> None:
    """Chinese and Japanese run together: bigrams over the run, single Han, and a katakana word whole."""
    assert words("東京データ") == ["東京", "京デ", "デー", "ータ", "東", "京", "データ"]
    assert words("かな") == ["かな"]
    assert words("木") == ["木"]


def test_thai_is_cut_between_grapheme_clusters() -> None:
    """No vowel or tone mark stands at the head of a term, in Thai, Lao, Khmer and Myanmar."""
    for text in ("ที่นี่มีน้ำ", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာဘာသာ"):
        terms = [*words(text), *grams(text)]
        assert len(terms) > 2
        assert not [term for term in terms if unicodedata.category(term[0]).startswith("M")]


def test_hangul_is_words_and_bigrams() -> None:
    """A particle at the end of a Korean word does not hide the word."""
    assert set(words("데이터베이스")) - {"데이터베이스"} <= set(words("데이터베이스를"))
    assert "한국어" in words("한국어")


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("Sicherung", "Datenbanksicherung"),
        ("migracion", "migración"),
        ("kitap", "kitaplarımızdan"),
        ("المدرسة", "والمدرسة"),
        ("университет", "университетского"),
        ("विद्यालय", "विश्वविद्यालय"),
    ],
)
def test_grams_meet_inside_words(part: str, whole: str) -> None:
    """Compounds, missing accents, endings and prefixes that no stemmer knows meet by n-grams."""
    shared = grams(part) & grams(whole)
    assert len(shared) * 2 >= len(grams(part)) > 0


def test_marks_alone_make_no_difference_to_grams_of_short_words() -> None:
    """A short word with marks leaves its plain letters among the grams, for prompts typed without marks."""
    assert grams("của") == {"cua"}


@pytest.mark.parametrize(
    "text", ["", "   ", "🙂👍🏽👨‍👩‍👧‍👦", "—…!?", "\u200b\ufeff", "\ud800", "\x00\x07", "** --- | > #"]
)
def test_text_without_words_has_no_terms(text: str) -> None:
    """Emoji, punctuation, invisible and broken characters give no terms and no error."""
    assert analyze(text).words == []
    assert analyze(text).length == 0


def test_emoji_do_not_glue_or_split_words() -> None:
    """A word next to an emoji is that word."""
    assert words("deploy🚀now 1️⃣") == [*words("deploy"), *words("now"), "1"]


def test_length_counts_words_not_terms() -> None:
    """Parallel sentences are about as long in any script, although their term counts differ by four."""
    sentences = (
        "The database was restored from last night's backup",
        "ฐานข้อมูลถูกกู้คืนจากข้อมูลสำรองเมื่อคืนนี้",
        "数据库已从昨晚的备份中恢复",
        "データベースは昨夜のバックアップから復元された",
        "데이터베이스가 어젯밤 백업에서 복원되었다",
    )
    lengths = [analyze(sentence).length for sentence in sentences]
    assert max(lengths) <= 3 * min(lengths)
    assert len(words(sentences[1])) > 3 * len(words(sentences[0]))


def test_data_blobs_stay_bounded() -> None:
    """A base64 blob or a minified line is one short term, not thousands of n-grams."""
    blob = "aGVsbG8gd29ybGQ" * 400
    terms = analyze(f"key {blob} end")
    assert len(terms.words) == 3
    assert not terms.grams
    assert max(map(len, terms.words)) == MAX_TERM


@given(st.text(max_size=200))
def test_any_text_is_analysed(text: str) -> None:
    """Whatever is typed gives bounded, encodable terms, the same each time and whatever its case."""
    terms = analyze(text)
    assert analyze(text) == terms
    for term in (*terms.words, *terms.grams):
        assert 0 < len(term) <= 2 * MAX_TERM
        assert term.encode()
    assert terms.length <= len(unicodedata.normalize("NFKC", text))


@given(st.text(st.sampled_from("abcdefgéßжλשم न漢カกค้한 _-./"), max_size=60))
def test_a_text_is_found_by_each_of_its_runs(text: str) -> None:
    """Every run of a text, searched for alone, gives terms that the text has: index and search agree."""
    terms = analyze(text)
    for run in runs(text):
        token = expand(run)
        assert set(token.words) <= set(terms.words)
        assert set(token.grams) <= set(terms.grams)


@given(st.text(st.characters(categories=["L", "M", "N", "P", "Z"]), max_size=80))
def test_normal_form_never_matters(text: str) -> None:
    """NFC, NFD, NFKC and NFKD of any text give one and the same analysis."""
    analysed = [analyze(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert all(other == analysed[0] for other in analysed)


def test_grams_are_of_one_length() -> None:
    """N-grams of long words have `GRAM` characters; no gram is longer."""
    assert {len(gram) for gram in grams("internationalisation")} == {GRAM}


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_plain_text_has_the_same_runs_by_either_pattern(text: str) -> None:
    """The faster pattern for ASCII finds what the one for all scripts finds."""
    from recall_worker.analysis import _ASCII_RUNS, _RUNS

    assert _ASCII_RUNS.findall(text) == _RUNS.findall(text)


def test_digits_newer_than_pythons_tables_are_no_error() -> None:
    """NAG MUNDARI DIGIT ZERO, U+1E4F0: the regex library knows it before Python does."""
    assert analyze("build \U0001e4f0 ok").words[0] == "build"
