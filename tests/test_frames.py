"""Frames: our packing against golden files written from the documents, and against bent bytes."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_worker import frames
from recall_worker.errors import FrameError
from recall_worker.frames import Client, Event, Mode

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[1] / "docs"
FACTS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "frames.json").read_text(encoding="utf-8"))
texts = st.text(st.characters(codec=None), max_size=200)  # lone surrogates and controls too


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@pytest.mark.parametrize("name", [name for name in FACTS if name.startswith("snapshot")])
def test_snapshot_is_golden(name: str) -> None:
    """A snapshot packs to the golden bytes, and those unpack to what was packed."""
    facts = FACTS[name]
    assert frames.pack_snapshot(facts["text"]) == golden(name)
    frame = frames.unpack_snapshot(golden(name))
    assert (frame.units, frame.sha256.hex()) == (facts["units"], facts["sha256"])
    assert json.loads(b'"' + frame.payload + b'"') == facts["text"]


@pytest.mark.parametrize("name", [name for name in FACTS if name.startswith("answer")])
def test_answer_is_golden(name: str) -> None:
    """An answer of each mode packs to the golden bytes, and those unpack to what was packed."""
    facts = FACTS[name]
    packed = frames.pack_answer(
        mode=Mode(facts["mode"]),
        text=facts["text"],
        total_units=facts["units"],
        snapshot_sha256=bytes.fromhex(facts["snapshot_sha256"]),
        offset=facts["offset"],
    )
    assert packed == golden(name)
    frame = frames.unpack_answer(packed)
    assert (frame.mode, frame.units, frame.offset) == (facts["mode"], facts["units"], facts["offset"])
    assert frame.snapshot_sha256.hex() == facts["snapshot_sha256"]
    assert json.loads(b'"' + frame.payload + b'"') == facts["text"]


@pytest.mark.parametrize("name", [name for name in FACTS if name.startswith("request")])
def test_request_is_golden(name: str) -> None:
    """A request packs to the golden bytes, and those unpack to what was packed."""
    facts = FACTS[name]
    packed = frames.pack_request(
        event=Event(facts["event"]),
        client=Client(facts["client"]),
        scope=facts["scope"].encode(),
        deadline_ms=facts["deadline_ms"],
        snapshot_sha256=bytes.fromhex(facts["snapshot_sha256"]),
        body=facts["body"].encode(),
    )
    assert packed == golden(name)
    request = frames.unpack_request(packed)
    assert (request.event, request.client, request.deadline_ms) == (
        facts["event"],
        facts["client"],
        facts["deadline_ms"],
    )
    assert (request.scope, request.body) == (facts["scope"].encode(), facts["body"].encode())
    assert request.snapshot_sha256.hex() == facts["snapshot_sha256"]


@given(texts, texts)
def test_payloads_concatenate(first: str, second: str) -> None:
    """Any two payloads joined are one valid JSON string that says both texts and has the units of both."""
    one = frames.unpack_snapshot(frames.pack_snapshot(first))
    two = frames.unpack_snapshot(frames.pack_snapshot(second))
    joined = json.loads(b'{"text":"' + one.payload + two.payload + b'"}')["text"]
    assert units(joined) == one.units + two.units == units(first) + units(second)
    clean = [
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for text in (first, second)
    ]
    assert joined == "".join(clean)


@given(st.sampled_from([name for name in FACTS if not name.startswith("request")]), st.data())
def test_one_bent_bit_is_seen(name: str, data: st.DataObject) -> None:
    """No flipped bit of a snapshot or an answer goes unnoticed; a request, never on disk, has no checksum."""
    whole = golden(name)
    at = data.draw(st.integers(0, len(whole) - 1))
    bent = bytearray(whole)
    bent[at] ^= 1 << data.draw(st.integers(0, 7))
    unpack = frames.unpack_snapshot if name.startswith("snapshot") else frames.unpack_answer
    with pytest.raises(FrameError):
        unpack(bytes(bent))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_every_truncation_is_seen(name: str) -> None:
    """A frame cut short anywhere is refused; a request only where header or scope are incomplete."""
    whole = golden(name)
    unpack = {
        "snapshot": frames.unpack_snapshot,
        "answer": frames.unpack_answer,
        "request": frames.unpack_request,
    }[name.split("-")[0]]
    needed = 64 + len(FACTS[name]["scope"].encode()) if name.startswith("request") else len(whole)
    for length in range(needed):
        with pytest.raises(FrameError):
            unpack(whole[:length])


@given(st.binary(max_size=300))
def test_garbage_is_refused(data: bytes) -> None:
    """Bytes from anywhere end in FrameError and nothing else."""
    for unpack in (frames.unpack_snapshot, frames.unpack_answer, frames.unpack_request):
        with pytest.raises(FrameError):
            unpack(data)


def test_units_past_the_limit_are_refused() -> None:
    """9,800 UTF-16 units pack, one more does not, however few code points they are."""
    assert frames.unpack_snapshot(frames.pack_snapshot("😀" * 4_900)).units == 9_800
    with pytest.raises(FrameError, match="9800"):
        frames.pack_snapshot("😀" * 4_900 + "a")
    with pytest.raises(FrameError, match="9800"):
        frames.pack_answer(
            mode=Mode.SNAPSHOT_AND_PAYLOAD, text="", total_units=9_801, snapshot_sha256=frames.NO_SHA256
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": Mode.SNAPSHOT_FILE},
        {"mode": Mode.NOTHING},
        {"offset": 3},
        {"snapshot_sha256": b"short"},
        {"total_units": 4},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_answers_that_contradict_themselves_do_not_pack(wrong: dict[str, Any]) -> None:
    """A mode, offset, digest or total that cannot be true is our own mistake and is refused."""
    fields: dict[str, Any] = {
        "mode": Mode.PAYLOAD,
        "text": "five!",
        "total_units": 5,
        "snapshot_sha256": frames.NO_SHA256,
    }
    assert frames.pack_answer(**fields)
    with pytest.raises(FrameError):
        frames.pack_answer(**fields | wrong)


def test_payload_that_is_not_json_is_refused() -> None:
    """A frame with every checksum right but an open quote inside is refused."""
    good = bytearray(
        frames.pack_answer(mode=Mode.PAYLOAD, text="a'b", total_units=3, snapshot_sha256=bytes(32))
    )
    good[65] = ord('"')
    good[20:24] = struct.pack("<I", zlib.crc32(bytes(good[:20] + good[24:])))
    with pytest.raises(FrameError, match="JSON"):
        frames.unpack_answer(bytes(good))


@pytest.mark.parametrize(("at", "value"), [(4, 2), (5, 9), (6, 200), (7, 1), (8, 255), (16, 1), (60, 1)])
def test_requests_from_elsewhere_are_refused(at: int, value: int) -> None:
    """An unknown version, event or client, a scope past the end, a reserved byte: each is refused."""
    bent = bytearray(golden("request-prompt"))
    bent[at] = value
    with pytest.raises(FrameError):
        frames.unpack_request(bytes(bent))


class TestDocuments:
    """What docs/ says of the formats is true."""

    @pytest.mark.parametrize(
        ("page", "name"), [("snapshot-format", "snapshot"), ("protocol", "request-prompt")]
    )
    def test_bytes_shown_are_golden(self, page: str, name: str) -> None:
        """The dumps in the documents are the first bytes of the golden files."""
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        rows = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?){16})", text, flags=re.MULTILINE)
        shown = bytes.fromhex("".join(row for _, row in rows))
        assert [int(at, 16) for at, _ in rows] == list(range(0, len(shown), 16))
        assert len(shown) >= 64
        assert golden(name).startswith(shown)

    def test_reader_shown_reads(self) -> None:
        """The reader in docs/snapshot-format.md reads every golden snapshot, and no torn one."""
        text = (DOCS / "snapshot-format.md").read_text(encoding="utf-8")
        shown: dict[str, Any] = {}
        exec(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0], shown)
        for name in ("snapshot", "snapshot-grown", "snapshot-empty"):
            assert shown["read_snapshot"](golden(name)) == FACTS[name]["text"]
        with pytest.raises(AssertionError):
            shown["read_snapshot"](golden("snapshot")[:-1])
