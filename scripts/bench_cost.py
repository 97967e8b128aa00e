"""Cost bench: what the digest costs under the vendors' cache rules, for each way of sending it.

Flow:  cost sessions → [bench cost: requests] → cost model → JSON, docs/caching.md
In:    flags.   Out: {"50": {"every_turn": {"cost": 1.0, …}, …}, …} on stdout; words for people on stderr.
Never: tokens of the conversation in the digest's figures; they only stand ahead of it and behind it.
Next:  scripts/plot_cost.py

Ways of sending it, each a conversation of its own with the same turns:
    naive             in a hook, a timestamp on top and the newest first, at every prompt
    every_turn        the hook with the policy of that name
    once_per_session  the hook with the policy of that name
    api_blocks        `recall digest --format …` in a request of one's own, slot 4 in the user's message
    api_blocks_kept   the blocks of the first turn for the whole conversation, what came since in the user's messages
    naive_api         the naive digest at the end of one's own system prompt
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from cost_model import RULES, Bill, Block, Rules, cache_of, count_tokens
from cost_sessions import (
    ROOT,
    Habits,
    Session,
    Turn,
    make_session,
    open_world,
)
from recall_worker.blocks import anthropic_blocks, gemini_blocks, openai_blocks, split_digest

NOTES: Final = ROOT / "../shared/data/vault-til"
DIGEST_KINDS: Final = ("snapshot", "relevant", "digest")
WAYS: Final = ("every_turn", "once_per_session", "naive", "api_blocks", "api_blocks_kept", "naive_api")
TOKENS_AHEAD: Final = 16_000
REMIND_EVERY: Final = 20

Replay = tuple[Bill, int]  # tokens charged; tokens of the digest in the last request


def main(argv: Sequence[str] | None = None) -> int:
    """Replay and print."""
    args = _parser().parse_args(argv)
    notes = args.notes if args.notes.is_dir() else None
    habits = Habits(changes_per_turn=args.changes, pause_s=args.pause)
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="recall-bench-") as scratch:
        _say("indexing the example vault" + (f" and {notes.name}" if notes else ""))
        with open_world(Path(scratch), notes) as world:
            for count in args.turns:
                _say(f"{count} turns, {args.seeds} sessions")
                sessions = [
                    make_session(world, count, seed=seed, habits=habits, remind_every=REMIND_EVERY)
                    for seed in range(1, args.seeds + 1)
                ]
                report[str(count)] = compare(sessions, RULES[args.rules])
                if count == args.vendors_at:
                    report["vendors"] = {
                        name: _briefly(compare(sessions, rules)) for name, rules in RULES.items()
                    }
                    alone = compare(sessions, RULES[args.rules], ahead=0)["api_blocks"]
                    report["api_blocks_without_a_prompt_ahead"] = alone
    report["assumptions"] = _assumptions(args, habits, notes)
    print(json.dumps(report, indent=2) if args.json else _table(report, args.turns))
    return 0


def compare(
    sessions: Sequence[Session], rules: Rules, *, ahead: int = TOKENS_AHEAD
) -> dict[str, dict[str, float]]:
    """Means over sessions for each way of sending the digest; costs relative to every turn's.

    Args:
        ahead: Tokens of system prompt and tools, ahead of everything.
    """
    replays: dict[str, list[Replay]] = {way: [] for way in WAYS}
    for session in sessions:
        for way, digests in session.digests.items():
            replays[way].append(replay_hook(session.turns, digests, rules, ahead))
        heads = [_blocks_of(turn, rules) for turn in session.turns]
        naive = [_part(turn.naive, "snapshot", mark=True) for turn in session.turns]
        for way, sent, in_message in (
            ("api_blocks", heads, session.relevant),
            ("api_blocks_kept", heads[:1] * len(heads), session.since_first),
            ("naive_api", naive, session.relevant),
        ):
            replays[way].append(replay_api(session.turns, sent, in_message, rules, ahead))
    base = _measure(replays["every_turn"], rules, {})
    return {way: _measure(replays[way], rules, base) for way in WAYS}


def replay_hook(turns: Sequence[Turn], digests: Sequence[str], rules: Rules, ahead: int) -> Replay:
    """A client whose hook puts the digest ahead of the prompt, where it stays.

    Breakpoints stand on the system's last block and on the last of all, as Claude Code sets them.
    """
    talk = Conversation(rules)
    for turn, digest in zip(turns, digests, strict=True):
        talk.turn(turn, _ahead(ahead), _part(digest, "digest"))
    return talk.bill, talk.digest_tokens


def replay_api(
    turns: Sequence[Turn],
    heads: Sequence[list[Block]],
    in_message: Sequence[str],
    rules: Rules,
    ahead: int,
) -> Replay:
    """A caller of a model: own prompt, blocks and conversation in this order, the rest ahead of the prompt."""
    talk = Conversation(rules)
    for turn, head, text in zip(turns, heads, in_message, strict=True):
        talk.turn(turn, _ahead(ahead) + head, _part(text, "relevant"))
    return talk.bill, talk.digest_tokens


class Conversation:
    """Requests of one session: each sends everything there is so far, with a breakpoint on the last block."""

    def __init__(self, rules: Rules) -> None:
        """Start empty."""
        self._cache = cache_of(rules)
        self._messages: list[Block] = []
        self.digest_tokens = 0

    @property
    def bill(self) -> Bill:
        """What was charged so far."""
        return self._cache.bill

    def turn(self, turn: Turn, head: Sequence[Block], ahead_of_prompt: Sequence[Block]) -> None:
        """Send a turn's requests: the prompt, then one after each tool call."""
        habits = Habits()
        name = f"turn {turn.number}"
        self._messages += [
            *ahead_of_prompt,
            _other(f"{name} prompt {turn.prompt}", 20 + count_tokens(turn.prompt)),
        ]
        for call, at_s in enumerate(turn.sent_s):
            if call:
                self._messages += [
                    _other(f"{name} call {call}", habits.call_tokens),
                    _other(f"{name} result {call}", habits.result_tokens),
                ]
            request = [*head, *self._messages[:-1], replace(self._messages[-1], breakpoint=True)]
            self._cache.send(request, at_s=at_s)
            self.digest_tokens = sum(block.tokens for block in request if block.kind in DIGEST_KINDS)
        self._messages.append(_other(f"{name} reply", habits.reply_tokens))


def _blocks_of(turn: Turn, rules: Rules) -> list[Block]:
    """The package's own blocks for a vendor, breakpoints where its JSON has them."""
    parts, vendor = split_digest(turn.snapshot), rules.vendor.lower()
    if vendor.startswith("openai"):
        said: Any = openai_blocks(parts, breakpoints=bool(rules.breakpoints))["input"][0]["content"]
    elif vendor.startswith("gemini"):
        said = gemini_blocks(parts)["system_instruction"]["parts"]
    else:
        said = anthropic_blocks(parts)["system"]
    marks = ("cache_control", "prompt_cache_breakpoint")
    return [
        block
        for part in said
        for block in _part(part["text"], "snapshot", mark=any(mark in part for mark in marks))
    ]


def _ahead(tokens: int) -> list[Block]:
    return [_other("system and tools", tokens, mark=True)] if tokens else []


def _part(text: str, kind: str, *, mark: bool = False) -> list[Block]:
    return [Block(text=text, tokens=count_tokens(text), kind=kind, breakpoint=mark)] if text else []


def _other(text: str, tokens: int, *, mark: bool = False) -> Block:
    return Block(text=text, tokens=tokens, breakpoint=mark)


def _measure(replays: Sequence[Replay], rules: Rules, base: dict[str, float]) -> dict[str, float]:
    """Means over sessions; `cost` and the ratios are relative to the base, 1.0 for the base itself."""

    def mean(figure: Callable[[Bill], float]) -> float:
        return statistics.fmean(figure(bill) for bill, _ in replays)

    def total(counts: dict[str, int]) -> int:
        return sum(counts[kind] for kind in DIGEST_KINDS)

    paid = mean(lambda bill: bill.cost(rules, DIGEST_KINDS))
    paid_in_all = mean(lambda bill: bill.cost(rules, [*DIGEST_KINDS, "other"]))
    context = statistics.fmean(tokens for _, tokens in replays)
    snapshot = mean(
        lambda b: (
            b.read["snapshot"] / max(1, b.read["snapshot"] + b.written["snapshot"] + b.uncached["snapshot"])
        )
    )
    return {
        "cost": round(paid / base.get("paid", paid), 3),
        "context": round(context),
        "context_ratio": round(context / base.get("context", context), 3),
        "written": round(mean(lambda bill: total(bill.written))),
        "read": round(mean(lambda bill: total(bill.read))),
        "uncached": round(mean(lambda bill: total(bill.uncached))),
        "paid": round(paid),
        "cost_with_conversation": round(paid_in_all / base.get("paid_in_all", paid_in_all), 3),
        "paid_in_all": round(paid_in_all),
        "snapshot_read_share": round(snapshot, 3),
    }


def _briefly(ways: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    kept = ("cost", "paid", "context", "cost_with_conversation", "snapshot_read_share")
    return {way: {key: figures[key] for key in kept} for way, figures in ways.items()}


def _assumptions(args: argparse.Namespace, habits: Habits, notes: Path | None) -> dict[str, Any]:
    """Everything that another run would have to share, and what the figures leave out."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return {
        "counts": "tokens of the digest alone; the conversation's own stand ahead of it and behind it, so they decide "
        "what is cached, and `cost_with_conversation` counts them too",
        "relative_to": "every_turn of the same row",
        "rules": asdict(RULES[args.rules]),
        "tokens_ahead": TOKENS_AHEAD,
        "tokens": "estimated, about four letters of English each",
        "habits": asdict(habits),
        "remind_every": REMIND_EVERY,
        "slot_4": "real search, BM25 alone, prompts are titles of notes: fuller than usual",
        "strides": "published at once; the worker lets them wait for a pause, so fewer fall into a session",
        "compaction": "none: a client would compact a long session, and every policy then starts anew",
        "notes": notes.name if notes else "example vault alone",
        "sessions": args.seeds,
        "commit": subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip(),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench cost", description="Reckon what the digest costs.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 50, 200], help="lengths of sessions")
    parser.add_argument("--seeds", type=int, default=3, help="sessions of each length")
    parser.add_argument("--rules", choices=RULES, default="anthropic", help="whose cache")
    parser.add_argument("--vendors-at", type=int, default=50, help="length at which all vendors are compared")
    parser.add_argument(
        "--changes", type=float, default=Habits().changes_per_turn, help="vault changes a turn"
    )
    parser.add_argument(
        "--pause", type=float, default=Habits().pause_s, help="mean pause between turns, seconds"
    )
    parser.add_argument("--notes", type=Path, default=NOTES, help="folder of notes that become dated lessons")
    return parser


def _table(report: dict[str, Any], counts: Sequence[int]) -> str:
    lines = [f"{'turns':>5}  {'':<17}{'cost':>6} {'context':>8} {'written':>8} {'read':>10} {'uncached':>8}"]
    for count in counts:
        for way, row in report[str(count)].items():
            lines.append(
                f"{count:>5}  {way:<17}{row['cost']:>6.2f} {row['context']:>8,} {row['written']:>8,} "
                f"{row['read']:>10,} {row['uncached']:>8,}"
            )
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
