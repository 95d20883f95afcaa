"""What the console sends, as records.

Times are seconds since the epoch. Every text comes from the cluster or from the network and is untrusted:
``cells.safe`` makes it printable. Unknown fields are ignored and missing ones have a value, so that a newer or an older
console can be shown.
"""

from __future__ import annotations

from msgspec import Struct, field


class Node(Struct, frozen=True, rename="camel"):
    """A node, or a machine that becomes one. Allocatable ``cpu`` in millicores, ``memory`` in bytes."""

    id: str
    name: str = ""
    machine: str = ""
    pool: str = ""
    type: str = ""
    zone: str = ""
    capacity_type: str = ""
    price: float | None = None
    """US dollars an hour; None when it is not known."""
    created: float = 0.0
    state: str = ""
    marks: tuple[str, ...] = ()
    why: str = ""
    deadline: float | None = None
    """When the instance ends by force."""
    cpu: int = 0
    memory: int = 0
    pod_limit: int = 0


class Pod(Struct, frozen=True, rename="camel"):
    """A pod. Requested ``cpu`` in millicores, ``memory`` in bytes. ``node``: the id of a Node, or empty."""

    id: str
    name: str = ""
    node: str = ""
    cpu: int = 0
    memory: int = 0
    state: str = ""
    since: float = 0.0
    owner: str = ""
    waits: str = ""
    verdict: str = ""
    """Why the scheduler's last plan has no place for it."""
    change: str = ""
    """The smallest change that would place it, when that is known."""


class Trust(Struct, frozen=True):
    """Whether the console's copy of the cluster can be relied on, and the reason when it cannot."""

    ok: bool
    reason: str = ""
    missing: str = ""
    """What the picture lacks although it can be relied on."""
    heard: int = 0
    """Seconds since the API server last sent anything; a console of an older version does not say."""


class Put(Struct, frozen=True):
    """Objects that are new or changed, whole."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()


class Gone(Struct, frozen=True):
    """Ids of objects that no longer exist."""

    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class Snapshot(Struct, frozen=True):
    """The whole cluster at the time ``at``."""

    at: float
    trusted: Trust
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    cluster: str = ""
    version: str = ""


class Change(Struct, frozen=True):
    """What is different since the message before it."""

    at: float
    trusted: Trust
    put: Put = field(default_factory=Put)
    gone: Gone = field(default_factory=Gone)


class Beat(Struct, frozen=True):
    """Nothing is different, and the console is alive."""

    at: float
    trusted: Trust


Message = Snapshot | Change | Beat
