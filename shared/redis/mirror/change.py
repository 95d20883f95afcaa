"""The mirror's changes, its keys in Redis, and the error for a mirror that must be written again.

Keys, all under the cluster's prefix (one hash slot):

    mirror:<kind>       hash, object key -> tag of the entry (see ``integrity``) and record (opaque bytes)
    mirror:kinds        set of the kinds that have a hash
    mirror:generation   number of the last change
    mirror:epoch        the writer: a random id of its process, and the number of its snapshot
    mirror:complete     exists once a whole snapshot is in place
    mirror:heartbeat    Redis' clock in milliseconds at the writer's last heartbeat
    mirror:seal         the writer's last heartbeat: digests of the contents, positions of the watches
    mirror:heal         set by a reader that found foreign entries: the writer must write the mirror anew
    cluster             stream of changes (one entry per generation) and of heartbeats
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import TransientError

OP_PUT = b"put"
OP_DELETE = b"delete"
OP_RESET = b"reset"
"""The whole mirror was replaced: readers load it again."""
OP_HEARTBEAT = b"heartbeat"
"""No change: the writer's heartbeat for the current generation."""


class MirrorLost(TransientError):
    """The mirror no longer belongs to this writer: Redis was emptied, or another writer began. Call ``begin``."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object put (``body``) or deleted (None). ``generation`` is filled in by the reader."""

    kind: str
    key: str
    body: bytes | None
    generation: int = 0


class MirrorKeys:
    """The key names under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.hash_prefix = f"{prefix}mirror:"
        self.epoch = f"{prefix}mirror:epoch"
        self.generation = f"{prefix}mirror:generation"
        self.complete = f"{prefix}mirror:complete"
        self.heartbeat = f"{prefix}mirror:heartbeat"
        self.kinds = f"{prefix}mirror:kinds"
        self.seal = f"{prefix}mirror:seal"
        self.heal = f"{prefix}mirror:heal"
        self.stream = f"{prefix}cluster"

    def objects(self, kind: str) -> str:
        """The hash of one kind."""
        return f"{self.hash_prefix}{kind}"

    def staging(self, kind: str, epoch: str) -> str:
        """The hash that collects a new snapshot of one kind before it replaces the live hash."""
        return f"{self.hash_prefix}staging:{epoch}:{kind}"
