"""Bench peers: other people's BM25 over the same notes, asked the same prompts.

Flow:  bench_texts → [bench_peers] → bench_search
In:    notes and a prompt's words.   Out: numbers of the twenty best notes.
Never: a peer held back: each has its index in memory and its own English stemmer.
Next:  scripts/bench_search.py
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from bench_texts import Note

TOP_K: Final = 20

Ask = Callable[[str], list[int]]


def tantivy_peer(notes: Sequence[Note]) -> Ask:
    """Rust, by its Python package: what an answer needs is the number that its document store holds."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", stored=True)
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for number, note in enumerate(notes):
        writer.add_document(tantivy.Document(number=number, body=f"{note.title}\n{note.text}"))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(prompt: str) -> list[int]:
        hits = searcher.search(index.parse_query(prompt, ["body"]), TOP_K, count=False).hits
        return [searcher.doc(address)["number"][0] for _, address in hits]

    return ask


def bm25s_peer(notes: Sequence[Note]) -> Ask:
    """Numpy and scipy over scores made ahead; its index cannot be added to."""
    import bm25s
    import snowballstemmer

    stem = snowballstemmer.stemmer("english").stemWord
    texts = [f"{note.title}\n{note.text}" for note in notes]
    tokenizer = bm25s.tokenization.Tokenizer(stemmer=stem, stopwords=[])
    engine = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    engine.index(tokenizer.tokenize(texts, show_progress=False), show_progress=False)

    def ask(prompt: str) -> list[int]:
        tokens = tokenizer.tokenize([prompt], update_vocab=False, show_progress=False, return_as="ids")
        found, _ = engine.retrieve(tokens, k=min(TOP_K, len(texts)), show_progress=False)
        return [int(number) for number in found[0]]

    return ask


def fts5_peer(notes: Sequence[Note]) -> Ask:
    """SQLite's own, as most memory tools use it."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE notes USING fts5(body, tokenize = 'porter unicode61')")
    rows = ((number, f"{note.title}\n{note.text}") for number, note in enumerate(notes))
    database.executemany("INSERT INTO notes (rowid, body) VALUES (?, ?)", rows)
    database.execute("INSERT INTO notes (notes) VALUES ('optimize')")
    query = f"SELECT rowid FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT {TOP_K}"

    def ask(prompt: str) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in prompt.split())
        return [number for (number,) in database.execute(query, (words,))]

    return ask


PEERS: Final[dict[str, Callable[[Sequence[Note]], Ask]]] = {
    "tantivy": tantivy_peer,
    "bm25s": bm25s_peer,
    "fts5": fts5_peer,
}
