"""Facts: a sensible reading of whatever front matter, folder and name say, and a word about each guess."""

from __future__ import annotations

import datetime as dt

import pytest

from recall_worker.facts import Facts, Split, read_facts, unique_tags
from recall_worker.frontmatter import Header, parse_front_matter
from recall_worker.markdown import Body
from recall_worker.records import Problem, RecordType

TODAY = dt.date(2026, 11, 30)
DAY = dt.date(2026, 11, 2)


def read(text: str = "", *, path: str = "a.md") -> tuple[Facts, tuple[Problem, ...]]:
    """Facts of a file with this front matter."""
    header = parse_front_matter(path, Body.of(text))
    assert isinstance(header, Header)
    return read_facts(path, header, today=TODAY)


def facts(text: str = "", *, path: str = "a.md") -> Facts:
    """Facts that came without a guess."""
    found, problems = read(text, path=path)
    assert not problems
    return found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.md", RecordType.KNOWLEDGE),
        ("profile/a.md", RecordType.PROFILE),
        ("Lessons/a.md", RecordType.LESSON),
        ("lesson/git/2026/a.md", RecordType.LESSON),
        ("lessons/knowledge/a.md", RecordType.KNOWLEDGE),
        ("work/conclusions/a.md", RecordType.CONCLUSION),
        ("03 - Lessons/a.md", RecordType.LESSON),
        ("lessons.md", RecordType.KNOWLEDGE),
        ("lessons-learned/a.md", RecordType.KNOWLEDGE),
        ("profiling/profile.md", RecordType.KNOWLEDGE),
    ],
)
def test_type_by_folder(path: str, kind: RecordType) -> None:
    """Without `type:` the nearest folder named after a type decides, else it is knowledge."""
    assert facts(path=path).type is kind


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((kind.value, kind) for kind in RecordType),
        ("Lessons", RecordType.LESSON),
        ("“lesson”", RecordType.LESSON),
        ("[lesson]", RecordType.LESSON),
        ("lesson,", RecordType.LESSON),
        ("user", RecordType.PROFILE),
        ("feedback", RecordType.LESSON),
        ("project", RecordType.CONCLUSION),
        ("reference", RecordType.KNOWLEDGE),
    ],
)
def test_stated_type(word: str, kind: RecordType) -> None:
    """`type:` wins over the folder, in any spelling, and so do the types of Claude Code's memories."""
    assert facts(f"type: {word}", path="conclusions/a.md").type is kind
    assert facts(f"metadata:\n  type: {word}", path="conclusions/a.md").type is kind


def test_unknown_type() -> None:
    """An unknown type is told with a likely cure, and the folder decides."""
    found, (problem,) = read("tags: a\ntype: leson", path="conclusions/a.md")
    assert found.type is RecordType.CONCLUSION
    assert (problem.path, problem.line, problem.fatal) == ("conclusions/a.md", 2, False)
    assert problem.message == (
        'type "leson" is not one of profile, lesson, conclusion, knowledge. Read as conclusion. '
        "Did you mean lesson?"
    )


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("typ", "type"),
        ("tpye", "type"),
        ("priorty", "priority"),
        ("Projects", "project"),
        ("splits", "split"),
    ],
)
def test_misspelt_keys(key: str, ours: str) -> None:
    """A key that is nearly ours is told, so that no priority is lost without a word."""
    _, (problem,) = read(f"a: b\n{key}: high")
    assert (problem.line, problem.fatal) == (2, False)
    assert f"Did you mean `{ours}`?" in problem.message


def test_keys_of_others() -> None:
    """Keys that other programs read are none of our business, nor is a near one beside the right one."""
    facts(
        "aliases: x\ncssclass: y\nrate: 5\nstate: open\nupdated: 2026-11-02\nid: a\nkind: b\nproject: a\nprojects: b"
    )


def test_an_empty_type_is_none() -> None:
    """A key without a value, as templates leave it, is no fault."""
    assert (
        facts("type:\npriority:\ndate:\nproject: ''\nsplit: ~\nid:", path="lessons/a.md").type
        is RecordType.LESSON
    )


@pytest.mark.parametrize(
    ("word", "high"), [("high", True), ("HIGH", True), ("normal", False), ("low", False)]
)
def test_priority_of_a_lesson(word: str, high: bool) -> None:
    """A lesson of high priority is a prohibition."""
    assert facts(f"priority: {word}", path="lessons/a.md").high is high


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (
            "type: knowledge\npriority: high",
            2,
            "priority high counts for lessons only, and this is knowledge.",
        ),
        ("type: lesson\npriority: urgent", 2, 'priority "urgent" is not high or normal. Read as normal.'),
        ("priority: hihg\ntype: lesson", 1, "Did you mean high?"),
    ],
)
def test_priority_that_does_not_count(text: str, line: int, told: str) -> None:
    """A priority on another type, or one that there is not, is told and makes no prohibition."""
    found, (problem,) = read(text)
    assert not found.high
    assert problem.line == line
    assert told in problem.message


@pytest.mark.parametrize(
    ("text", "path", "date"),
    [
        ("date: 2026-11-02", "2020-01-01-a.md", DAY),
        ("", "2026-11-02-a.md", DAY),
        ("created: 2020-01-01", "2026-11-02-a.md", DAY),
        ("created: 2026-11-02T10:00\nmodified: 2026-11-20", "a.md", DAY),
        ("metadata:\n  modified: 2026-11-02T13:16:34.420Z", "a.md", DAY),
        ("created: soon\nupdated: 2026-11-02", "a.md", DAY),
        ("date:\n- 2026-11-02", "a.md", DAY),
        ("date: [[2026-11-02]]", "a.md", DAY),
        ("created: 2027-01-01", "2027-01-01.md", None),
        ("", "2026-11-02/a.md", None),
    ],
)
def test_date(text: str, path: str, date: dt.date | None) -> None:
    """`date:`, else the file's name, else when it was created or last changed; nothing else states a day."""
    assert facts(text, path=path).date == date


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-13-45", "is no day of the calendar"),
        ("2027-01-01", "lies in the future"),
        ("05/06/2026", "can mean two days"),
        ("{{date}}", "is not one I can read"),
        ("<% tp.date.now() %>", "is not one I can read"),
    ],
)
def test_a_date_that_cannot_be_believed(text: str, reason: str) -> None:
    """Its reason is told, and the file's name stands in, else nothing."""
    for path, date, instead in [("2026-11-02 a.md", DAY, "file's name"), ("a.md", None, "first seen")]:
        found, (problem,) = read(f"date: {text}", path=path)
        assert found.date == date
        assert f'date "{text}" {reason}. Used the' in problem.message
        assert instead in problem.message


@pytest.mark.parametrize(
    ("text", "project"),
    [
        ("project: billing", "billing"),
        ("project: [billing]", "billing"),
        ("project: '[[Projects/Billing|the billing thing]]'", "Billing"),
        ("project: Cafe\u0301", "Café"),
        ("project: 007", "007"),
        ("", None),
    ],
)
def test_project(text: str, project: str | None) -> None:
    """A project is a name, as text or as an Obsidian link."""
    assert facts(text).project == project


def test_several_projects() -> None:
    """Of several the first counts, so that a note never shows in a place that it does not name."""
    found, (problem,) = read("project: [a, b]")
    assert found.project == "a"
    assert "several projects" in problem.message


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("tags: [postgres, '#sql', machine learning]", ("postgres", "sql", "machine learning")),
        ("tags:\n- a\n- A\n- b", ("a", "b")),
        ("tags: a, b c", ("a", "b c")),
        ("tags: a b", ("a", "b")),
        ("tags: #a #b", ("a", "b")),
        ("tags: # none yet", ()),
        ("tag: ฐานข้อมูล", ("ฐานข้อมูล",)),
        ("tags: [1, on, 2026-11-02]", ("1", "on", "2026-11-02")),
        ("tags: [{a: b}, x]", ("x",)),
        ("tags:", ()),
    ],
)
def test_tags(text: str, tags: tuple[str, ...]) -> None:
    """Lists, words and what YAML takes for a comment all give tags, each once."""
    assert facts(text).tags == tags


def test_unique_tags_keep_the_first_spelling() -> None:
    """Obsidian's tags do not differ by the size of letters."""
    assert unique_tags(["Git", "git", "GIT", "b"]) == ("Git", "b")


@pytest.mark.parametrize(
    ("text", "path", "title"),
    [
        ("title: A title\nname: b", "c.md", "A title"),
        ("name: feedback_ui-timeouts", "c.md", "feedback ui timeouts"),
        ("name: UI-timeouts on Windows", "c.md", "UI-timeouts on Windows"),
        ("", "git/accessing-a-lost-commit.md", "accessing a lost commit"),
        ("", "2026-11-02-ประชุม.md", "ประชุม"),
        ("title: " + "long " * 50, "c.md", "long " * 22 + "long long…"),
    ],
)
def test_title(text: str, path: str, title: str) -> None:
    """A stated title, else a name as words, else the file's name as words; never too long."""
    assert facts(text, path=path).title == title


@pytest.mark.parametrize(
    ("word", "split"),
    [
        ("headings", Split.HEADINGS),
        ("Heading", Split.HEADINGS),
        ("items", Split.ITEMS),
        ("list", Split.ITEMS),
    ],
)
def test_split(word: str, split: Split) -> None:
    """Both ways to hold several records, in the words people use."""
    found = facts(f"a: b\nsplit: {word}")
    assert (found.split, found.split_line) == (split, 2)


def test_unknown_split() -> None:
    """Another word is told, and the file stays one record."""
    found, (problem,) = read("split: paragraphs")
    assert found.split is None
    assert 'split "paragraphs" is not headings or items. Read as one record.' in problem.message


def test_id_and_description() -> None:
    """Both are text on one line; a number keeps its zeros."""
    found = facts("id: 007\ndescription: >\n  two\n  lines")
    assert (found.id, found.description) == ("007", "two lines")
