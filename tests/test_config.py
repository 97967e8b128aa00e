"""Config: one order of sources, the same for every key, and messages that name the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_worker.config import Config, keys, load_config, variable_of
from recall_worker.errors import ConfigError

SAMPLES = {str: "other", int: "7", float: "7.5"}
SPECIAL = {
    "snapshot": "once-per-session",
    "budget.target_units": "6100",
    "budget.hard_units": "9700",
    "budget.profile_units": "700",
    "budget.relevant_units": "1400",
    "budget.relevant_reserved_units": "900",
    "budget.prohibition_units": "300",
    "budget.prohibition_min_units": "70",
}


def value_at(config: Config, key: str) -> object:
    """The config's value under a dotted key."""
    value: object = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def sample_of(key: str, default: object) -> str:
    """A valid text that differs from the default."""
    if isinstance(default, bool):
        return str(not default).lower()
    return SPECIAL.get(key) or SAMPLES.get(type(default), "/elsewhere/x")


@pytest.mark.parametrize("key", list(keys()))
def test_each_key_follows_the_same_order(tmp_path: Path, key: str) -> None:
    """Default < file < environment < flag, whichever key it is."""
    default = keys()[key]
    sample = sample_of(key, default)
    quoted = sample if isinstance(default, bool | int | float) else f'"{sample}"'
    table, _, name = key.rpartition(".")
    file = tmp_path / "recall.toml"
    file.write_text((f"[{table}]\n" if table else "") + f"{name} = {quoted}\n")

    plain = value_at(load_config(environ={}, config_file=_empty(tmp_path)), key)
    assert plain == default
    from_file = value_at(load_config(environ={}, config_file=file), key)
    assert from_file != default
    assert (
        value_at(load_config(environ={variable_of(key): sample}, config_file=_empty(tmp_path)), key)
        == from_file
    )
    text = str(default).lower() if isinstance(default, bool) else str(default)
    assert (
        value_at(load_config(flags={key: text}, environ={variable_of(key): sample}, config_file=file), key)
        == default
    )


def _empty(folder: Path) -> Path:
    file = folder / "empty.toml"
    file.touch()
    return file


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("vaul = 'x'", ["recall.toml: vaul", "vault", "model"]),
        ("[budget]\nrecent = 3", ["budget.recent", "budget.recent_n"]),
        ("deadline_ms = 0", ["deadline_ms", "above 0", "0"]),
        ("deadline_ms = 1.5", ["deadline_ms", "whole number"]),
        ("autostart = 'maybe'", ["autostart", "true or false", "maybe"]),
        ("snapshot = 'sometimes'", ["snapshot", "every-turn", "once-per-session"]),
        ("projects = 3", ["projects", "table of names"]),
        ("[projects]\nx = []", ["projects.x"]),
        ("[budget]\nhard_units = 12000", ["budget.hard_units", "9800"]),
        ("[budget]\ntarget_units = 9850", ["budget.target_units"]),
        ("vault = ''", ["vault", "a path"]),
        ("= broken", ["TOML"]),
    ],
)
def test_a_bad_setting_names_its_place_and_the_way_out(tmp_path: Path, toml: str, words: list[str]) -> None:
    """The message holds the file, the key and what would be right."""
    file = tmp_path / "recall.toml"
    file.write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load_config(environ={}, config_file=file)
    for word in [str(file), *words]:
        assert word in str(caught.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A default file may be missing, one that was asked for may not."""
    with pytest.raises(ConfigError, match="no such file"):
        load_config(environ={"RECALL_CONFIG": str(tmp_path / "none.toml")})


def test_paths_in_the_file_start_at_its_folder(tmp_path: Path) -> None:
    """`vault = "notes"` means the folder beside recall.toml; projects too."""
    file = tmp_path / "recall.toml"
    file.write_text('vault = "notes"\n[projects]\nbilling = ["src/billing", "/abs"]\n')
    config = load_config(environ={}, config_file=file)
    assert config.vault == tmp_path / "notes"
    assert config.projects == {"billing": (tmp_path / "src/billing", Path("/abs"))}


def test_arguments_give_the_same_config_anywhere(tmp_path: Path) -> None:
    """What is baked into the hook's command means the same without the environment it was made in."""
    file = tmp_path / "recall.toml"
    file.write_text("deadline_ms = 300\n")
    made = load_config(
        environ={"RECALL_MODEL": "none", "RECALL_STATE_DIR": str(tmp_path / "s")},
        config_file=file,
        flags={"vault": "/v"},
    )
    arguments = iter(made.as_arguments())
    pairs = list(zip(arguments, arguments, strict=True))
    flags = {"state_dir": dict(pairs)["--state"], "vault": dict(pairs)["--vault"]}
    flags |= dict(value.split("=", 1) for option, value in pairs if option == "--set")
    again = load_config(environ={}, config_file=Path(dict(pairs)["--config"]), flags=flags)
    assert (again.model, again.deadline_ms, again.vault, again.state_dir) == (
        "none",
        300,
        Path("/v"),
        tmp_path / "s",
    )


def test_models_lie_in_the_state_folder_unless_shared(tmp_path: Path) -> None:
    """A relative `models_dir` starts at the state folder, an absolute one is taken as it is."""
    state = {"state_dir": str(tmp_path / "s")}
    assert load_config(flags=state, environ={}).models == tmp_path / "s" / "models"
    shared = {"RECALL_MODELS_DIR": str(tmp_path / "shared")}
    assert load_config(flags=state, environ=shared).models == tmp_path / "shared"
