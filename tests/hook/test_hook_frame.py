"""The hook's own reading of the formats, held to golden files and to the standard library's JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recall_hook import frame
from recall_worker.frames import pack_snapshot

GOLDEN = Path(__file__).parents[1] / "golden"
FACTS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "frames.json").read_text(encoding="utf-8"))
MAGIC = {"snapshot": b"RCLS", "answer": b"RCLA"}
FRAMES = [name for name in FACTS if name.split("-")[0] in MAGIC]
NOTHING = (-1, b"", 0, 0, b"")

ESCAPES = [b"\\", b'\\"', b'"', b"\\n", b"\\u", b"\\u12", b"\\u00e9", b"\\uD83D", b"\\ude00", b"\\/", b"\n"]
CHARACTERS = [b"+1 2", b"_", b"a", b"d", b"\x7f", b"/", "ไ".encode(), "😀".encode()]
BROKEN = ["ไ".encode()[:2], "😀".encode()[1:], b"\xed\xa0\xbd", b"\xf8\x88"]
json_pieces = st.sampled_from([*ESCAPES, *CHARACTERS, *BROKEN]) | st.binary(max_size=3)


def oracle(body: bytes) -> int:
    """UTF-16 units by the standard library; -1 where it refuses, and for any escaped surrogate."""
    if re.search(rb"(?<!\\)(\\\\)*\\u[dD]", body):
        return -1
    try:
        return len(json.loads(f'"{body.decode()}"').encode("utf-16-le", "surrogatepass")) // 2
    except ValueError:
        return -1


@pytest.mark.parametrize("name", FRAMES)
def test_golden_frames_are_read(name: str) -> None:
    """The hook reads from every golden frame what its facts say."""
    facts = FACTS[name]
    mode, payload, units, offset, sha256 = frame.parse(
        (GOLDEN / f"{name}.bin").read_bytes(), MAGIC[name.split("-")[0]]
    )
    assert (mode, units, offset) == (facts.get("mode", 0), facts["units"], facts.get("offset", 0))
    assert sha256.hex() == facts.get("snapshot_sha256", facts.get("sha256"))
    assert json.loads(b'"' + payload + b'"') == facts["text"]


@pytest.mark.parametrize("name", FRAMES)
def test_no_truncation_passes(name: str) -> None:
    """A frame cut anywhere, or with a byte too many, counts as absent."""
    whole = (GOLDEN / f"{name}.bin").read_bytes()
    magic = MAGIC[name.split("-")[0]]
    assert all(frame.parse(whole[:length], magic) == NOTHING for length in range(len(whole)))
    assert frame.parse(whole + b"\0", magic) == NOTHING


@given(st.sampled_from(FRAMES), st.data())
def test_no_bent_bit_passes(name: str, data: st.DataObject) -> None:
    """A frame with one flipped bit counts as absent."""
    bent = bytearray((GOLDEN / f"{name}.bin").read_bytes())
    bent[data.draw(st.integers(0, len(bent) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert frame.parse(bytes(bent), MAGIC[name.split("-")[0]]) == NOTHING


@given(st.text(st.characters(codec=None), max_size=300))
def test_what_the_worker_packs_the_hook_reads(text: str) -> None:
    """Any text the worker packs is read whole, its units counted alike on both sides."""
    mode, payload, units, _, _ = frame.parse(pack_snapshot(text), b"RCLS")
    assert mode == 0
    assert frame.units_of(payload) == units == len(text.encode("utf-16-le", "surrogatepass")) // 2


@given(st.lists(json_pieces, max_size=12).map(b"".join))
@example(b"\\u\\n12ab")
@example(b'\\\\\\"')
def test_only_the_inside_of_a_json_string_passes(body: bytes) -> None:
    """The hook finds exactly those bytes printable that the json module does, and counts the same units."""
    assert frame.units_of(body) == oracle(body)
