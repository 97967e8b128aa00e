"""Client: how the person's tool speaks to a running worker.

Flow:  cli → [client] → server → daemon
In:    an order, one JSON object.   Out: the JSON objects it is answered with.
Never: a wait without a limit.
Next:  worker/recall_worker/server.py
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from recall_worker.errors import RecallError, WorkerError
from recall_worker.frames import MAX_FRAME_BYTES, SOCKET_NAME, Event, pack_request


def order(state_dir: Path, message: dict[str, Any], *, timeout_s: float = 10.0) -> Iterator[dict[str, Any]]:
    """Give the worker an order and yield what it says until it is done.

    Args:
        message: `{"do": "status"}` and the like; docs/protocol.md lists them.
        timeout_s: Longest silence between two lines, seconds.

    Raises:
        WorkerError: No worker, or none that answers in time.
        RecallError: The order failed; its exit code is the worker's.
    """
    try:
        with _connected(state_dir, timeout_s) as connection:
            connection.sendall(pack_request(event=Event.CONTROL, body=orjson.dumps(message)))
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as lines:
                for line in lines:
                    said = orjson.loads(line)
                    if "error" in said:
                        error = RecallError(said["error"])
                        error.exit_code = said.get("exit_code", 1)  # type: ignore[misc]  # this instance's own
                        raise error
                    yield said
    except TimeoutError as error:
        raise WorkerError(
            f"{state_dir}: the worker did not answer within {timeout_s:g} s. "
            "Look at worker.log there, or `recall stop`."
        ) from error
    except OSError as error:
        raise WorkerError(f"{state_dir}: no worker runs here. `recall start` starts one.") from error


def ask(state_dir: Path, message: dict[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Give an order whose answer is one object.

    Raises:
        WorkerError: As `order`; also when the worker hung up without a word.
    """
    for said in order(state_dir, message, timeout_s=timeout_s):
        return said
    raise WorkerError(f"{state_dir}: the worker hung up. Look at worker.log there.")


def exchange(state_dir: Path, request: bytes, *, timeout_s: float) -> bytes:
    """Send a request as a hook does and read the whole answer.

    Args:
        request: A packed request.
        timeout_s: For all of it, seconds: a worker that sends a byte now and then gains nothing by it.

    Raises:
        WorkerError: No worker, none that answers in time, or one that says nothing or more than an answer may.
    """
    until = time.monotonic() + timeout_s
    data = b""
    try:
        with _connected(state_dir, timeout_s) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while len(data) <= MAX_FRAME_BYTES:
                connection.settimeout(max(0.001, until - time.monotonic()))
                part = connection.recv(65_536)
                if not part and data:
                    return data
                if not part:
                    raise WorkerError(f"{state_dir}: the worker hung up. Look at worker.log there.")
                data += part
    except TimeoutError as error:
        raise WorkerError(f"{state_dir}: the worker did not answer within {timeout_s:g} s.") from error
    except OSError as error:
        raise WorkerError(f"{state_dir}: no worker runs here. `recall start` starts one.") from error
    raise WorkerError(f"{state_dir}: the worker's answer is longer than an answer may be.")


@contextmanager
def _connected(state_dir: Path, timeout_s: float) -> Iterator[socket.socket]:
    """A connection to the state folder's socket, however long the folder's path."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    with connection:
        address = str(state_dir / SOCKET_NAME)
        if len(os.fsencode(address)) <= 100:
            connection.connect(address)
        else:
            here = Path.cwd()
            os.chdir(state_dir)
            try:
                connection.connect(SOCKET_NAME)
            finally:
                os.chdir(here)
        yield connection
