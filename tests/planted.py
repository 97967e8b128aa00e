"""Secrets to plant in notes, none of them real; put together here so that no scanner stumbles over this file."""

from __future__ import annotations

import base64
import json
from typing import Final

MIXED: Final = "a8Zk2Qw9Xv4Lm7Tn3Rp6Ys1Bd5Gh0Jc8Fe2Ku7W"
HEX: Final = "3f9a1c7e5b2d8046" * 4


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


JWT: Final = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '1234567890', 'admin': True})}.{MIXED}"
KEY_BODY: Final = "\n".join("MIIEpQIBAAKCAQEA" + MIXED + "xY" * n for n in (2, 3, 4, 3, 2))
PRIVATE_KEY: Final = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----"

# Kind as it is told → lines with it → the value that must not pass.
PLANTED: Final[dict[str, tuple[str, str, str]]] = {
    "AWS": ("AWS access key", "key AKIA" + "QW3RT5Y7U9I1O2P4 for the bucket", "AKIA" + "QW3RT5Y7U9I1O2P4"),
    "AWS secret": (
        "named secret",
        "aws_secret_access_key = wJalrXUtn" + "FEMI/K7MDENG/bPxRfiCYzzzz",
        "FEMI/K7M",
    ),
    "GitHub": ("GitHub token", "ghp_" + MIXED[:36], MIXED[:36]),
    "GitHub fine": ("GitHub token", "github_pat_11ABCDE_" + MIXED, MIXED),
    "GitLab": ("GitLab token", "glpat-" + MIXED[:20], MIXED[:20]),
    "Slack": ("Slack token", "xoxb-" + "123456789012-1234567890123-" + MIXED[:24], MIXED[:24]),
    "Stripe": ("Stripe key", "sk_live_" + MIXED[:24], MIXED[:24]),
    "Anthropic": ("API key", "sk-ant-api03-" + MIXED + "-" + MIXED[:20], MIXED[:20]),
    "OpenAI": ("API key", "sk-proj-" + MIXED, MIXED),
    "Google": ("Google key", "AIza" + MIXED[:35], MIXED[:35]),
    "Hugging Face": ("Hugging Face token", "hf_" + MIXED[:34], MIXED[:34]),
    "npm": ("npm token", "npm_" + MIXED[:36], MIXED[:36]),
    "JWT": ("JSON web token", f"Cookie: session={JWT}", JWT),
    "bearer": ("authorization header", f'-H "Authorization: Bearer {MIXED}"', MIXED),
    "URL": ("password in a URL", "postgres://app:hunter" + "2@db.internal:5432/app", "hunter2"),
    "URL with signs": ("password in a URL", "redis://:p%40ss/w0rd@cache:6379", "p%40ss/w0rd"),
    "ADO": ("password in a connection string", "Server=db;User Id=sa;Password=swordfish;", "swordfish"),
    "Azure": ("password in a connection string", f"AccountName=x;AccountKey={HEX}==;", HEX),
    "password": ("password", "Router password: hunter2", "hunter2"),
    "in Thai": ("password", "รหัสผ่าน: hunter2", "hunter2"),
    "in Chinese": ("password", "密码：hunter2", "hunter2"),
    "in a table": ("named secret", f"| API key | {HEX} |", HEX),
    "in code": ("named secret", f'const apiKey = "{HEX}"', HEX),
    "escaped": ("GitHub token", "ghp\\_" + MIXED[:36], MIXED[:36]),
    "with a soft hyphen": ("GitHub token", "gh\u00adp_" + MIXED[:20] + "\u200b" + MIXED[20:36], MIXED[20:36]),
    "curl": ("password of a command", "curl -s -u admin:swordfish https://x.test", "swordfish"),
    "netrc": ("password of a machine", "machine x.test login me password swordfish", "swordfish"),
}
