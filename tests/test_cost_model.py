"""Cost model: each vendor's rules against requests reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model import RULES, Bill, Block, Rules, cache_of, count_tokens

KINDS = ("snapshot", "relevant", "digest", "other")


def block(text: str, tokens: int, *, mark: bool = False, kind: str = "other") -> Block:
    """A block in one line."""
    return Block(text=text, tokens=tokens, kind=kind, breakpoint=mark)


def bills(rules: Rules, *requests: tuple[float, list[Block]]) -> list[tuple[int, int, int]]:
    """Written, read and uncached tokens of each request."""
    cache, found, before = cache_of(rules), [], (0, 0, 0)
    for at_s, blocks in requests:
        cache.send(blocks, at_s=at_s)
        bill = cache.bill
        now = (bill.written.total(), bill.read.total(), bill.uncached.total())
        found.append((now[0] - before[0], now[1] - before[1], now[2] - before[2]))
        before = now
    return found


class TestAnthropic:
    """Whole blocks, breakpoints, look-back, minimum, life."""

    RULES = RULES["anthropic"]

    def test_written_once_then_read(self) -> None:
        """2,000 tokens up to the mark are written, then read; the 50 behind it cost the input price both times."""
        blocks = [block("s", 2_000, mark=True), block("p", 50)]
        assert bills(self.RULES, (0, blocks), (10, blocks)) == [(2_000, 0, 50), (0, 2_000, 50)]

    def test_price(self) -> None:
        """1.25 × 2,000 + 50, then 0.1 × 2,000 + 50: 2,800 input tokens."""
        cache = cache_of(self.RULES)
        for at_s in (0, 10):
            cache.send([block("s", 2_000, mark=True), block("p", 50)], at_s=at_s)
        assert cache.bill.cost(self.RULES, KINDS) == pytest.approx(2_500 + 50 + 200 + 50)

    def test_price_of_an_hour(self) -> None:
        """2 × 2,000 to write, and 50 minutes later 0.1 × 2,000 to read, where five minutes would write again."""
        cache = cache_of(RULES["anthropic-1h"])
        for at_s in (0, 3_000):
            cache.send([block("s", 2_000, mark=True)], at_s=at_s)
        assert cache.bill.cost(RULES["anthropic-1h"], KINDS) == pytest.approx(4_000 + 200)
        assert bills(self.RULES, *[(at, [block("s", 2_000, mark=True)]) for at in (0, 3_000)])[1] == (
            2_000,
            0,
            0,
        )

    def test_minimum_counts_what_stands_ahead(self) -> None:
        """1,023 tokens up to the mark are too few, 1,024 are enough, whoever they belong to."""
        assert bills(self.RULES, (0, [block("a", 23), block("s", 1_000, mark=True)])) == [(0, 0, 1_023)]
        assert bills(self.RULES, (0, [block("a", 24), block("s", 1_000, mark=True)])) == [(1_024, 0, 0)]

    def test_life_is_counted_from_the_last_use(self) -> None:
        """Used after 299 s and again 300 s later it is still there; 301 s later it is written again."""
        blocks = [block("s", 2_000, mark=True)]
        found = bills(self.RULES, (0, blocks), (299, blocks), (599, blocks), (900, blocks))
        assert found == [(2_000, 0, 0), (0, 2_000, 0), (0, 2_000, 0), (2_000, 0, 0)]

    def test_a_grown_block_is_a_new_block(self) -> None:
        """A text that got longer is written whole; in blocks of its own only what was added is."""
        whole = bills(
            self.RULES,
            (0, [block("s", 2_000, mark=True), block("a", 100, mark=True)]),
            (9, [block("s", 2_000, mark=True), block("ab", 200, mark=True)]),
        )
        parts = bills(
            self.RULES,
            (0, [block("s", 2_000, mark=True), block("a", 100, mark=True)]),
            (9, [block("s", 2_000, mark=True), block("a", 100), block("b", 100, mark=True)]),
        )
        assert (whole[1], parts[1]) == ((200, 2_000, 0), (100, 2_100, 0))

    @pytest.mark.parametrize(("added", "read"), [(19, 2_000), (20, 0)])
    def test_look_back(self, added: int, read: int) -> None:
        """Twenty blocks are searched, the marked one among them: 19 new ones hide no entry, 20 do."""
        first = [block("s", 2_000, mark=True)]
        more = [block(f"{number}", 1) for number in range(added - 1)] + [block("last", 1, mark=True)]
        assert bills(self.RULES, (0, first), (9, [block("s", 2_000), *more]))[1] == (
            2_000 + added - read,
            read,
            0,
        )

    def test_only_where_an_entry_was_written(self) -> None:
        """A beginning that two requests share is no hit where the first had no breakpoint."""
        found = bills(
            self.RULES,
            (0, [block("s", 2_000), block("a", 10, mark=True)]),
            (9, [block("s", 2_000), block("b", 10, mark=True)]),
        )
        assert found[1] == (2_010, 0, 0)

    def test_a_change_ahead_loses_everything_behind(self) -> None:
        """One other block at the start, and all that follows is written again."""
        found = bills(
            self.RULES,
            (0, [block("t1", 10), block("s", 2_000, mark=True)]),
            (9, [block("t2", 10), block("s", 2_000, mark=True)]),
        )
        assert found[1] == (2_010, 0, 0)

    def test_five_breakpoints(self) -> None:
        """More than the vendor takes is a mistake of the caller."""
        with pytest.raises(ValueError, match="4 breakpoints, got 5"):
            cache_of(self.RULES).send([block(f"{n}", 1, mark=True) for n in range(5)], at_s=0)


class TestOpenAI:
    """Any beginning of 1,024 tokens in steps of 128, and breakpoints with the newer models."""

    RULES = RULES["openai"]

    def test_steps(self) -> None:
        """Of 1,300 shared tokens 1,280 are read: 1,024 and two steps of 128."""
        first, second = [block("s", 1_300), block("a", 100)], [block("s", 1_300), block("b", 100)]
        assert bills(self.RULES, (0, first), (9, second)) == [(0, 0, 1_400), (0, 1_280, 120)]

    def test_minimum(self) -> None:
        """1,023 shared tokens are none."""
        first, second = [block("s", 1_023), block("a", 500)], [block("s", 1_023), block("b", 500)]
        assert bills(self.RULES, (0, first), (9, second))[1] == (0, 0, 1_523)

    def test_inside_a_block(self) -> None:
        """A block that only grew is shared up to where it grew: 1,100 + 4 tokens, so 1,024 are read."""
        ahead, old = block("s", 1_100), "alpha beta gamma delta"
        new = f"{old} epsilon"
        assert (count_tokens(old), count_tokens(new)) == (4, 6)
        rules = replace(self.RULES, step_tokens=1)
        first, second = [ahead, block(old, 4, kind="snapshot")], [ahead, block(new, 6, kind="snapshot")]
        assert bills(rules, (0, first), (9, second))[1] == (0, 1_104, 2)
        assert bills(self.RULES, (0, first), (9, second))[1] == (0, 1_024, 82)

    def test_life(self) -> None:
        """Five minutes without use and it is gone."""
        blocks = [block("s", 1_280)]
        assert bills(self.RULES, (0, blocks), (300, blocks), (601, blocks))[1:] == [
            (0, 1_280, 0),
            (0, 0, 1_280),
        ]

    def test_newer_models_match_at_breakpoints_only(self) -> None:
        """Without a mark the vendor's own one stands behind slot 4, and the next request reads nothing."""
        rules = RULES["openai-5.6"]
        bare = [(at, [block("s", 2_000), block(f"r{at}", 100)]) for at in (0, 9)]
        marked = [(at, [block("s", 2_000, mark=True), block(f"r{at}", 100)]) for at in (0, 9)]
        assert bills(rules, *bare)[1] == (2_100, 0, 0)
        assert bills(rules, *marked)[1] == (100, 2_000, 0)


def test_gemini_minimum() -> None:
    """2,047 shared tokens are none, 2,048 are all."""
    for shared, read in ((2_047, 0), (2_048, 2_048)):
        first, second = [block("s", shared), block("a", 9)], [block("s", shared), block("b", 9)]
        assert bills(RULES["gemini"], (0, first), (9, second))[1] == (0, read, shared + 9 - read)


def test_a_bill_tells_whose_tokens_they_are() -> None:
    """1,000 tokens ahead and 600 of a snapshot, of which the cache held the first 1,200: 200 are the snapshot's."""
    bill = Bill()
    blocks = [block("a", 1_000), block("s", 600, kind="snapshot"), block("r", 50, kind="relevant")]
    bill.add(blocks, hit_tokens=1_200, written_until=1_600)
    assert (bill.read["other"], bill.read["snapshot"], bill.written["snapshot"]) == (1_000, 200, 400)
    assert (bill.uncached["relevant"], bill.uncached["snapshot"]) == (50, 0)


@pytest.mark.parametrize("name", RULES)
@given(sizes=st.lists(st.lists(st.integers(1, 900), min_size=1, max_size=30), min_size=1, max_size=6))
def test_no_token_is_lost(name: str, sizes: list[list[int]]) -> None:
    """Whatever is sent, each token is written, read or uncached."""
    cache = cache_of(RULES[name])
    for at_s, request in enumerate(sizes):
        blocks = [block(f"{n}-{size}", size, mark=n % 10 == 0) for n, size in enumerate(request)]
        cache.send(blocks, at_s=at_s)
    bill = cache.bill
    assert bill.written.total() + bill.read.total() + bill.uncached.total() == sum(map(sum, sizes))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("Never run a migration against production without a dump taken the same hour. " * 9, 3.5, 5.0),
        ("ห้ามรันไมเกรชันบนโปรดักชันโดยไม่มีดัมพ์ " * 9, 1.0, 2.5),
        ("本番では移行を実行しないこと。" * 9, 1.0, 1.5),
    ],
)
def test_estimate(text: str, low: float, high: float) -> None:
    """Characters a token stay in the range that vendors state for a script."""
    assert low <= len(text) / count_tokens(text) <= high
