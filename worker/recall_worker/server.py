"""Server: one Unix socket, on which hooks ask for answers and the person's tool gives orders.

Flow:  hook → [server] → answer → [server] → hook
In:    request frames (docs/protocol.md).   Out: answer frames, or JSON lines for control requests.
Never: a network port, a peer of another user, a request without a limit.
Next:  worker/recall_worker/answer.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import orjson

from recall_worker.errors import FrameError, RecallError
from recall_worker.frames import MAX_REQUEST_BYTES, SOCKET_NAME, Event, Request, unpack_request

log = logging.getLogger(__name__)

READ_TIMEOUT_S: Final = 10.0
"""A peer that does not finish its request by then is hung up on."""

Answer = Callable[[Request], Awaitable[bytes]]
Control = Callable[[dict[str, Any]], AsyncIterator[dict[str, Any]]]


class Server:
    """Accepts connections until closed; each carries one request."""

    def __init__(self, *, answer: Answer, control: Control) -> None:
        """Serve hooks with `answer` and orders with `control`.

        Args:
            answer: Gives an answer frame for a prompt or session-start request.
            control: Gives JSON objects for an order, the last with `"done": true`.
        """
        self._answer = answer
        self._control = control
        self._server: asyncio.Server | None = None

    async def start(self, state_dir: Path) -> None:
        """Listen on the state folder's socket, replacing a stale one; the caller holds the worker's lock.

        The folder must be the working directory: a path relative to it stays below the 107 bytes that a socket's
        address may have, however deep the folder lies.
        """
        assert Path.cwd() == state_dir.resolve()
        with contextlib.suppress(FileNotFoundError):
            Path(SOCKET_NAME).unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old_mask = os.umask(0o177)
        try:
            listener.bind(SOCKET_NAME)
        finally:
            os.umask(old_mask)
        listener.setblocking(False)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, backlog=256)

    async def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                Path(SOCKET_NAME).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request, write what it gets, hang up."""
        try:
            if peer_uid(writer.get_extra_info("socket")) not in (None, os.geteuid()):
                log.warning("peer refused: another user")
                return
            async with asyncio.timeout(READ_TIMEOUT_S):
                data = await _read_all(reader)
            request = unpack_request(data)
            if request.event is Event.CONTROL:
                await self._obey(request, writer)
            else:
                writer.write(await self._answer(request))
                await writer.drain()
        except FrameError as error:
            log.warning("request refused: %s", error)
        except (ConnectionError, TimeoutError):
            log.info("peer gone")
        except Exception:
            log.exception("request failed")
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, OSError):
                await writer.wait_closed()

    async def _obey(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer an order with JSON lines; an error of ours is the last line."""
        try:
            order = orjson.loads(request.body)
            if not isinstance(order, dict):
                raise FrameError("an order is one JSON object")
            async for line in self._control(order):
                writer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                await writer.drain()
        except (RecallError, orjson.JSONDecodeError) as error:
            code = error.exit_code if isinstance(error, RecallError) else FrameError.exit_code
            failed = {"done": True, "error": str(error), "exit_code": code}
            writer.write(orjson.dumps(failed, option=orjson.OPT_APPEND_NEWLINE))
            await writer.drain()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Bytes until the peer ends its writing side.

    Raises:
        FrameError: More than a request may have.
    """
    parts: list[bytes] = []
    size = 0
    while part := await reader.read(1 << 18):
        parts.append(part)
        size += len(part)
        if size > MAX_REQUEST_BYTES:
            raise FrameError(f"request: wanted at most {MAX_REQUEST_BYTES} bytes, got more")
    return b"".join(parts)


def peer_uid(connection: Any) -> int | None:
    """User id of the process at the other end; None where the system does not tell.

    Source: unix(7), SO_PEERCRED; macOS unix(4), LOCAL_PEERCRED and sys/ucred.h.
    """
    if sys.platform == "linux":
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    if sys.platform == "darwin":
        raw = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED, struct xucred
        return int(struct.unpack_from("2I", raw)[1])
    return None
