"""Real processes: a vault, a worker on it, the hook as the client calls it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

RECALL = Path(sys.executable).parent / "recall"
PATIENCE_S = 30.0


@dataclass
class Place:
    """A vault and a state folder of their own, and the commands of a person who uses them."""

    root: Path
    model: str = "none"
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def vault(self) -> Path:
        """The folder of notes."""
        return self.root / "vault"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.root / "state"

    def options(self) -> list[str]:
        """Options that every command gets."""
        pairs = {"model": self.model, "scan_live_s": "0.2", "scan_idle_s": "0.2", **self.settings}
        listed = [part for key, value in pairs.items() for part in ("--set", f"{key}={value}")]
        return ["--state", str(self.state), "--vault", str(self.vault), *listed]

    def note(self, name: str, text: str, **front: Any) -> Path:
        """Write a note into the vault."""
        path = self.vault / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "".join(f"{key}: {value}\n" for key, value in front.items())
        path.write_text(f"---\n{head}---\n{text}\n" if front else f"{text}\n", encoding="utf-8")
        return path

    def recall(
        self, *arguments: str, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run the person's tool."""
        return subprocess.run(
            [str(RECALL), *arguments, *self.options()],
            capture_output=True,
            text=True,
            check=check,
            timeout=timeout_s,
            env=os.environ | {"NO_COLOR": "1"},
        )

    def status(self) -> dict[str, Any]:
        """`recall status --json`."""
        return json.loads(self.recall("status", "--json", check=False).stdout)  # type: ignore[no-any-return]

    def wait(self, holds: Callable[[], object]) -> None:
        """Wait until something is so; polls, since what is waited for happens in another process."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    def hook_command(self, event: str = "UserPromptSubmit") -> list[str]:
        """The command that the client would run."""
        block = json.loads(self.recall("hook-config", "claude-code").stdout)
        return shlex.split(block["hooks"][event][0]["hooks"][0]["command"])

    def hook(
        self, prompt: str, *, cwd: Path | None = None, command: list[str] | None = None, **fields: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """Send one prompt through the hook, with an empty environment."""
        said = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": prompt, **fields}
        return subprocess.run(
            command or self.hook_command(),
            input=json.dumps(said).encode(),
            capture_output=True,
            check=False,
            timeout=30,
            env={},
            cwd=cwd or self.root,
        )

    def digest(self, prompt: str, **more: Any) -> str:
        """What the assistant gets for a prompt; empty for nothing."""
        run = self.hook(prompt, **more)
        assert (run.returncode, run.stderr) == (0, b"")
        if not run.stdout:
            return ""
        output = json.loads(run.stdout)
        assert list(output) == ["hookSpecificOutput"]
        assert output["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
        return str(output["hookSpecificOutput"]["additionalContext"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place without a worker; whatever worker a test starts is stopped."""
    made = Place(root=tmp_path)
    made.vault.mkdir()
    yield made
    made.recall("stop", check=False)
