"""Notes: bytes of a file into records, however broken the file, and nothing private in any of it."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_worker.errors import NoteError
from recall_worker.notes import ParsedNote, parse_note
from recall_worker.records import PassageDraft, RecordDraft, RecordType
from recall_worker.text import tidy

TODAY = dt.date(2026, 11, 30)
DAY = dt.date(2026, 11, 2)
LIMIT = 100_000


def parse(text: str | bytes, *, path: str = "a.md") -> ParsedNote:
    """What a file with this content holds."""
    data = text.encode() if isinstance(text, str) else text
    return parse_note(path, data, max_bytes=LIMIT, today=TODAY)


def records(text: str | bytes, *, path: str = "a.md") -> tuple[RecordDraft, ...]:
    """Its records, read without a guess."""
    note = parse(text, path=path)
    assert note.problems == ()
    return note.records


def test_the_example_of_the_design() -> None:
    """Every key of the front matter finds its place."""
    text = (
        "---\ntype: lesson            # profile | lesson | conclusion | knowledge\npriority: high\n"
        "date: 2026-11-02\nproject: billing\ntags: [postgres]\n---\n"
        "Never run a migration against production without a dump taken the same hour.\n"
    )
    words = "Never run a migration against production without a dump taken the same hour."
    assert records(text, path="db/dump-first.md") == (
        RecordDraft(
            key="db/dump-first.md",
            stated_id=False,
            type=RecordType.LESSON,
            high=True,
            date=DAY,
            project="billing",
            tags=("postgres",),
            title="dump first",
            text=words,
            line=8,
            passages=(PassageDraft(ordinal=0, title_path="dump first", text=words, line=8),),
        ),
    )


def test_title_is_not_repeated() -> None:
    """The heading of level 1 becomes the title and the path, and leaves the text."""
    (record,) = records("---\ntitle: Other\n---\n\n# ฐานข้อมูล\n\nห้ามลบ\n", path="x.md")
    assert (record.title, record.text, record.line) == ("ฐานข้อมูล", "ห้ามลบ", 7)
    assert record.passages[0].title_path == "ฐานข้อมูล"


@pytest.mark.parametrize(
    "text", ["# Never push on Friday", "\n# Never push on Friday\n\n", "Never push on Friday\n==="]
)
def test_a_heading_alone_is_the_text(text: str) -> None:
    """A note of nothing but a heading says what the heading says."""
    (record,) = records(text)
    assert (record.text, record.title) == ("Never push on Friday", "")
    assert record.passages == (PassageDraft(ordinal=0, title_path="", text=record.text, line=record.line),)


def test_a_description_alone_is_the_text() -> None:
    """An empty body leaves the word to the description."""
    (record,) = records("---\nname: ui-timeouts\ndescription: 5 s on Windows\n---\n")
    assert (record.title, record.text) == ("ui timeouts", "5 s on Windows")


@pytest.mark.parametrize(
    "text", ["", " \n\n", "---\ntype: lesson\n---\n", "<!-- x -->", "<private>x</private>", "\ufeff"]
)
def test_no_words_no_records(text: str) -> None:
    """A file without words holds no record and is no fault."""
    assert records(text) == ()


def test_claude_code_memory() -> None:
    """A memory as Claude Code writes it becomes the record that it is."""
    text = (
        '---\nname: feedback_integration-tests\ndescription: "Integration tests: no mocks"\nmetadata: \n'
        "  node_type: memory\n  type: feedback\n  originSessionId: 9bcb5645\n  modified: 2026-11-02T07:40:18.191Z\n"
        "---\n\nIntegration tests hit a real database.\n\n**Why:** a mock passed.\n"
    )
    (record,) = records(text, path="memory/feedback_integration-tests.md")
    assert (record.type, record.date, record.title) == (RecordType.LESSON, DAY, "feedback integration tests")
    assert record.text.startswith("Integration tests hit a real database.")


def test_obsidian_habits() -> None:
    """Links, callouts, embeds and block ids stay as they are; tags are found where Obsidian finds them."""
    text = (
        "# Redis #ops\n\nSee [[Projects/Redis|our Redis]], ![[plan.png]] and [[#Part]]. #cache #ops/redis #2026 "
        "x#no (#no) `#no` #日本語 #ห้าม\n\n> [!warning] Careful\n> #callout text\n\n"
        "```sh\n#no comment\n```\n\n    #no indented\n\n#Cache text ^block-1\n"
    )
    (record,) = records(text)
    assert record.tags == ("ops", "cache", "ops/redis", "日本語", "ห้าม", "callout")
    for kept in ("[[Projects/Redis|our Redis]]", "![[plan.png]]", "> [!warning] Careful", "text ^block-1"):
        assert kept in record.text


def test_split_at_headings() -> None:
    """One file holds a record for each heading, with keys of their own and what the file says of all."""
    text = (
        "---\ntype: conclusion\ndate: 2026-01-05\ntags: [adr]\nsplit: headings\n---\n"
        "# Decisions\n\nWhat we decided.\n\n## 2026-11-02 Use Postgres\n\nOne database. #db\n\n"
        "## Queue\n\n### Why\n\nSimple.\n\n## Queue\n\nAgain.\n\n## Later\n"
    )
    found = records(text, path="adr.md")
    assert [record.key for record in found] == [
        "adr.md#2026-11-02 Use Postgres",
        "adr.md#Queue",
        "adr.md#Queue~2",
        "adr.md#Later",
        "adr.md",
    ]
    assert [record.text for record in found] == [
        "One database. #db",
        "### Why\n\nSimple.",
        "Again.",
        "Later",
        "What we decided.",
    ]
    assert [record.date for record in found] == [DAY, *[dt.date(2026, 1, 5)] * 4]
    assert [record.tags for record in found] == [("adr", "db"), *[("adr",)] * 4]
    assert [record.type for record in found] == [*[RecordType.CONCLUSION] * 4, RecordType.KNOWLEDGE]
    assert [record.line for record in found] == [13, 17, 23, 25, 9]
    assert found[1].passages[0].title_path == "Decisions › Queue"


def test_split_at_items() -> None:
    """One file holds a record for each item; the words around the list are no prohibition."""
    text = (
        "---\nsplit: items\npriority: high\nid: rules\n---\nNever do these:\n\n"
        "- force-push to main\n- 2026-11-02: drop a table by hand\n  - not even in staging ^t1\n"
    )
    found = records(text, path="lessons/rules.md")
    assert [record.key for record in found] == ["rules#force-push to main", "rules#^t1", "rules"]
    assert [(record.high, record.stated_id) for record in found] == [
        (True, True),
        (True, True),
        (False, True),
    ]
    assert found[1].text == "drop a table by hand\n- not even in staging ^t1"
    assert [record.line for record in found] == [8, 9, 6]


@pytest.mark.parametrize("split", ["headings", "items"])
def test_nothing_to_split(split: str) -> None:
    """A file that cannot be split as it says is one record, and the person is told."""
    note = parse(f"---\nsplit: {split}\n---\njust words")
    assert [record.key for record in note.records] == ["a.md"]
    assert [(problem.line, problem.fatal) for problem in note.problems] == [(2, False)]


def test_keys_never_collide() -> None:
    """A heading that looks like a second key gets a key of its own."""
    found = records("---\nsplit: headings\n---\n## A\n1\n## A~2\n2\n## A\n3\n## A\n4")
    assert len({record.key for record in found}) == 4


# --- encodings -----------------------------------------------------------------------------------

SAMPLE = "---\ntype: lesson\ntags: [บทเรียน]\n---\n# ชื่อ\n\nห้ามลบ 本番 👍 é\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-sig", "utf-32"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encodings_and_newlines(encoding: str, newline: str) -> None:
    """UTF-8, and UTF-16 or UTF-32 with a mark, with any newline, give one and the same note."""
    text = SAMPLE.replace("\n", newline)
    data = b"\xfe\xff" + text.encode("utf-16-be") if encoding == "utf-16-be-sig" else text.encode(encoding)
    assert parse(data) == parse(SAMPLE)


def test_decomposed_text_is_composed() -> None:
    """NFD, as macOS and some keyboards give it, reads like NFC."""
    assert parse(unicodedata.normalize("NFD", SAMPLE)) == parse(SAMPLE)


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        (b"ok\r\nok\r\ncaf\xe9\r\n", 3, "the file is not UTF-8"),
        ("ok\n\nห้าม".encode("cp874"), 3, "the file is not UTF-8"),
        ("日本".encode("shift_jis"), 1, "the file is not UTF-8"),
        ("ok\nห้าม".encode()[:-1], 2, "the file is not UTF-8"),
        (b"\xff\xfea\x00\n\x00\x00\xd8", 2, "the file is not UTF-16"),
        ("ok\nb".encode("utf-16-le"), 1, "the file is not text (it has NUL bytes)"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", 1, "the file is not UTF-8"),
        (b"ok\nPK\x00\x00", 2, "the file is not text (it has NUL bytes)"),
        (b"x" * (LIMIT + 1), None, "the file has 100,001 bytes, more than max_note_bytes (100,000)"),
    ],
)
def test_files_that_are_not_notes(data: bytes, line: int | None, problem: str) -> None:
    """What is not text in Unicode, or too much of it, is refused with its place."""
    with pytest.raises(NoteError) as caught:
        parse(data, path="x/y.md")
    assert (caught.value.path, caught.value.line, caught.value.problem) == ("x/y.md", line, problem)


# --- broken in the ways people break notes -------------------------------------------------------

READABLE = {
    "crlf and bom": "\ufeff---\r\ntype: lesson\r\n---\r\nWORDS",
    "blank lines first": "\n\n---\ntype: lesson\n---\nWORDS",
    "tabs": "---\ntype:\tlesson\ntags:\n\t- a\n---\nWORDS",
    "smart dashes": "—\ntype: lesson\n—\nWORDS",
    "smart quotes": "---\ntype: “lesson”\n---\nWORDS",
    "wide colon": "---\ntype：lesson\n---\nWORDS",
    "no-break space": "---\ntype:\u00a0lesson\n---\nWORDS",
    "zero-width space": "---\n\u200btype: lesson\u200b\n---\nWORDS",
    "capitals": "---\nType: LESSON\n---\nWORDS",
    "plural": "---\ntype: lessons\n---\nWORDS",
    "closed by dots": "---\ntype: lesson\n...\nWORDS",
    "spaces behind fences": "---  \ntype: lesson\n---\t\nWORDS",
    "comment": "---\n# mine\ntype: lesson # yours\n---\nWORDS",
    "list": "---\ntype: [lesson]\n---\nWORDS",
    "empty keys": "---\ntype: lesson\ndate:\ntags:\nproject:\n---\nWORDS",
    "hash tags": "---\ntype: lesson\ntags: #a #b\n---\nWORDS",
    "indented keys": "---\n  type: lesson\n  tags: a\n---\nWORDS",
    "unclosed code": "---\ntype: lesson\n---\nWORDS\n```sh\nrm",
    "unclosed comment": "---\ntype: lesson\n---\nWORDS %% and",
    "rule at the end": "---\ntype: lesson\n---\nWORDS\n\n---\n",
    "unknown tag": "---\ntype: !lesson lesson\n---\nWORDS",
}


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE.keys())
def test_readable_all_the_same(text: str) -> None:
    """What a person reads without a doubt is read without a word."""
    (record,) = records(text)
    assert record.type is RecordType.LESSON
    assert record.text.startswith("WORDS")


TOLD = {
    "twice": ("---\ntype: knowledge\ntype: lesson\n---\nWORDS", 3, "`type` stands twice"),
    "template date": ("---\ntype: lesson\ndate: {{date}}\n---\nWORDS", 3, "is not one I can read"),
    "impossible date": ("---\ntype: lesson\ndate: 2026-02-30\n---\nWORDS", 3, "is no day of the calendar"),
    "future date": ("---\ntype: lesson\ndate: 2036-01-01\n---\nWORDS", 3, "lies in the future"),
    "unknown type": ("---\n\ntype: lessson\n---\nWORDS", 3, "Did you mean lesson?"),
    "toml": ('+++\ntype = "lesson"\n+++\nWORDS', 1, "TOML"),
    "no colon": ("---\ntype lesson\n---\nWORDS", 1, "is not front matter"),
    "words between rules": ("---\nonce upon a time\n---\nWORDS", 1, "is not front matter"),
    "below the title": ("# T\n---\ntype: lesson\n---\nWORDS", 2, "look like front matter"),
    "in a code fence": ("```\n---\ntype: lesson\n---\nWORDS\n```", 2, "look like front matter"),
    "pasted twice": ("---\ntype: lesson\n---\n---\ntype: lesson\n---\nWORDS", 4, "look like front matter"),
    "never opened": ("type: lesson\n---\nWORDS", 1, "look like front matter"),
    "misspelt key": ("---\ntype: lesson\npriorty: high\n---\nWORDS", 3, "Did you mean `priority`?"),
    "merge conflict": ("<<<<<<< HEAD\nWORDS\n=======\nmore\n>>>>>>> x", 1, "merge conflict"),
    "unclosed private": ("---\ntype: lesson\n---\nWORDS\n<private>\nmore", 5, "<private> is never closed"),
    "unopened private": ("---\ntype: lesson\n---\nmore\n</private>\nWORDS", 5, "</private> closes nothing"),
    "unclosed html comment": ("---\ntype: lesson\n---\nWORDS\n\n<!-- more", 6, "<!-- is never closed"),
}


@pytest.mark.parametrize(("text", "line", "told"), TOLD.values(), ids=TOLD.keys())
def test_read_with_a_guess(text: str, line: int, told: str) -> None:
    """What needs a guess is read, and told with its line, in sentences that end."""
    note = parse(text, path="lessons/a.md")
    assert "WORDS" in note.records[-1].text
    (problem,) = note.problems
    assert (problem.path, problem.line, problem.fatal) == ("lessons/a.md", line, False)
    assert told in problem.message
    assert problem.message.endswith((".", "?"))


REFUSED = {
    "colon in a value": ("---\ntype: lesson\ntitle: Redis: the bad parts\n---\nWORDS", 3),
    "never closed": ("---\ntype: lesson\n\nWORDS", 1),
    "closed too late": ("---\ntype: lesson\n\nWORDS\n\n---\nmore", 4),
    "open quote": ('---\ntitle: "Redis\ntype: lesson\n---\nWORDS', 2),
    "open bracket": ("---\ntags: [a, b\ntype: lesson\n---\nWORDS", 2),
    "sign": ("---\ntype: lesson\nauthor: @me\n---\nWORDS", 3),
    "stars": ("---\ntype: lesson\ntitle: *never*\n---\nWORDS", 3),
    "merge conflict": ("---\n<<<<<<< HEAD\ntype: lesson\n=======\ntype: knowledge\n>>>>>>> x\n---\nWORDS", 2),
    "stray list": ("---\ntype: lesson\n- a\n---\nWORDS", 3),
}


@pytest.mark.parametrize(("text", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_its_line(text: str, line: int) -> None:
    """What nobody can read safely is refused, with the line to mend and how, and no word of the note."""
    with pytest.raises(NoteError) as caught:
        parse(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"a.md:{line}: front matter ")
    assert caught.value.fix
    assert not re.search("WORDS|Redis|never\\*|@me", str(caught.value))


# --- whatever the file ---------------------------------------------------------------------------

MARKUP = st.one_of(
    st.sampled_from(
        ["---\n", "type: lesson\n", "split: items\n", "split: headings\n", "date: x\n", "tags: #a\n"]
    ),
    st.sampled_from(
        ["# a\n", "## b\n", "- i\n", "  - j\n", "> q\n", "```\n", "`", "%%", "<!--", "-->", "\n", "\t"]
    ),
    st.sampled_from(["w ", "ก็ ", "\r\n", "\r", "\u2028", "\x0c", "&a *a ", "title: x\n", "<b>", "</"]),
)
NOTES = st.lists(MARKUP, max_size=25).map("".join)
ODD_NOTES = st.lists(
    st.one_of(MARKUP, st.sampled_from(["<private>", "</private>", "\x00"]), st.text(max_size=5)), max_size=40
).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass"))


@settings(deadline=None, max_examples=200)
@given(st.one_of(ODD_NOTES, st.binary(max_size=60)))
def test_only_note_errors_and_only_sound_records(data: bytes) -> None:
    """Any bytes give sound records or a NoteError."""
    try:
        note = parse(data, path="ก/a.md")
    except NoteError:
        return
    keys = [record.key for record in note.records]
    assert len(keys) == len(set(keys))
    for record in note.records:
        assert record.text == tidy(record.text) != ""
        assert record.passages
        assert [passage.ordinal for passage in record.passages] == list(range(len(record.passages)))
        assert all(passage.text == tidy(passage.text) != "" for passage in record.passages)


@settings(deadline=None, max_examples=200)
@given(NOTES, NOTES, NOTES)
def test_nothing_private_leaks(before: str, inside: str, after: str) -> None:
    """Words between private tags are in no record, key, tag, path or message, whatever stands around them."""
    text = f"{before}<private>SECRET{inside}SECRET</private>{after}"
    try:
        shown = repr(parse(text))
    except NoteError as error:
        shown = f"{error} {error.__cause__} {error.__context__}"
    assert "SECRET" not in shown
