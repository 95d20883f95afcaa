"""HTTP as far as a proxy needs it: which request is whole, which one is a watch, and answers in the server's place."""

from __future__ import annotations

import re

import orjson

from local.cluster.api.errors import ApiError
from simulation.servers.refusals import REFUSALS

HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_METHOD = re.compile(rb"([A-Z]+) \S+ HTTP/1\.1\r\n")
RETRY_AFTER = {429: "Retry-After: 1\r\n"}


def _line(kind: str, body: object) -> bytes:
    return orjson.dumps({"type": kind, "object": body}) + b"\n"


EXPIRED = _line("ERROR", ApiError(410, "Expired", "too old resource version").status())
"""The line with which the API server ends a watch whose position is compacted."""
HALF_LINE = EXPIRED[: len(EXPIRED) // 2]


def method_of_whole(data: bytes) -> str:
    """The method of a request that ``data`` holds from its first byte to its last; "" for anything else."""
    head, separator, body = data.partition(HEAD_END)
    method = _METHOD.match(head + separator)
    if not separator or method is None:
        return ""
    length = _LENGTH.search(head)
    return method[1].decode() if len(body) == int(length[1] if length else 0) else ""


def is_watch(data: bytes) -> bool:
    """Whether a request begins with ``data`` whose answer is a watch."""
    line = data.partition(b"\r\n")[0]
    return line.startswith(b"GET ") and b"watch=true" in line


def refusal(status: int) -> bytes:
    """The answer of an API server that refuses a request with this status; the connection stays open."""
    reason, message = REFUSALS[status]
    body = orjson.dumps(ApiError(status, reason, message).status())
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n"
        f"{RETRY_AFTER.get(status, '')}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def chunk(data: bytes) -> bytes:
    """``data`` as one chunk of an answer of unknown length."""
    return b"%x\r\n%b\r\n" % (len(data), data)
