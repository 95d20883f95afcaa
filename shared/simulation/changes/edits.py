"""One change of one object: what to write in its manifest, and the same change in a snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod

Action = Literal["add", "remove", "set"]


@dataclass(frozen=True)
class Edit:
    """One change of one field.

    ``action``: ``add`` appends ``value`` to the list, or puts its entries into the map. ``remove`` takes away the entry
    that ``value`` names: the key of a map, the index of a list before any edit, the field itself for None. ``set``
    writes ``value``; in ``requirements`` it replaces all entries of that key.
    """

    object: str
    """Kind and name: ``Pod default/web``, ``NodePool default``."""
    field: str
    """The path in the manifest, such as ``spec.tolerations``."""
    action: Action
    value: Any
    text: str
    """The same in words, in the imperative."""
    weight: int
    """How much it gives up, in relation to other edits: of two ways the lighter one is proposed."""
    apply: Callable[[Snapshot], Snapshot] = dataclasses.field(compare=False, repr=False)
    resource: str = ""
    """Of removed requests and limits, for which a tighter amount may do."""


def of_pod(uid: str, change: Callable[[Pod], Pod]) -> Callable[[Snapshot], Snapshot]:
    """The change of one pod, in a snapshot."""

    def apply(snapshot: Snapshot) -> Snapshot:
        pods = tuple(change(pod) if pod.uid == uid else pod for pod in snapshot.pods)
        return replace(snapshot, pods=pods)

    return apply


def of_pool(key: str, change: Callable[[NodePool], NodePool]) -> Callable[[Snapshot], Snapshot]:
    """The change of one pool, in a snapshot."""

    def apply(snapshot: Snapshot) -> Snapshot:
        pools = tuple(change(pool) if pool.key == key else pool for pool in snapshot.pools)
        return replace(snapshot, pools=pools)

    return apply


def applied(snapshot: Snapshot, edits: tuple[Edit, ...]) -> Snapshot:
    """The snapshot after all edits."""
    for edit in edits:
        snapshot = edit.apply(snapshot)
    return snapshot
