"""Frame: the hook's own reading of the two formats, and its last word on what may be printed.

Flow:  bytes of a snapshot file or an answer → [frame] → pipe
In:    bytes, of which nothing is known.   Out: numbers and payload, or the sign that they are not to be used.
Never: an exception, whatever the bytes. recall_worker.frames is the other side; tests/golden/*.bin hold both.
Next:  docs/snapshot-format.md, docs/protocol.md
"""

from zlib import crc32

TYPE_CHECKING = False  # `typing` would cost a millisecond
if TYPE_CHECKING:
    import _socket

HEADER_BYTES = 64
MAX_FRAME_BYTES = 262_144

# The backslash's own comes first: after it every backslash left begins another escape. Then the usual ones.
SIMPLE_ESCAPES = (b"\\\\", b"\\n", b'\\"', b"\\t", b"\\r", b"\\b", b"\\f", b"\\/")
FORBIDDEN = bytes(range(32)) + b'"\\'  # raw in a JSON string
HEX_DIGITS = b"0123456789abcdefABCDEF"
FOUR_BYTE_LEADS = bytes(range(0xF0, 0xF8))  # each begins a character of two UTF-16 units


def read_answer(line: "_socket.socket") -> bytes:
    """One frame from the worker; nothing if it ends early, is too long or does not begin like one."""
    data = b""
    wanted = HEADER_BYTES
    while len(data) < wanted:
        part = line.recv(65_536)
        data += part
        if len(data) >= HEADER_BYTES:
            wanted = HEADER_BYTES + little(data[8:12])
        if not part or wanted > MAX_FRAME_BYTES or data[:5] != b"RCLA\1"[: len(data)]:
            return b""
    return data


def parse(data: bytes, magic: bytes) -> tuple[int, bytes, int, int, bytes]:
    """Mode, payload, units, offset and SHA-256 of a frame; mode -1 if one byte is not as documented."""
    payload = data[HEADER_BYTES:]
    if (
        len(data) < HEADER_BYTES
        or data[:5] != magic + b"\1"
        or little(data[6:8])
        or little(data[56:64])
        or little(data[8:12]) != len(payload)
        or little(data[20:24]) != crc32(payload, crc32(data[24:64], crc32(data[:20])))
    ):
        return -1, b"", 0, 0, b""
    return data[5], payload, little(data[12:16]), little(data[16:20]), data[24:56]


def units_of(body: bytes) -> int:
    """UTF-16 units of the text that the inside of a JSON string stands for; -1 if it is no such thing.

    The last word on what may be printed: no checksum knows a mode 3 offset that falls inside an escape.
    Escaped surrogates are refused too, for our format escapes no letter and a lone one breaks the request.
    """
    plain = body
    for escape in SIMPLE_ESCAPES:
        if b"\\" not in plain:
            break
        plain = plain.replace(escape, b" ")
    if b"\\u" in plain:
        first, *others = plain.split(b"\\u")
        for other in others:
            if len(other) < 4 or other[0] in b"dD" or other[:4].translate(None, HEX_DIGITS):
                return -1
        plain = first + b"".join(b" " + other[4:] for other in others)
    if len(plain.translate(None, FORBIDDEN)) != len(plain):
        return -1
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        return -1
    return len(text) + len(plain) - len(plain.translate(None, FOUR_BYTE_LEADS))


def little(data: bytes) -> int:
    """An unsigned number of the wire."""
    return int.from_bytes(data, "little")
