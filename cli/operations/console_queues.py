"""Queues and dead letters as the console shows them, for a cluster whose Redis cannot be reached from here.

Errors: the console refuses, or cannot reach Redis itself. The message names the next step.
"""

from __future__ import annotations

import os
from typing import Any

from cli.operations.queues import QueueDepth
from cli.stack.requests import TOKEN, exchange_in_cluster, own_cluster
from shared.concurrency.clock import rfc3339
from shared.errors import NotFound, Unavailable
from shared.kube.client import Kube
from shared.redis.streams import GROUPS

READ_SECONDS = 15.0
ANSWER_LIMIT_BYTES = 32 * 2**20
Document = dict[str, Any]


async def read_console(console_url: str) -> Document:
    """``queues_of`` on a client of its own."""
    async with own_cluster() as kube:
        return await queues_of(kube, console_url)


async def queues_of(kube: Kube, console_url: str) -> Document:
    """The console's report: ``queues`` and ``deadLetters``. Raises Unavailable, and what the API server refuses."""
    reply = await exchange_in_cluster(
        kube, f"{console_url}/api/queues", seconds=READ_SECONDS, limit=ANSWER_LIMIT_BYTES,
        token=os.environ.get(TOKEN, ""),
    )  # fmt: skip
    document = reply.document if isinstance(reply.document, dict) else {}
    if reply.status != 200:
        problem = document.get("error") or f"it answered {reply.status}"
        raise Unavailable(f"the console does not show the queues: {problem}")
    if document.get("problem"):
        raise Unavailable(f"the console cannot read the queues: {document['problem']}")
    return document


def depths_of(report: Document) -> list[QueueDepth]:
    """One row per stream and group, in the order of ``shared.redis.streams``; a group that never read has zeros."""
    found = []
    for stream in report["queues"]:
        groups = {one["name"]: one for one in stream["groups"]}
        for name in dict.fromkeys((*GROUPS.get(stream["stream"], ()), *groups)):
            one = groups.get(name, {"pending": 0, "waiting": stream["length"]})
            counts = (stream["length"], one["pending"])
            behind, dead = bool(one["waiting"]), stream["dead"]
            found.append(QueueDepth(stream["stream"], name, *counts, behind=behind, dead=dead))
    return found


def letters_of(report: Document, chosen: list[str], limit: int) -> tuple[list[Document], int]:
    """(dead letters, oldest first in each stream, number of those left out). ``at``: seconds since the epoch."""
    found: list[Document] = []
    for stream in chosen:
        newest = [one for one in report["deadLetters"] if one["stream"] == stream][:limit]
        found += reversed(newest)
    dead = {one["stream"]: one["dead"] for one in report["queues"]}
    return found, max(0, sum(dead.get(stream, 0) for stream in chosen) - len(found))


def texts_of(report: Document, stream: str, name: str) -> dict[str, str]:
    """All that the console has of one dead letter. Raises NotFound."""
    named = (stream, name)
    letter = next(
        (one for one in report["deadLetters"] if (one["stream"], one["id"]) == named), None
    )
    if letter is None:
        raise NotFound(
            f"{stream} has no dead letter {name} among the newest, which are all that the console shows"
        )
    texts = {"id": letter["id"], "since": rfc3339(letter["at"]), "given up by": letter["group"]}
    texts |= {"tries": str(letter["deliveries"]), "source": letter["source"]}
    return texts | {"error": letter["error"], "body": letter["body"]}
