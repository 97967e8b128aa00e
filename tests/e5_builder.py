"""A small E5S1 file with random weights, packed by hand: what the reader is held against."""

from __future__ import annotations

import hashlib
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from recall_worker.e5_file import E5File, read_e5_file

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 64, 2, 2, 128, 512
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = (
    *("\u2581" + word for word in ("the", "data", "re", "server", "query", "passage", "how", "do", "I")),
    *("base", "start", ":", "?", ".", "ฐาน", "ข้อมูล", "เซิร์ฟเวอร์", "データ", "ベース", "～", "é"),
)
LETTERS = "\u2581abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
NORMALISATION = {
    "\t": " ",
    "\n": " ",
    "\u3000": " ",
    "\x01": "",
    "\u200b": " ",
    "Ａ": "A",
    "①": "1",
    "ﬁ": "fi",
}


def pieces() -> list[tuple[str, float]]:
    """Specials first, as in the real file, then words, then single letters at a lower score."""
    common = [(word, -4.0 - place / 100) for place, word in enumerate(WORDS)]
    single = [(letter, -9.0) for letter in LETTERS]
    return [*((special, 0.0) for special in SPECIALS), *common, *single]


@dataclass
class Tensors:
    """Tensors as they are packed, and the plain weights they stand for."""

    chance: random.Random
    packed: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)
    plain: dict[str, list[float]] = field(default_factory=dict)

    def add_plain(self, name: str, count: int, *, around: float = 0.0) -> None:
        """Float32, as it is."""
        values = [around + self.chance.gauss(0, 0.05) for _ in range(count)]
        data = struct.pack(f"<{count}f", *values)
        self.packed[name] = (0, count, data)
        self.plain[name] = list(struct.unpack(f"<{count}f", data))

    def add_blocks(self, name: str, count: int, *, spread: float) -> None:
        """Blocks of 32 weights: a half-precision scale, then two nibbles to a byte."""
        data, values = bytearray(), []
        for _ in range(count // 32):
            (scale,) = struct.unpack("<e", struct.pack("<e", spread * self.chance.uniform(0.5, 1.0) / 8))
            nibbles = [min(15, max(0, round(self.chance.gauss(8, 3)))) for _ in range(32)]
            data += struct.pack("<e", scale)
            data += bytes(nibbles[place] | nibbles[place + 16] << 4 for place in range(16))
            values += [(nibble - 8) * scale for nibble in nibbles]
        self.packed[name] = (1, count, bytes(data))
        self.plain[name] = values


def tensors(seed: int = 7) -> Tensors:
    """Every tensor of the network, by name."""
    made = Tensors(random.Random(seed))
    made.add_blocks("emb.word", (len(pieces()) + 2) * HIDDEN, spread=1.0)
    made.add_plain("emb.pos", POSITIONS * HIDDEN)
    made.add_plain("emb.type", 2 * HIDDEN)
    norms = ["emb.ln", *(f"l{layer}.{norm}" for layer in range(LAYERS) for norm in ("aln", "oln"))]
    for name in norms:
        made.add_plain(f"{name}.w", HIDDEN, around=1.0)
        made.add_plain(f"{name}.b", HIDDEN)
    for layer in range(LAYERS):
        for part in ("q", "k", "v", "ao", "fi", "fo"):
            rows, columns = {"fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}.get(part, (HIDDEN, HIDDEN))
            made.add_blocks(f"l{layer}.{part}.w", rows * columns, spread=0.3)
            made.add_plain(f"l{layer}.{part}.b", rows)
    return made


def pack(made: Tensors) -> bytes:
    """Lay the file out: head, pieces, normalisation, directory, tensors."""
    blobs = [piece.encode() for piece, _ in pieces()]
    ends = [sum(map(len, blobs[:count])) for count in range(len(blobs) + 1)]
    out = b"E5S1" + struct.pack("<I", 1)
    out += struct.pack("<7if", HIDDEN, LAYERS, HEADS, INNER, len(blobs) + 2, POSITIONS, 2, 1e-12)
    out += struct.pack("<i5iQ", 32, len(blobs), 0, 2, 1, 3, ends[-1])
    out += struct.pack(f"<{len(ends)}I", *ends) + struct.pack(f"<{len(blobs)}f", *(s for _, s in pieces()))
    out += b"".join(blobs)
    table = b"".join(
        struct.pack(f"<IB{len(put)}I", ord(character), len(put), *map(ord, put))
        for character, put in NORMALISATION.items()
    )
    out += struct.pack("<iI", len(NORMALISATION), len(table)) + table
    directory_size = 4 + sum(2 + len(name.encode()) + 1 + 4 + 8 + 8 for name in made.packed)
    offset = len(out) + directory_size
    out += struct.pack("<i", len(made.packed))
    for name, (kind, count, data) in made.packed.items():
        out += (
            struct.pack("<H", len(name))
            + name.encode()
            + struct.pack("<BIQQ", kind, count, offset, len(data))
        )
        offset += len(data)
    return out + b"".join(data for _, _, data in made.packed.values())


def write_e5_file(path: Path, data: bytes) -> E5File:
    """Write bytes and read them back, telling the reader their sha256."""
    path.write_bytes(data)
    return read_e5_file(path, sha256=hashlib.sha256(data).hexdigest())
