"""Ledger schema: the tables, and the steps that bring an older ledger file up to date.

Flow:  vault → records → [ledger] → indexes → snapshot → hook
In:    a connection inside a write transaction.   Out: the tables below, and `PRAGMA user_version`.
Never: an edit of a step that was released: add another one.
Next:  worker/recall_worker/ledger_db.py
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Final

APPLICATION_ID: Final = 0x5265636C
"""`PRAGMA application_id`, "Recl": tells a ledger from any other SQLite file."""

MARK_TABLES: Final = frozenset({"meta", "files", "records", "passages", "changes"})
"""Tables that together tell a ledger whose `application_id` was damaged from another program's file."""

Migration = Callable[[sqlite3.Connection], None]

# A record's primary key is its place in the order first seen: an id may change (a person adds `id:`), that
# never does. Passages hang on it. AUTOINCREMENT, because an index may still hold a number whose row is gone.
# `stated_id` is the `id:` of the note, `key` what tells a record from others of its note: "" or "#Heading".
# `files.sha256` is empty, and `settled` 0, where the next scan must read the content whatever its time says.
_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE files (
  path TEXT PRIMARY KEY,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  settled INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE problems (
  path TEXT NOT NULL REFERENCES files(path) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  line INTEGER,
  message TEXT NOT NULL,
  fatal INTEGER NOT NULL,
  PRIMARY KEY (path, place)
) WITHOUT ROWID;

CREATE TABLE unlisted (
  place INTEGER PRIMARY KEY,
  path TEXT NOT NULL,
  message TEXT NOT NULL,
  fatal INTEGER NOT NULL
);

CREATE TABLE records (
  first_seen INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  stated_id TEXT,
  key TEXT NOT NULL,
  path TEXT NOT NULL REFERENCES files(path) DEFERRABLE INITIALLY DEFERRED,
  place INTEGER NOT NULL,
  type TEXT NOT NULL,
  high INTEGER NOT NULL,
  stated_date TEXT,
  first_day TEXT NOT NULL,
  project TEXT,
  tags TEXT NOT NULL,
  title TEXT NOT NULL,
  line INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX records_by_path ON records(path, place);
CREATE INDEX records_by_stated_id ON records(stated_id) WHERE stated_id IS NOT NULL;
CREATE INDEX records_by_type ON records(type, first_seen);

CREATE TABLE departed (
  first_seen INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  text_sha256 TEXT NOT NULL,
  first_day TEXT NOT NULL,
  left_day TEXT NOT NULL
);
CREATE INDEX departed_by_text ON departed(text_sha256);
CREATE INDEX departed_by_id ON departed(id);

CREATE TABLE passages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  record INTEGER NOT NULL REFERENCES records(first_seen) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  text_sha256 TEXT NOT NULL,
  title_path TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX passages_by_record ON passages(record);
CREATE INDEX passages_by_text ON passages(text_sha256);

CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  passage INTEGER NOT NULL,
  kind INTEGER NOT NULL
);

CREATE TABLE models (
  model INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dimension INTEGER NOT NULL
);
CREATE TABLE vectors (
  model INTEGER NOT NULL REFERENCES models(model) ON DELETE CASCADE,
  text_sha256 TEXT NOT NULL,
  gone_day TEXT,
  vector BLOB NOT NULL
);
CREATE UNIQUE INDEX vectors_by_text ON vectors(model, text_sha256);

CREATE TABLE windows (scope TEXT PRIMARY KEY, ids TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE manifests (
  stamp INTEGER PRIMARY KEY AUTOINCREMENT,
  scope TEXT NOT NULL,
  sha256 BLOB NOT NULL,
  text TEXT NOT NULL,
  shown TEXT NOT NULL
);
CREATE UNIQUE INDEX manifests_by_sha256 ON manifests(sha256, scope);
CREATE INDEX manifests_by_scope ON manifests(scope, stamp);

CREATE TABLE projects (name TEXT PRIMARY KEY, directory BLOB NOT NULL) WITHOUT ROWID;
"""


def _create(connection: sqlite3.Connection) -> None:
    """Version 1: every table.

    The change log starts at the time of its making in microseconds rather than at 1: whoever followed a
    ledger that stood here before then has a position below this one's start, and is told to begin anew.
    """
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    start = time.time_ns() // 1_000
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', ?)", (start,))
    connection.execute("INSERT INTO meta (key, value) VALUES ('log_floor', ?)", (str(start),))


MIGRATIONS: Final[Sequence[Migration]] = (_create,)
"""Step n (from 1) takes a ledger from version n - 1 to n."""


def migrate(connection: sqlite3.Connection, *, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the steps that are still missing, inside the caller's transaction: all of them or none."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for step in migrations[version:]:
        step(connection)
    if version < len(migrations):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
