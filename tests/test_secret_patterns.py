"""Secret patterns: what people paste is found and named, what only looks like it is left alone."""

from __future__ import annotations

import hashlib
import time

import pytest

from planted import JWT, PLANTED, PRIVATE_KEY
from recall_worker import secret_patterns
from recall_worker.secret_patterns import RULES, Secret, find_secrets

RULES_SHA256 = "f0621909996a65fa8d4700acda6c1a9e4346374eb3d9c3f23b81069f9f79e987"


def kinds(text: str) -> set[str]:
    """Kinds found in a text."""
    return {secret.kind for secret in find_secrets(text.split("\n"))}


@pytest.mark.parametrize("name", PLANTED)
def test_each_kind_is_found_on_its_line(name: str) -> None:
    """A planted secret is told by its kind and its line."""
    kind, line, _ = PLANTED[name]
    found = find_secrets(["Notes on the deployment.", "", line, "", "More words."])
    assert kind in {secret.kind for secret in found}
    assert {(secret.first, secret.last) for secret in found} == {(2, 2)}


@pytest.mark.parametrize(
    "text",
    [
        "The password is rotated every ninety days; ask Somchai.",
        "password: see the safe",
        "postgres://USER:PASSWORD@host/db and postgres://user:$PASSWORD@host and mongodb://<user>:<password>@host",
        "postgres://postgres:postgres@localhost:5432/postgres",
        "https://localhost:3000/@user and http://host:8080/a@b",
        'password: ENV["PGPASSWORD"], token = os.environ["TOKEN2"], secret: ${{ secrets.DEPLOY_KEY_2 }}',
        "generate migration CreateUsers email:string!:uniq password_digest:string! --force",
        "api_key = settings.providers.openai_key_v2",
        "commit 3f9a1c7e5b2d80463f9a1c7e5b2d80463f9a1c7e fixes it; sha256:" + "3f9a1c7e" * 8,
        "id 550e8400-e29b-41d4-a716-446655440000, session_token_expires_in: 2026-11-02T10:00:00",
        "see sk-learn-like-names-in-css and the class sk-folding-cube-animation-container",
        "The token budget: 6,000 units. Token: MAX_TOKENS_PER_MINUTE",
        "Authorization: Bearer <token> and Authorization: Bearer $TOKEN",
        "curl -u user:$PASSWORD https://x.test",
        "An eyJ prefix means base64 of a JSON object.",
        "secret: docs/decisions/0014-secrets-and-tokens.md",
        "รหัสผ่าน: อยู่ในตู้เซฟ",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    """Gaps to fill in, code, hashes, ids and prose stay."""
    assert kinds(text) == set()


def test_a_private_key_takes_all_its_lines() -> None:
    """From its first to its last line; without a last one as far as lines look like a key's."""
    lines = ["before", *PRIVATE_KEY.split("\n"), "after these words"]
    assert find_secrets(lines) == (Secret(first=1, last=len(lines) - 2, kind="private key"),)
    del lines[-2]
    assert find_secrets(lines) == (Secret(first=1, last=len(lines) - 2, kind="private key"),)
    assert find_secrets(['{"key": "' + PRIVATE_KEY.replace("\n", "\\n") + '"}', "after"])[0].last == 0


@pytest.mark.parametrize("kind", ["OPENSSH ", "EC ", "ENCRYPTED ", "", "PGP "])
def test_private_keys_of_every_make(kind: str) -> None:
    """The words between BEGIN and PRIVATE KEY differ."""
    end = " BLOCK" if kind == "PGP " else ""
    assert kinds(f"> -----BEGIN {kind}PRIVATE KEY{end}-----\n> {JWT[:40]}") >= {"private key"}


@pytest.mark.parametrize("offset", [0, 3_000, 4_060, 9_999])
def test_a_secret_in_a_run_without_spaces(offset: int) -> None:
    """Wherever it stands in one: runs are looked at in pieces that overlap."""
    token = PLANTED["GitHub"][1]
    assert kinds(f"data:{'-' * offset}{token}{'-' * 6_000}") == {"GitHub token"}


@pytest.mark.parametrize(
    "unit", ["sk-1", "eyJ1", "a.eyJ1", "://a:", "password ", "curl ", "host=", "token ", "//x/1"]
)
def test_no_text_takes_long(unit: str) -> None:
    """Whatever is repeated, half a megabyte of it takes seconds at most, so a scan never hangs."""
    started = time.monotonic()
    find_secrets([unit * (500_000 // len(unit))])
    find_secrets([unit] * (500_000 // len(unit)))
    assert time.monotonic() - started < 20


def test_changed_rules_have_a_new_number() -> None:
    """Notes are read again when RULES changes; raise it, then take over the hash."""
    patterns = (
        *(pattern for _, pattern in secret_patterns._OWN),
        *(pattern for *_, pattern in secret_patterns._IN_CONTEXT),
        *(secret_patterns._URL, secret_patterns._NAMED, secret_patterns._GAP, secret_patterns._KEY_OPENS),
    )
    text = "\n".join(f"{pattern.flags} {pattern.pattern}" for pattern in patterns)
    assert (RULES, hashlib.sha256(text.encode()).hexdigest()) == (1, RULES_SHA256)
