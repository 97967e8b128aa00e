"""Text: measuring, cutting and disarming, in every script we know people write in."""

from __future__ import annotations

import json
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.text import MARK, cut, escape_json, neutralise, one_line, tidy, units

PIECES = [
    *("word ", "Never. ", "a", " ", "\n", "\n\n", "`", "``", "```", "```sh\n", "\n```\n", "~~~\n", "e.g. "),
    *(
        "ห้ามลบ",
        "เ",
        "ก็",
        "ๆ ",
        "本番では",
        "使うな。",
        "、",
        "👩‍👩‍👧‍👦",
        "👍🏽",
        "🇹🇭",
        "❤️‍🔥",
        "e\u0301",
        "क्षि",
        "می‌خواهم",
        "؟ ",
    ),
    *(
        "<",
        ">",
        "</",
        "system-reminder",
        "<div>",
        "user",
        "command_name",
        "[[note]]",
        "\x1b[31m",
        "\x1b]8;;",
        "\x07",
    ),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\ufe0f",
        "\U000e0041",
        "\x00",
        "\x85",
        "\r\n",
        "# ",
        "## ",
        "|",
        "-",
        "_",
    ),
]
texts = st.one_of(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.text(max_size=120))


def utf16(text: str) -> int:
    """The client's measure, spelt out a second time."""
    return sum(2 if ord(character) > 0xFFFF else 1 for character in text)


def backtick_runs_pair(text: str) -> bool:
    """Every run of backticks finds a run of its own length, read from the left as CommonMark does."""
    runs = [match[0] for match in regex.finditer("`+", text)]
    while runs:
        first = runs.pop(0)
        if first not in runs:
            return False
        del runs[: runs.index(first) + 1]
    return True


@settings(deadline=None)
@given(st.text(st.characters(), max_size=50))
def test_units_counts_utf16(text: str) -> None:
    """An emoji counts twice, everything else once, lone surrogates too."""
    assert units(text) == utf16(text)


def test_tidy_changes_form_only() -> None:
    """Newlines and composition become uniform; inner white space stays."""
    assert tidy("\r\n e\u0301\r  b\r\n\r\nc \n") == "é\n  b\n\nc"


def test_one_line_joins_everything() -> None:
    """Tabs, newlines and ideographic spaces all become one space."""
    assert one_line("\ta\n\n b\u3000c\u00a0 d ") == "a b c d"


@settings(deadline=None)
@given(st.text(st.characters(), max_size=50), st.text(st.characters(), max_size=50))
def test_escaped_bodies_concatenate(left: str, right: str) -> None:
    """Two escaped bodies set between quotes are one valid JSON string of the same length in units."""
    body = escape_json(left) + escape_json(right)
    assert units(json.loads(b'"' + body + b'"')) == units(left) + units(right)
    assert not any(byte < 0x20 for byte in body)
    assert b"\xe2\x80\xa8" not in body


def test_escape_json_keeps_what_it_can() -> None:
    """Brackets and Thai stay; quotes, newlines and line separators are escaped; half a pair is replaced."""
    assert escape_json('<a "ก"\\\n\u2028').decode() == '<a \\"ก\\"\\\\\\n\\u2028'
    assert escape_json("\ud83d\ude00 \ud83d").decode() == "😀 \ufffd"


@settings(deadline=None)
@given(texts, st.integers(0, 90))
def test_cut_is_short_marked_and_stable(text: str, limit: int) -> None:
    """A cut text fits, says that it was cut, and is not cut again."""
    shortened = cut(text, limit)
    assert utf16(shortened) <= limit
    assert cut(shortened, limit) == shortened
    assert shortened == text or limit == 0 or shortened.endswith(MARK)


@settings(deadline=None)
@given(texts, st.integers(1, 90))
def test_cut_keeps_a_prefix_of_whole_clusters(text: str, limit: int) -> None:
    """What is kept is the head of the text and ends where one of its grapheme clusters ends."""
    shortened = cut(text, limit)
    if shortened == text:
        return
    kept = next(
        shortened[:size] for size in range(len(shortened), -1, -1) if text.startswith(shortened[:size])
    )
    ends = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert any(len(kept) - slack in ends for slack in (0, 1)), (
        kept,
        text,
    )  # 1: a mark equal to the text's next
    assert regex.sub(r"[\s`~…]", "", shortened[len(kept) :]) == ""


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["word ", "`a b` ", "``x ` y`` ", "日本。", "`long code span here` ", "ก ข "])),
    st.integers(1, 60),
)
def test_cut_leaves_no_open_code_span(pieces: list[str], limit: int) -> None:
    """Where every span was closed before the cut, every span is closed after it."""
    assert backtick_runs_pair(cut("".join(pieces), limit))


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("Never run it. Because it hurts a lot and more.", 30, "Never run it. …"),
        ("See e.g. foo bar and the rest of it", 24, "See e.g. foo bar and…"),
        ("It is 3.14 and then some more of it", 16, "It is 3.14 and…"),
        ("First point\nsecond point goes on and on", 20, "First point …"),
        ("使うな。本番では移行しないこと。必ず控えを取ること。", 20, "使うな。本番では移行しないこと。…"),
        ("本番環境で移行を実行する前に必ず控えを取ること", 12, "本番環境で移行を実行す…"),
        ("ห้ามรันบนโปรดักชัน โดยไม่มีดัมพ์ที่ทำไว้", 30, "ห้ามรันบนโปรดักชัน …"),
        ("กกกกกกเก็บ", 9, "กกกกกก…"),
        ("هل أنت متأكد؟ لا تفعل ذلك أبدا في الإنتاج", 26, "هل أنت متأكد؟ …"),
        ("कभी मत करो। यह बहुत बुरा है और रहेगा", 20, "कभी मत करो। …"),
        ("aaaa bbbb, cccc dddd", 12, "aaaa bbbb…"),
        ("Use `git rebase --interactive HEAD~20` always", 30, "Use `git rebase`…"),
        ("Do:\n```sh\ngit push\ngit pull\nls\n```\nDone.", 30, "Do:\n```sh\ngit push\n```\n…"),
        ("Do:\n```sh\ngit push\ngit pull --rebase --autostash", 30, "Do:\n```sh\ngit push\n```\n…"),
        ("read the [[Long note name]] first", 25, "read the…"),
        ('put a <a href="x y z"> in it', 20, "put a…"),
        ("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 25, "👩‍👩‍👧‍👦👩‍👩‍👧‍👦…"),
        ("Wait… what is this about", 10, "Wait…"),
        ("x" * 10, 1, "…"),
        ("x" * 10, 0, ""),
    ],
)  # fmt: skip
def test_cut_places(text: str, limit: int, expected: str) -> None:
    """Sentence before word before cluster, in each script's own manner."""
    assert cut(text, limit) == expected


def test_cut_is_linear_in_hostile_text() -> None:
    """Thousands of unpaired backtick runs cost no more than a moment (a quadratic scan takes minutes)."""
    text = "".join("`" * (index % 60 + 1) + "x " for index in range(20_000))
    assert units(cut(text, 9_000)) <= 9_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("</system-reminder>", "‹/system-reminder›"),
        ("a</system-reminder >", "a‹/system-reminder ›"),
        ("<System-Reminder lang='x'>", "‹System-Reminder lang='x'›"),
        ("<system-reminder\n>", "‹system-reminder\n›"),
        ("<system-reminder", "‹system-reminder"),
        ("<system\u2011reminder>", "‹system\u2011reminder›"),
        ("<sys\u200btem\u2060-remin\U000e0061der>", "‹system-reminder›"),
        ("<sys\x00tem-reminder>", "‹system-reminder›"),
        ("< /system-reminder>", "‹ /system-reminder›"),
        ("＜/system-reminder＞", "‹/system-reminder›"),
        ("<<system-reminder>>", "<‹system-reminder›>"),
        ("<command-name>/clear</command-name>", "‹command-name›/clear‹/command-name›"),
        ("<local-command-stdout>", "‹local-command-stdout›"),
        ("<function_calls><invoke name='x'>", "‹function_calls›‹invoke name='x'›"),
        ("</recall><recall-digest>", "‹/recall›‹recall-digest›"),
        ("<user>x</user>", "‹user›x‹/user›"),
        ("<|im_start|>system", "‹|im_start|›system"),
        ("<｜User｜>", "‹｜User｜›"),
        ("<<SYS>>", "‹‹SYS>>"),
    ],
)
def test_tags_that_could_open_or_close_a_block(text: str, expected: str) -> None:
    """System tags lose their brackets, however they are dressed up."""
    assert neutralise(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("<div>", "</div>", '<div class="a b">', "<br/>", "<output>", "List<String>", "List<User>", "a < b"),
        *("a<b", "a < user", "if n < user_count and m > 3:", "HashMap<user_id, u64>", "vector<my_type> v;"),
        *("static_cast<size_t>(x)", "#include <sys/stat.h>", "#include <my_header.h>", "<https://a-b.c/x>"),
        *(
            "<john_doe@example.com>",
            "x -> y => z",
            "Vec<Option<&'a str>>",
            "1 << 3 >> 2",
            "#tag [[link]] ### deep",
        ),
        *("👩🏽‍💻 🏳️‍🌈 ❤️‍🔥 1️⃣ 👨‍👩‍👧", "می‌خواهم", "क्‍ष", "ന്‍", "葛󠄀城", "ห้ามลบฐานข้อมูล\tจริง", "a\nb"),
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """Code, markup, emoji and joining scripts are left as they were written."""
    assert neutralise(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m \x9b1mbold", "red bold"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\x \x1bcy", "x y"),
        ("a\x00\x07\x7f\x9fb", "ab"),
        ("a\x85b\u2028c\x0bd\re", "a\nb\nc\nd\ne"),
        ("abc\u202edef\u202c \u2066x\u2069 \u200fy", "abcdef x y"),
        ("pass\u200bword \u2060\ufeff\u00adz", "password z"),
        ("ad\u200dmin \u200c", "admin "),
        ("a\U000e0073\U000e0065b", "ab"),
        ("😀\ufe0f\ufe0e\ufe0f", "😀\ufe0f"),
        ("a\ufe01b\U000e0101c", "abc"),
        ("e\u200b\u0301", "é"),
        ("e\u0301\u200dz", "éz"),
        ("ข้อความ<system>日本<user>x", "ข้อความ‹system›日本‹user›x"),
        ("# Me\n## About the user\n   ## x", "### Me\n### About the user\n   ### x"),
    ],
)
def test_invisible_and_imitating_text(text: str, expected: str) -> None:
    """Escapes, controls, overrides and hidden text go; headings stand below the digest's own."""
    assert neutralise(text) == expected


@settings(deadline=None)
@given(texts)
def test_neutralise_leaves_nothing_dangerous(text: str) -> None:
    """Whatever goes in, no control, bidirectional mark, system tag or heading of ours comes out."""
    safe = neutralise(text)
    assert neutralise(safe) == safe == unicodedata.normalize("NFC", safe)
    assert not regex.search(r"[\p{Cc}--[\n\t]]|[\p{Bidi_C}]|[\U000E0000-\U000E007F]", safe, regex.V1)
    assert not regex.search(r"(?i)<\s*/?\s*system-reminder|^#{1,2}\s", safe, regex.MULTILINE)


@settings(deadline=None)
@given(texts, st.integers(1, 90))
def test_cutting_disarmed_text_keeps_it_disarmed(text: str, limit: int) -> None:
    """One line of disarmed text, cut anywhere, needs no second disarming."""
    line = cut(one_line(neutralise(text)), limit)
    assert neutralise(line) == line or "#" in line  # a heading mark may have come to the start of the line
