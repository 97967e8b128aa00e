"""Config: one frozen value, one loader, one order: defaults < recall.toml < RECALL_* < flags.

Flow:  [config] → vault, ledger, snapshot, search, daemon
In:    a TOML file, the environment, flags.   Out: Config.
Never: a key that one source may set and another may not.
Next:  worker/recall_worker/daemon.py
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import platformdirs

from recall_worker.errors import ConfigError

DEFAULT_MODEL: Final = "multilingual-e5-small"
NO_MODEL: Final = "none"

MOST_HARD_UNITS: Final = 9_800

SnapshotPolicy = Literal["every-turn", "once-per-session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of the digest, all in UTF-16 code units except the counts.

    Attributes:
        target_units: The whole digest, all slots and headings.
        hard_units: Never passed; the client drops everything past 10,000 without a word.
        profile_units: Slot 1.
        prohibition_units: One record of slot 2.
        prohibition_min_units: What one record of slot 2 is shortened to at the least.
        recent_units: Slot 3.
        recent_record_units: One record of slot 3.
        recent_n: Records in slot 3 after the window was chosen anew (at most twice as many before).
        relevant_units: Slot 4 at most.
        relevant_reserved_units: Kept free for slot 4 by slots 1 to 3.
        relevant_record_units: One passage of slot 4.
    """

    target_units: int = 6_000
    hard_units: int = 9_800
    profile_units: int = 800
    prohibition_units: int = 320
    prohibition_min_units: int = 80
    recent_units: int = 2_000
    recent_record_units: int = 240
    recent_n: int = 6
    relevant_units: int = 1_500
    relevant_reserved_units: int = 1_000
    relevant_record_units: int = 320


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be set. The README's table of settings lists the same keys.

    Attributes:
        state_dir: Home of everything derived.
        vault: The folder of Markdown notes.
        model: `multilingual-e5-small`, a sentence-transformers name or folder, or `none` for BM25 alone.
        models_dir: Home of converted models; a relative one starts at the state folder. Several state folders may share
            one: the default model takes 600 MB.
        allow_download: Lets a model name be fetched from a hub; off by default, so nothing leaves the machine.
        snapshot: When slots 1 to 3 are sent.
        remind_every: With `once-per-session`: turns after which what a session was sent is sent again.
        autostart: Lets the hook start the worker for the next prompt when it finds none.
        deadline_ms: The hook's own limit for an answer, milliseconds.
        encoder_idle_min: Minutes without a prompt after which the encoder's memory goes back.
        scan_live_s: Seconds between scans of the vault while sessions live.
        scan_idle_s: Seconds between scans otherwise.
        cache_ttl_s: Seconds that a prompt cache lives after its last use: while a session was seen within them, slot
            3's window is not chosen anew.
        max_stale_s: Seconds after which it is, whoever is there.
        deletion_grace_h: Hours for which the notes of a vault that lost most of its files at once are kept.
        max_note_bytes: Larger files are reported and left out.
        projects: Name of a project to its directories, absolute.
        budget: Limits of the digest.
        config_file: The file that was read, None if there was none.
        overrides: Dotted key and text of each setting that came from the environment or a flag, so that a command
            baked for later (the hook's, the worker's) means the same wherever it runs.
    """

    state_dir: Path
    vault: Path
    model: str = DEFAULT_MODEL
    models_dir: str = "models"
    allow_download: bool = False
    snapshot: SnapshotPolicy = "every-turn"
    remind_every: int = 20
    autostart: bool = True
    deadline_ms: int = 500
    encoder_idle_min: int = 60
    scan_live_s: float = 2.0
    scan_idle_s: float = 30.0
    cache_ttl_s: float = 300.0
    max_stale_s: float = 900.0
    deletion_grace_h: float = 24.0
    max_note_bytes: int = 2_000_000
    projects: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    config_file: Path | None = None
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def models(self) -> Path:
        """Home of converted models, absolute."""
        return self.state_dir / Path(self.models_dir).expanduser()

    def as_arguments(self) -> list[str]:
        """Options of `recall` and `recall-worker` that give these settings from any directory and environment."""
        arguments = ["--state", str(self.state_dir), "--vault", str(self.vault)]
        if self.config_file is not None:
            arguments += ["--config", str(self.config_file)]
        for key, text in self.overrides:
            arguments += ["--set", f"{key}={text}"]
        return arguments


def load_config(
    *,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Config:
    """Read every source and return one frozen value.

    Args:
        flags: Dotted key to text, as typed (`{"vault": "~/notes", "budget.recent_n": "8"}`).
        environ: Defaults to the process's environment.
        config_file: Wins over `RECALL_CONFIG`; a missing default file is no error, a missing named one is.

    Returns:
        The config, its paths absolute.

    Raises:
        ConfigError: An unknown key, a value of the wrong kind or out of range; valid keys are listed.
    """
    environ = os.environ if environ is None else environ
    named = config_file or (Path(environ["RECALL_CONFIG"]) if environ.get("RECALL_CONFIG") else None)
    path = (named or default_config_file()).expanduser().absolute()
    settings: dict[str, tuple[str, Any]] = {}
    for key, value in _read_toml(path, must_exist=named is not None).items():
        settings[key] = (f"{path}: {key}", value)
    typed = {}
    for key in keys():
        variable = variable_of(key)
        if environ.get(variable):
            typed[key] = (variable, environ[variable])
    for key, text in (flags or {}).items():
        typed[key] = (f"--set {key}", text)
    overrides = [(key, text) for key, (_, text) in sorted(typed.items()) if key not in ("state_dir", "vault")]
    config = _build(settings | typed, base=path.parent)
    return replace(config, config_file=path if path.is_file() else None, overrides=tuple(overrides))


def keys() -> dict[str, Any]:
    """Every dotted key with its default; `projects` takes a table, only in the file."""
    found: dict[str, Any] = {"state_dir": default_state_dir(), "vault": default_vault()}
    for item in fields(Config):
        if item.name not in (*found, "projects", "budget", "config_file", "overrides"):
            found[item.name] = item.default
    for item in fields(Budget):
        found[f"budget.{item.name}"] = item.default
    return found


def variable_of(key: str) -> str:
    """Environment variable of a dotted key: `budget.recent_n` is `RECALL_BUDGET_RECENT_N`."""
    return "RECALL_" + key.replace(".", "_").upper()


def checkout() -> Path | None:
    """The source checkout this package runs from, or None for an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "hook" / "recall_hook").is_dir() else None


def default_state_dir() -> Path:
    """The checkout's `state/`, else the platform's state folder."""
    root = checkout()
    return root / "state" if root else Path(platformdirs.user_state_dir("recall"))


def default_config_file() -> Path:
    """The checkout's `recall.toml`, else the platform's config folder's."""
    root = checkout()
    return root / "recall.toml" if root else Path(platformdirs.user_config_dir("recall")) / "recall.toml"


def default_vault() -> Path:
    """`~/recall-vault`: in sight, because its files are the person's."""
    return Path("~/recall-vault").expanduser()


def _read_toml(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Flatten the file to dotted keys; `projects` stays a table."""
    if not path.is_file():
        if must_exist:
            raise ConfigError(str(path), wanted="a TOML file", got="no such file")
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), wanted="TOML in UTF-8", got=str(error)) from error
    except OSError as error:
        raise ConfigError(str(path), wanted="a readable file", got=error.strerror) from error
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and key != "projects":
            flat |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            flat[key] = value
    return flat


def _build(settings: Mapping[str, tuple[str, Any]], *, base: Path) -> Config:
    """Check each value against the type and range of its default; relative paths start at the file's folder."""
    known = keys()
    values: dict[str, Any] = {"state_dir": known["state_dir"], "vault": known["vault"]}
    budget: dict[str, int] = {}
    for key, (where, value) in settings.items():
        if key == "projects":
            values[key] = _parse_projects(where, value, base=base)
        elif key not in known:
            raise ConfigError(where, wanted="one of " + ", ".join([*known, "projects"]), got=key)
        elif key.startswith("budget."):
            budget[key.removeprefix("budget.")] = _parse_number(where, value, kind=int)
        else:
            values[key] = _parse_value(key, where, value, default=known[key], base=base)
    config = Config(**values, budget=replace(Budget(), **budget))
    _check_budget(config.budget, settings)
    return config


def _parse_value(key: str, where: str, value: Any, *, default: Any, base: Path) -> Any:
    """Read one value as its default's kind."""
    if isinstance(default, Path):
        return _parse_path(where, value, base=base)
    if isinstance(default, bool):
        return _parse_flag(where, value)
    if isinstance(default, int | float):
        return _parse_number(where, value, kind=type(default))
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(where, wanted="text", got=value)
    if key == "snapshot" and value not in get_args(SnapshotPolicy):
        raise ConfigError(where, wanted="one of " + ", ".join(get_args(SnapshotPolicy)), got=value)
    return value


def _parse_path(where: str, value: Any, *, base: Path) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(where, wanted="a path", got=value)
    return Path(os.path.normpath(base / Path(value).expanduser()))


def _parse_flag(where: str, value: Any) -> bool:
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ConfigError(where, wanted="true or false", got=value)


def _parse_number(where: str, value: Any, *, kind: type) -> Any:
    wanted = "a whole number above 0" if kind is int else "a number above 0"
    try:
        if isinstance(value, bool) or (kind is int and isinstance(value, float)):
            raise ValueError(value)
        number = kind(value.replace("_", "") if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise ConfigError(where, wanted=wanted, got=value) from error
    if not 0 < number < 1e9:
        raise ConfigError(where, wanted=wanted, got=value)
    return number


def _parse_projects(where: str, value: Any, *, base: Path) -> dict[str, tuple[Path, ...]]:
    """`[projects]`: a name to a directory or a list of them."""
    wanted = 'a table of names to directories, like billing = ["~/src/billing"]'
    if not isinstance(value, dict):
        raise ConfigError(where, wanted=wanted, got=value)
    projects = {}
    for name, directories in value.items():
        listed = [directories] if isinstance(directories, str) else directories
        if not isinstance(listed, list) or not listed:
            raise ConfigError(f"{where}.{name}", wanted=wanted, got=directories)
        projects[name] = tuple(_parse_path(f"{where}.{name}", item, base=base) for item in listed)
    return projects


def _check_budget(budget: Budget, settings: Mapping[str, tuple[str, Any]]) -> None:
    """Limits that cannot be met together fail here rather than in a digest."""
    rules = (
        (
            "hard_units",
            budget.hard_units <= MOST_HARD_UNITS,
            f"at most {MOST_HARD_UNITS} (the client drops past 10000)",
        ),
        ("target_units", budget.target_units <= budget.hard_units, "at most budget.hard_units"),
        (
            "relevant_reserved_units",
            budget.relevant_reserved_units <= budget.relevant_units,
            "at most budget.relevant_units",
        ),
        (
            "prohibition_min_units",
            budget.prohibition_min_units <= budget.prohibition_units,
            "at most budget.prohibition_units",
        ),
        (
            "relevant_units",
            budget.relevant_units + 500 <= budget.target_units,
            "at least 500 below budget.target_units",
        ),
    )
    for name, holds, wanted in rules:
        if not holds:
            where, _ = settings.get(f"budget.{name}", (f"budget.{name}", None))
            raise ConfigError(where, wanted=wanted, got=getattr(budget, name))
