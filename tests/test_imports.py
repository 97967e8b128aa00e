"""Imports point one way: a module may know what lies below it, never what lies above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LAYERS = (
    ("errors",),
    ("text", "frames", "dates", "metrics", "scripts", "background", "own_digest", "prompts"),
    ("records", "alike"),
    ("config", "locks", "dataset"),
    (
        "vault",
        "notes",
        "facts",
        "frontmatter",
        "sections",
        "passages",
        "tear",
        "withheld",
        "secret_*",
        "markdown",
    ),
    ("ledger*",),
    ("scan", "projects"),
    ("corpus",),
    ("lexical*", "analysis*", "dense", "encoder*", "e5_file"),
    ("kept_vectors", "languages", "fusion", "floor", "hybrid", "gist", "turns"),
    ("search", "asking", "digest", "snapshot", "window", "publish", "pending", "decisions"),
    (
        "spool",
        "sessions",
        "conversations",
        "delivery",
        "server",
        "client",
        "refresh",
        "rebuild",
        "answer",
        "explain*",
        "status",
        "evaluate",
        "off_topic",
        "verify*",
        "state_digest",
        "blocks",
    ),
    ("keeper", "failures"),
    ("daemon",),
    ("cli", "commands*", "__main__"),
)
"""Patterns of module names, lowest layer first; a module may import its own layer and those before it."""

LEAVES = ("text", "frames")
"""Modules that both sides' tests and tools use alone: they import nothing of ours but errors."""

OWNERS = {
    "whoosh": ("lexical*", "analysis*"),
    "sqlite3": ("ledger*",),
    "apscheduler": ("daemon",),
    "torch": ("encoder*",),
    "sentence_transformers": ("encoder*",),
    "tokenizers": ("encoder*",),
    "onnx": ("encoder*",),
    "onnxruntime": ("encoder*",),
    "detect_secrets": ("secret_patterns",),
}
"""Heavy or stateful libraries, each with the modules that wrap it."""


def modules_of(package: Path) -> dict[str, ast.Module]:
    """Module name below the package → its syntax tree; the package itself is the empty name."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    return found


def imports_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Absolute names of everything imported, wherever in the module: functions and TYPE_CHECKING included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write the whole name"
            assert node.module
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def layer_of(module: str) -> int:
    """Index of the module's layer; fails for a module that nobody has placed."""
    for index, patterns in enumerate(LAYERS):
        if any(fnmatchcase(module, pattern) for pattern in patterns):
            return index
    pytest.fail(f"recall_worker.{module} stands in no layer: place it in LAYERS of {Path(__file__).name}")


WORKER = modules_of(ROOT / "worker" / "recall_worker")
HOOK = modules_of(ROOT / "hook" / "recall_hook")


def own_imports(module: str) -> Iterator[tuple[str, int]]:
    """Modules of the worker that one of them imports, with the line."""
    for name, line in imports_of(WORKER[module]):
        inner = name.removeprefix("recall_worker.")
        if name.startswith("recall_worker.") and inner in WORKER:
            yield inner, line


@pytest.mark.parametrize("module", [name for name in WORKER if name])
def test_no_module_imports_upwards(module: str) -> None:
    """What a module imports lies in its own layer or below."""
    own = layer_of(module)
    upward = [f"line {line}: {name}" for name, line in own_imports(module) if layer_of(name) > own]
    assert not upward, f"recall_worker.{module} imports what lies above it: {', '.join(upward)}"


def test_no_cycles() -> None:
    """Inside a layer, too, imports have an order."""
    graph = {module: {name for name, _ in own_imports(module)} - {module} for module in WORKER}
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' → '.join(error.args[1])}")
    assert order.index("errors") < order.index("cli")


@pytest.mark.parametrize("module", LEAVES)
def test_leaves_import_only_errors(module: str) -> None:
    """The formats and the text tools can be used without the rest."""
    assert {name for name, _ in own_imports(module)} <= {"errors"}


@pytest.mark.parametrize("library", OWNERS)
def test_heavy_libraries_have_one_home(library: str) -> None:
    """Each heavy dependency is wrapped by the modules that own it, and by no other."""
    trees = WORKER.items()
    users = {
        module for module, tree in trees if library in {name.split(".")[0] for name, _ in imports_of(tree)}
    }
    strangers = {user for user in users if not any(fnmatchcase(user, owner) for owner in OWNERS[library])}
    assert users, f"nothing imports {library}: is it still a dependency?"
    assert not strangers


def test_hook_and_worker_do_not_meet() -> None:
    """The two packages share formats, not code; the hook needs the standard library alone."""
    worker = {name.split(".")[0] for tree in WORKER.values() for name, _ in imports_of(tree)}
    hook = {name.split(".")[0] for tree in HOOK.values() for name, _ in imports_of(tree)}
    assert "recall_hook" not in worker
    # Started as a script, the hook knows its own modules by their short names.
    assert hook - set(sys.stdlib_module_names) - {"recall_hook", *HOOK} == set()


def test_help_is_light() -> None:
    """Importing the command line loads no library that takes a noticeable time."""
    report = "import recall_worker.cli, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", report], capture_output=True, check=True, text=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "recall_worker" in loaded
    assert not loaded & {*OWNERS, "numpy", "rapidfuzz", "rich", "asyncio", "yaml"}
