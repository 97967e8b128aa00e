"""Secret patterns: what a key, token or password looks like where people paste it into a note.

Flow:  vault → withheld → [secret patterns] → secret passages → notes → records → ledger
In:    lines of a note.   Out: which of them hold a secret, and of what kind.
Never: a found value leaves this module; a rule that goes by randomness alone (hashes, ids and CSS would fall).
Next:  worker/recall_worker/secret_passages.py
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final

import regex

RULES: Final = 1
"""Raise it with every change of what is found, so that notes which have not changed are read again."""

_PIECE: Final = 4_096
_OVERLAP: Final = 1_024
"""A run without spaces is looked at in pieces, so that no pattern sees one long enough to take seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret stands.

    Attributes:
        first: 0-based index of its first line.
        last: Index of its last line.
        kind: What it is, for people: never any of its characters.
    """

    first: int
    last: int
    kind: str


def find_secrets(lines: Sequence[str]) -> tuple[Secret, ...]:
    """Find the lines that hold a secret.

    Marks that Markdown needs (`ghp\\_…`) and invisible characters inside a value do not hide it.

    Args:
        lines: Without their newlines.

    Returns:
        In the order of lines, at most one of a kind on a line.
    """
    text = _plain("\n".join(lines))
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    found = {(bisect_right(starts, offset) - 1, kind) for offset, kind in _hits(text)}
    secrets = [Secret(first=line, last=line, kind=kind) for line, kind in found]
    if "PRIVATE KEY" in text or "PuTTY-User-Key" in text:
        secrets += _private_keys(text.split("\n"))
    return tuple(sorted(secrets, key=lambda secret: (secret.first, secret.last, secret.kind)))


_INVISIBLE: Final = regex.compile(r"[[\p{Cf}\p{DI}]--[\n]]", regex.V1)
_ESCAPED: Final = re.compile(r"\\(?=[_.~+=*-])")


def _plain(text: str) -> str:
    """The characters that a reader of the digest would copy; newlines stay where they are."""
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return _ESCAPED.sub("", text) if "\\" in text else text


def _hits(text: str) -> Iterator[tuple[int, str]]:
    """Offset and kind of everything found, but for private keys."""
    for run in _LONG_RUN.finditer(text):
        start, length = run.start(), len(run[0])
        for offset in range(0, max(1, length - _OVERLAP), _PIECE - _OVERLAP):
            piece = run[0][offset : offset + _PIECE]
            if _DIGIT.search(piece) and (kind := _kind_of(piece)):
                yield start + offset, kind
    if "://" in text:
        for match in _URL.finditer(text):
            if _is_password_of(match["user"], match["value"]):
                yield match.start("value"), "password in a URL"
    lowered = text.lower()
    if any(name in lowered for name in _NAMES):
        for match in _NAMED.finditer(text):
            if _is_secret_value(match["value"], is_password=match["password"] is not None):
                yield match.start("value"), "password" if match["password"] else "named secret"
    for kind, words, pattern in _IN_CONTEXT:
        if any(word in lowered for word in words):
            values = ((match["value"], match.start("value")) for match in pattern.finditer(text))
            yield from ((start, kind) for value, start in values if not _GAP.fullmatch(value))


# --- what vendors hand out: one run of characters, told by its prefix or its make -------------------

_LONG_RUN: Final = re.compile(r"[^\s\"'`<>()|,;]{20,}")
_DIGIT: Final = re.compile(r"[0-9]")

_OWN: Final = tuple(
    (kind, re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})"))
    for kind, pattern in (
        ("JSON web token", r"eyJ[\w-]{8,2000}\.eyJ[\w-]{8,}"),
        ("API key", r"sk-(?=[\w-]{0,200}[0-9])(?=[\w-]{0,200}[A-Z]|[\w-]{0,40}[0-9a-f]{32})[\w-]{20,}"),
        ("API key", r"gsk_\w{40,}|xai-\w{40,}|r8_\w{37}|pplx-\w{40,}|nvapi-[\w-]{60,}"),
        ("GitHub token", r"github_pat_\w{22,}"),
        ("Google key", r"AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{20,}|GOCSPX-[\w-]{28}"),
        ("Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
        ("npm token", r"npm_[A-Za-z0-9]{36}"),
        ("Slack token", r"xox[a-z](?:\.xox[a-z])?-[\w-]{16,}|xapp-\d-[\w-]{16,}"),
        ("Stripe key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}"),
        ("SendGrid key", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
        ("cloud token", r"do[por]_v1_[a-f0-9]{64}|dapi[a-f0-9]{32}|hv[sb]\.[\w-]{24,}|sbp_[a-f0-9]{40}"),
        (
            "access token",
            r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|lin_api_\w{40}|dckr_pat_[\w-]{27}|glsa_\w{32,}",
        ),
        ("access token", r"ntn_\w{40,}|secret_[A-Za-z0-9]{43}|PMAK-[\w-]{40,}|figd_[\w-]{40,}"),
        ("access token", r"tskey-[a-z]+-[\w-]{16,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
        ("private key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    )
)
"""Formats that are younger than the library's last release, or that it reads too widely or too narrowly."""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Every vendor's format; the library is loaded when the first note is read.

    Of its detectors only those that go by a vendor's own format: no randomness, no names alone, no network.
    """
    from detect_secrets.plugins.aws import AWSKeyDetector
    from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
    from detect_secrets.plugins.discord import DiscordBotTokenDetector
    from detect_secrets.plugins.github_token import GitHubTokenDetector
    from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
    from detect_secrets.plugins.mailchimp import MailchimpDetector
    from detect_secrets.plugins.pypi_token import PypiTokenDetector
    from detect_secrets.plugins.sendgrid import SendGridDetector
    from detect_secrets.plugins.slack import SlackDetector
    from detect_secrets.plugins.square_oauth import SquareOAuthDetector
    from detect_secrets.plugins.stripe import StripeDetector
    from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
    from detect_secrets.plugins.twilio import TwilioKeyDetector

    borrowed = (
        ("AWS access key", AWSKeyDetector),
        ("Azure storage key", AzureStorageKeyDetector),
        ("Discord token", DiscordBotTokenDetector),
        ("GitHub token", GitHubTokenDetector),
        ("GitLab token", GitLabTokenDetector),
        ("Mailchimp key", MailchimpDetector),
        ("PyPI token", PypiTokenDetector),
        ("SendGrid key", SendGridDetector),
        ("Slack token", SlackDetector),
        ("Square secret", SquareOAuthDetector),
        ("Stripe key", StripeDetector),
        ("Telegram token", TelegramBotTokenDetector),
        ("Twilio key", TwilioKeyDetector),
    )
    found = [(kind, pattern) for kind, detector in borrowed for pattern in detector.denylist]
    return (*found, *_OWN)


def _kind_of(run: str) -> str | None:
    return next((kind for kind, pattern in _patterns() if pattern.search(run)), None)


# --- what people set themselves: told by the name or place it stands at -----------------------------

_URL: Final = re.compile(r"://(?P<user>[^\s:/?#@\[\]<>\"'`]*):(?P<value>[^\s@<>\"'`]{1,256})@[\w\[$%{<]")
_PORT: Final = re.compile(r"[0-9]{1,5}[/?#]")

_NAMED: Final = re.compile(
    r"""(?: (?P<password> passw(?:or)?d | passphrase | passwort | kennwort | \bpwd\b | contraseña | mot\ de\ passe
            | пароль | รหัสผ่าน | 密码 | 密碼 | 口令 | パスワード | 비밀번호 )
          | api[ _-]?key | access[ _-]?key | account[ _-]?key | private[ _-]?key | secret | token | credential )
        [\w-]{0,24} ["'`*\])]{0,4} [ \t]{0,3} (?: := | => | [:=：＝|] ) [ \t]{0,3} ["'`*]{0,3}
        (?P<value> [^\s"'`<>(),;|]{6,512} )""",
    re.IGNORECASE | re.VERBOSE,
)

_NAMES: Final = (
    *(
        "passw",
        "passphrase",
        "kennwort",
        "pwd",
        "contraseña",
        "mot de passe",
        "пароль",
        "รหัสผ่าน",
        "密码",
        "密碼",
    ),
    *("口令", "パスワード", "비밀번호", "key", "secret", "token", "credential"),
)
"""What `_NAMED` begins with, in small letters: most notes have none of it and are spared the slow pattern."""

_IN_CONTEXT: Final = tuple(
    (kind, words, re.compile(pattern, re.IGNORECASE | re.VERBOSE))
    for kind, words, pattern in (
        (
            "authorization header",
            ("bearer", "basic"),
            r"\b(?:bearer|basic) [ \t]+ (?P<value> (?=[\w.~+/-]{0,80}[0-9]) [\w.~+/-]{20,} =*)",
        ),
        (
            "password of a command",
            ("curl",),
            r"""\bcurl\b [^\n]{0,300}? \s(?:-u|--user)[ =]? ["']? [^\s:"']{1,64} : (?P<value> [^\s"'`]{3,128})""",
        ),
        (
            "password in a connection string",
            ("pwd", "password", "key"),
            r"""\b(?:server|data\ source|host|user\ id|uid|dbname|accountname|endpoint) [ \t]?= [^\n]{1,200}? [; ]
                (?:password|pwd|accountkey|sharedaccesskey) [ \t]?= [ \t]?["']? (?P<value> [^\s;"'`]{3,256})""",
        ),
        (
            "password of a machine",
            ("login",),
            r"\blogin [ \t]+ \S{1,64} [ \t]+ password [ \t]+ (?P<value> \S{3,128})",
        ),
    )
)
"""Kind, words of which a note must have one, and the pattern."""

# What stands where a value should: `${DB_PASS}`, `{{ password }}`, `%s`, `xxxx`, `your_password`.
_GAP: Final = re.compile(
    r"""[*xX.•…_?#-]+ | \$[A-Z_][A-Z0-9_]*\W* | \$[{(\[].* | [{<\[].* | %\w+%? | \#\{.*
      | (?:your|my|the|some|db|new|old)?[-_ ]? (?:pass(?:word|wd|phrase)?|pwd|token|secret|key) [-_ ]?(?:here)? \W*
      | .*\b(?:process\.env|os\.environ|getenv|env\.|ENV\[).*""",
    re.IGNORECASE | re.VERBOSE,
)
_CODE: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|\[)[A-Za-z_]\w*\]?)+[;:]?")
_SYMBOL: Final = re.compile(r"[@#$%^&*+=~]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PARTS: Final = re.compile(r"[-_./:+=]+")


def _is_password_of(user: str, value: str) -> bool:
    """A password in a URL, not a port, not a gap, and not just the user's name again, as in examples."""
    return value != user and not _PORT.match(value) and not _GAP.fullmatch(value)


def _is_secret_value(value: str, *, is_password: bool) -> bool:
    """A value that no person would write as a word, a path or a piece of code."""
    value = value.rstrip(".*")
    if _GAP.fullmatch(value) or _CODE.fullmatch(value) or "://" in value or not _LETTER.search(value):
        return False
    if is_password and not value.startswith(("/", "~/", "./")):
        return len(value) >= 6 and bool(_DIGIT.search(value) or _SYMBOL.search(value))
    if len(value) < 16 or not _DIGIT.search(value):
        return False
    mixed = any(
        len(part) >= 8 and _DIGIT.search(part) and _LETTER.search(part) for part in _PARTS.split(value)
    )
    return mixed or (len(value) >= 32 and value.lower() != value != value.upper())


# --- private keys: blocks of lines --------------------------------------------------------------------

_KEY_OPENS: Final = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY|PuTTY-User-Key-File-\d")
_KEY_CLOSES: Final = re.compile(r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY|Private-MAC:")
_KEY_LINE: Final = re.compile(
    r"[\s>*+-]*(?:[A-Za-z0-9+/=\\\"]{16,}|[A-Za-z0-9+/]{0,80}=*|[A-Z][\w-]+: .*)[\s\\\"',]*"
)
_KEY_LINES: Final = 400


def _private_keys(lines: Sequence[str]) -> Iterator[Secret]:
    """Each block up to its closing line, or for want of one as far as lines look like a key's."""
    closings = [index for index, line in enumerate(lines) if _KEY_CLOSES.search(line)]
    index = 0
    while index < len(lines):
        first, index = index, index + 1
        if not _KEY_OPENS.search(lines[first]):
            continue
        place = bisect_left(closings, first)
        if place < len(closings) and closings[place] < first + _KEY_LINES:
            index = closings[place] + 1
        else:
            while index < len(lines) and _KEY_LINE.fullmatch(lines[index]):
                index += 1
        yield Secret(first=first, last=index - 1, kind="private key")
