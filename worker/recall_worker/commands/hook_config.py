"""`recall hook-config`: the block that makes a client call the hook, everything it needs baked in."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from recall_worker.commands.lifecycle import worker_command
from recall_worker.config import Config
from recall_worker.errors import RecallError

TIMEOUT_S = 10
"""The client's own limit, seconds: far above the hook's deadline, so that it never decides."""


def hook_block(client: str, config: Config) -> str:
    """JSON text `{"hooks": {…}}` for the client's settings file.

    Raises:
        RecallError: The hook is not installed where the package is.
    """
    events = {"UserPromptSubmit": "prompt", "SessionStart": "session-start"}
    hooks = {
        event: [
            {"hooks": [{"type": "command", "command": _command(client, name, config), "timeout": TIMEOUT_S}]}
        ]
        for event, name in events.items()
    }
    return json.dumps({"hooks": hooks}, indent=2, ensure_ascii=False)


def hook_command(client: str, event: str, config: Config) -> list[str]:
    """The hook's command line, one argument an item."""
    command = [
        sys.executable, "-I", "-S", str(_hook_file()), client, event,
        "--state", str(config.state_dir), "--deadline", str(config.deadline_ms),
    ]  # fmt: skip
    if config.autostart:
        command += ["--start", *worker_command(config)]
    return command


def _command(client: str, event: str, config: Config) -> str:
    return shlex.join(hook_command(client, event, config))


def _hook_file() -> Path:
    """main.py of the hook package, found without importing it."""
    from importlib.util import find_spec

    spec = find_spec("recall_hook")
    if spec is None or spec.origin is None:
        raise RecallError(
            "the package recall_hook is not installed beside recall_worker. Install recall-worker again."
        )
    return Path(spec.origin).parent / "main.py"
