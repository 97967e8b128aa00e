"""Golden frames: written from the tables in docs/, with nothing of ours imported.

Flow:  docs/snapshot-format.md, docs/protocol.md → [make_frames] → tests/golden/*.bin + frames.json
In:    nothing.   Out: the same bytes every time.
Never: `recall_worker.frames` or the hook, which are what these files test.
Run:   python tests/golden/make_frames.py   (only when the format's version changes)
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path

HERE = Path(__file__).parent
SLOTS_1_TO_3 = (
    '# About the user\n"Nok" writes Go, thinks in ไทย 😀.\n\n'
    "# Never\n- C:\\temp is not a backup.\u2028\n- No tab\there, no \x1b[0m."
)
APPENDED = "\n- 日本語の決まり: 金曜日にデプロイしない。"
SLOT_4 = "\n\n# Close to this prompt\n- ห้าม migrate ก่อน dump 🐘"
SCOPE = "/home/nok/งาน/billing".encode()
STDIN = '{"hook_event_name":"UserPromptSubmit","prompt":"ลบ \\"ตาราง\\" ยังไงดี?"}\n'.encode()


def escape(text: str) -> bytes:
    """The inside of a JSON string: quote, backslash, controls and U+2028/9 escaped, the rest raw UTF-8."""
    body = json.dumps(text, ensure_ascii=False)[1:-1]
    return body.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()


def units(text: str) -> int:
    """UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def frame(magic: bytes, *, mode: int, payload: bytes, units: int, offset: int, sha256: bytes) -> bytes:
    """Header and payload of a snapshot file or an answer."""
    head = struct.pack("<4sBBHIII", magic, 1, mode, 0, len(payload), units, offset)
    tail = sha256 + bytes(8)
    return head + struct.pack("<I", zlib.crc32(head + tail + payload)) + tail + payload


def main() -> None:
    """Write every file."""
    facts: dict[str, dict[str, object]] = {}

    def write(name: str, data: bytes, **said: object) -> None:
        (HERE / f"{name}.bin").write_bytes(data)
        facts[name] = {"bytes": len(data), **said}

    sha256 = hashlib.sha256(escape(SLOTS_1_TO_3)).digest()
    for name, text in {
        "snapshot": SLOTS_1_TO_3,
        "snapshot-grown": SLOTS_1_TO_3 + APPENDED,
        "snapshot-empty": "",
    }.items():
        payload = escape(text)
        own = hashlib.sha256(payload).digest()
        data = frame(b"RCLS", mode=0, payload=payload, units=units(text), offset=0, sha256=own)
        write(name, data, text=text, units=units(text), sha256=own.hex())

    grown = hashlib.sha256(escape(SLOTS_1_TO_3 + APPENDED)).digest()
    offset = len(escape(SLOTS_1_TO_3))
    answers = {
        "answer-1-snapshot-and-payload": (1, SLOT_4, units(SLOTS_1_TO_3 + SLOT_4), 0, sha256),
        "answer-2-payload": (2, SLOT_4, units(SLOT_4), 0, sha256),
        "answer-3-appended-and-payload": (3, SLOT_4, units(APPENDED + SLOT_4), offset, grown),
        "answer-4-nothing": (4, "", 0, 0, sha256),
    }
    for name, (mode, text, total, at, echo) in answers.items():
        data = frame(b"RCLA", mode=mode, payload=escape(text), units=total, offset=at, sha256=echo)
        write(name, data, mode=mode, text=text, units=total, offset=at, snapshot_sha256=echo.hex())

    requests = {"request-prompt": (1, 0, 500, sha256), "request-session-start": (2, 2, 150, bytes(32))}
    for name, (event, client, deadline_ms, held) in requests.items():
        head = struct.pack("<4sBBBBIIII", b"RCLQ", 1, event, client, 0, len(SCOPE), deadline_ms, 0, 0)
        data = head + held + bytes(8) + SCOPE + STDIN
        said = {"scope": SCOPE.decode(), "body": STDIN.decode(), "snapshot_sha256": held.hex()}
        write(name, data, event=event, client=client, deadline_ms=deadline_ms, **said)

    (HERE / "frames.json").write_text(
        json.dumps(facts, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
