"""Frames: the bytes in which hook and worker meet, packed and unpacked on the worker's side.

Flow:  snapshot → [frames] → snapshots/*.snap → hook
       hook → [frames: request] → search → [frames: answer] → hook
In:    text as it shall be shown.   Out: 64 bytes of header, then JSON-escaped UTF-8 (docs/snapshot-format.md,
       docs/protocol.md). The hook reads the same layout by its own code; tests/golden/*.bin hold both to it.
Never: a look at what the text says; anything but the standard library's idea of JSON.
Next:  hook/recall_hook/main.py
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from recall_worker.errors import FrameError

SOCKET_NAME: Final = "worker.sock"  # in the state folder
VERSION: Final = 1
HEADER_BYTES: Final = 64
MAX_UNITS: Final = 9_800  # the client drops everything past 10,000 without a word
MAX_FRAME_BYTES: Final = 262_144  # header included; 9,800 units take at most 58,800 bytes when all are \uXXXX
MAX_SCOPE_BYTES: Final = 65_535
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_REQUEST_BYTES: Final = HEADER_BYTES + MAX_SCOPE_BYTES + MAX_BODY_BYTES
NO_SHA256: Final = bytes(32)

_SNAPSHOT: Final = b"RCLS"
_ANSWER: Final = b"RCLA"
_REQUEST: Final = b"RCLQ"
_FRAME: Final = struct.Struct("<4sBBHIIII32s8s")
_ASK: Final = struct.Struct("<4sBBBBIIII32s8s")


class Mode(IntEnum):
    """What the hook prints."""

    SNAPSHOT_FILE = 0  # not an answer: the mode byte of a snapshot file
    SNAPSHOT_AND_PAYLOAD = 1
    PAYLOAD = 2
    APPENDED_AND_PAYLOAD = 3  # the snapshot from `offset` on, then the payload
    NOTHING = 4


class Event(IntEnum):
    """Why the worker is asked."""

    PROMPT = 1
    SESSION_START = 2
    CONTROL = 3  # `recall status` and its like: JSON body, JSON answer without a frame


class Client(IntEnum):
    """The assistant whose hook asks."""

    CLAUDE_CODE = 0
    CODEX = 1
    GEMINI = 2
    QWEN = 3
    DROID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFrame:
    """A snapshot file, checked.

    Attributes:
        payload: JSON-escaped UTF-8, without quotes.
        units: UTF-16 code units of the text that the payload stands for.
        sha256: Digest of the payload; names the snapshot in requests and answers.
    """

    payload: bytes
    units: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFrame:
    """An answer to a prompt, checked.

    Attributes:
        mode: What the hook prints.
        payload: JSON-escaped UTF-8, without quotes; begins with its own separator.
        units: UTF-16 code units of everything the hook prints in this mode, snapshot included.
        offset: Mode 3: byte offset into the snapshot's payload, else 0.
        snapshot_sha256: The snapshot it goes with; `NO_SHA256` if the hook held none.
    """

    mode: Mode
    payload: bytes
    units: int
    offset: int
    snapshot_sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a hook asks.

    Attributes:
        event: Why.
        client: Which assistant.
        scope: Bytes of the directory the hook matched against, as `os.fsencode` gives them.
        deadline_ms: What is left of the hook's time as it asks, milliseconds.
        snapshot_sha256: The snapshot it holds; `NO_SHA256` if none.
        body: The client's stdin, raw: usually one JSON object, but nothing vouches for that.
    """

    event: Event
    client: Client
    scope: bytes
    deadline_ms: int
    snapshot_sha256: bytes
    body: bytes


def pack_snapshot(text: str) -> bytes:
    """Build the bytes of a snapshot file.

    Args:
        text: Slots 1 to 3 as they shall be shown, at most `MAX_UNITS` UTF-16 units.

    Returns:
        Header and payload.

    Raises:
        FrameError: The text is longer than a hook may print.
    """
    payload, units = _escape(text)
    sha256 = hashlib.sha256(payload).digest()
    return _pack(_SNAPSHOT, Mode.SNAPSHOT_FILE, payload, units=units, offset=0, sha256=sha256)


def unpack_snapshot(data: bytes) -> SnapshotFrame:
    """Read and check the bytes of a snapshot file.

    Raises:
        FrameError: Any byte is not as documented.
    """
    mode, payload, units, offset, sha256 = _unpack(_SNAPSHOT, data)
    _require(mode == Mode.SNAPSHOT_FILE and offset == 0, "a snapshot's mode and offset are 0")
    _require(hashlib.sha256(payload).digest() == sha256, "the payload's SHA-256 is the header's")
    _require(_units(_unescape(payload)) == units, "the payload has the header's units")
    return SnapshotFrame(payload=payload, units=units, sha256=sha256)


def pack_answer(*, mode: Mode, text: str, total_units: int, snapshot_sha256: bytes, offset: int = 0) -> bytes:
    """Build the answer to a prompt.

    Args:
        mode: What the hook shall print.
        text: Slot 4 as it shall be shown, its own separator in front; empty if nothing was found.
        total_units: UTF-16 units of all the hook will print, snapshot included.
        snapshot_sha256: As in the request, 32 bytes.
        offset: Mode 3: byte offset into the snapshot's payload.

    Returns:
        Header and payload.

    Raises:
        FrameError: More units than a hook may print, fewer than the text has, or an offset without mode 3.
    """
    payload, units = _escape(text)
    _require(mode != Mode.SNAPSHOT_FILE, "an answer's mode is 1 to 4")
    _require(mode != Mode.NOTHING or not payload, "mode 4 has no payload")
    _require(mode == Mode.APPENDED_AND_PAYLOAD or offset == 0, "only mode 3 has an offset")
    _require(len(snapshot_sha256) == 32, "a SHA-256 has 32 bytes")
    _require(units <= total_units, "the total counts the payload too")
    return _pack(_ANSWER, mode, payload, units=total_units, offset=offset, sha256=snapshot_sha256)


def unpack_answer(data: bytes) -> AnswerFrame:
    """Read and check an answer.

    Raises:
        FrameError: Any byte is not as documented.
    """
    mode, payload, units, offset, sha256 = _unpack(_ANSWER, data)
    _require(mode != Mode.SNAPSHOT_FILE, "an answer's mode is 1 to 4")
    _require(_units(_unescape(payload)) <= units, "the total counts the payload too")
    return AnswerFrame(mode=mode, payload=payload, units=units, offset=offset, snapshot_sha256=sha256)


def pack_request(
    *,
    event: Event,
    body: bytes,
    client: Client = Client.CLAUDE_CODE,
    scope: bytes = b"",
    deadline_ms: int = 0,
    snapshot_sha256: bytes = NO_SHA256,
) -> bytes:
    """Build what a hook (or, with `Event.CONTROL`, the person's tool) sends before it ends its writing side.

    Raises:
        FrameError: The scope or the body is too long.
    """
    _require(len(scope) <= MAX_SCOPE_BYTES, f"a scope has at most {MAX_SCOPE_BYTES} bytes")
    _require(len(body) <= MAX_BODY_BYTES, f"a body has at most {MAX_BODY_BYTES} bytes")
    _require(len(snapshot_sha256) == 32, "a SHA-256 has 32 bytes")
    header = _ASK.pack(
        _REQUEST, VERSION, event, client, 0, len(scope), deadline_ms, 0, 0, snapshot_sha256, bytes(8)
    )
    return header + scope + body


def unpack_request(data: bytes) -> Request:
    """Read and check everything that came until the other side ended its writing.

    Raises:
        FrameError: The header is not as documented, or a length is out of bounds.
    """
    _require(len(data) >= HEADER_BYTES, f"at least {HEADER_BYTES} bytes", got=len(data))
    magic, version, event, client, flags, scope_bytes, deadline_ms, zero, zero_too, sha256, zeros = (
        _ASK.unpack_from(data)
    )
    _require(magic == _REQUEST, "the magic bytes RCLQ", got=magic)
    _require(version == VERSION, f"version {VERSION}", got=version)
    _require((flags, zero, zero_too, zeros) == (0, 0, 0, bytes(8)), "reserved bytes are 0")
    _require(event in set(Event), "a known event", got=event)
    _require(client in set(Client), "a known client", got=client)
    body_at = HEADER_BYTES + scope_bytes
    _require(scope_bytes <= MAX_SCOPE_BYTES and body_at <= len(data), "a whole scope", got=scope_bytes)
    _require(len(data) - body_at <= MAX_BODY_BYTES, f"a body of at most {MAX_BODY_BYTES} bytes")
    return Request(
        event=Event(event),
        client=Client(client),
        scope=data[HEADER_BYTES:body_at],
        deadline_ms=deadline_ms,
        snapshot_sha256=sha256,
        body=data[body_at:],
    )


def _pack(magic: bytes, mode: Mode, payload: bytes, *, units: int, offset: int, sha256: bytes) -> bytes:
    _require(units <= MAX_UNITS, f"at most {MAX_UNITS} UTF-16 units", got=units)
    _require(HEADER_BYTES + len(payload) <= MAX_FRAME_BYTES, f"at most {MAX_FRAME_BYTES} bytes")
    bare = _FRAME.pack(magic, VERSION, mode, 0, len(payload), units, offset, 0, sha256, bytes(8))
    return bare[:20] + struct.pack("<I", _crc32(bare, payload)) + bare[24:] + payload


def _unpack(magic: bytes, data: bytes) -> tuple[Mode, bytes, int, int, bytes]:
    _require(HEADER_BYTES <= len(data) <= MAX_FRAME_BYTES, "a header and at most 256 KiB", got=len(data))
    found, version, mode, zero, length, units, offset, crc32, sha256, zeros = _FRAME.unpack_from(data)
    payload = data[HEADER_BYTES:]
    _require(found == magic, f"the magic bytes {magic.decode()}", got=found)
    _require(version == VERSION, f"version {VERSION}", got=version)
    _require(length == len(payload), f"{length} bytes of payload", got=len(payload))
    _require(crc32 == _crc32(data, payload), "the header's CRC-32")
    _require(zero == 0 and zeros == bytes(8), "reserved bytes are 0")
    _require(mode in set(Mode), "a known mode", got=mode)
    _require(units <= MAX_UNITS, f"at most {MAX_UNITS} UTF-16 units", got=units)
    _require(offset == 0 or mode == Mode.APPENDED_AND_PAYLOAD, "only mode 3 has an offset", got=offset)
    return Mode(mode), payload, units, offset, sha256


def _crc32(header: bytes, payload: bytes) -> int:
    """Over the header without its own four bytes, then the payload."""
    return zlib.crc32(payload, zlib.crc32(header[24:HEADER_BYTES], zlib.crc32(header[:20])))


def _escape(text: str) -> tuple[bytes, int]:
    """The text as the inside of a JSON string, and its UTF-16 units; lone surrogates become U+FFFD."""
    whole = text.encode("utf-16-le", "surrogatepass")
    clean = whole.decode("utf-16-le", "replace")
    body = json.dumps(clean, ensure_ascii=False)[1:-1]
    return body.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode(), len(whole) // 2


def _unescape(payload: bytes) -> str:
    try:
        text: str = json.loads(b'"' + payload + b'"')
    except ValueError as error:  # UnicodeDecodeError is one too
        raise FrameError(
            f"frame: wanted the inside of a JSON string ({error}). The frame was not used."
        ) from error
    return text


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _require(holds: bool, wanted: str, *, got: object = None) -> None:
    if not holds:
        detail = "" if got is None else f", got {got!r}"
        raise FrameError(f"frame: wanted {wanted}{detail}. The frame was not used.")
