"""Which Machine and node are behind an EC2 instance (INT-07), and which nodes an auto scaling group ends.

Both are found in the watcher's mirror by an index that follows it, so that no notice costs a list call. While the
mirror cannot be trusted (Redis or the watcher is away), an instance that it does not know may still have a Machine:
then the Machines are listed from the API server, once for all notices of a few seconds.

What may go wrong: the mirror is behind. A Machine found in it may be gone or replaced by now, so every write names
the UID that it means.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from services.interruption.notices.notice import NoticeKind, taint_for
from shared.api.core.nodes import parse_node
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.nodepools import NodePool
from shared.domain.records import MACHINES, NODE_POOLS, NODES, decode_record
from shared.errors import InvalidObject, Unavailable
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES as NODE_OBJECTS
from shared.log import get_logger
from shared.redis.mirror import Change, MirrorReader

log = get_logger(__name__)

KINDS = (MACHINES, NODES, NODE_POOLS)
TRUSTED_SECONDS = 10.0
"""A mirror whose writer was silent longer than this does not prove that an instance is foreign."""
DOUBT_SECONDS = 5.0
"""A shorter doubt about the mirror is ended by the watcher's next heartbeat."""
LISTED_SECONDS = 5.0
FIRST_LOAD_SECONDS = 5.0


class _Indexed(msgspec.Struct):
    """The only fields of a Machine's or node's record that the index needs: decoding all of it would cost ten times."""

    provider_id: str = ""
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


_INDEXED = msgspec.json.Decoder(_Indexed)


class InstanceLookup(Protocol):
    """What the actions ask about an instance id. Methods raise TransientError when the answer cannot be known now."""

    def count(self, instances: Iterable[str], /) -> int:
        """How many of these belong to Machines."""

    async def machine(self, instance: str, /) -> Machine | None:
        """None: no Machine has this instance."""

    def node(self, instance: str, /) -> Node | None:
        """Its node, as far as that is known without a call."""

    async def any_node(self, instance: str, /) -> Node | None:
        """Its node, also one that no pool owns. None: there is none."""

    async def pool(self, machine: Machine, /) -> NodePool | None:
        """The pool of this Machine; None for one without."""

    def scheduled(self) -> list[tuple[str, Machine]]:
        """(instance, Machine) of all Machines that wait for a scheduled event."""


@dataclass
class Directory:
    """Finds by instance id; call ``note`` with every change of the mirror."""

    machines: Machines
    clock: Clock
    pools: Callable[[str], Awaitable[NodePool | None]]
    """Reads one pool from the API server, for when the mirror has none of that key."""
    nodes: Callable[[], Awaitable[Iterable[Node]]] | None = None
    """Lists the nodes from the API server, for when the mirror cannot be trusted."""
    reader: MirrorReader | None = None
    """Set after construction, because the reader needs ``note`` for its own."""
    _keys: dict[str, dict[str, str]] = field(default_factory=lambda: {MACHINES: {}, NODES: {}})
    _instances: dict[tuple[str, str], str] = field(default_factory=dict)
    _waiting: dict[str, str] = field(default_factory=dict)
    """Machine key -> instance, of machines that wait for a scheduled event."""
    _impaired: dict[str, str] = field(default_factory=dict)
    """Node key -> instance, of nodes that were closed because their instance fails its status checks."""
    _with_hooks: set[str] = field(default_factory=set)
    """Names of nodes that an auto scaling group ends."""
    _read_pools: dict[str, tuple[float, NodePool | None]] = field(default_factory=dict)
    """Pool key -> when it was read (monotonic), and what."""
    _listed: dict[str, Machine] = field(default_factory=dict)
    _listed_at: float = float("-inf")
    _listed_nodes: dict[str, Node] = field(default_factory=dict)
    _listed_nodes_at: float = float("-inf")
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def loaded(self) -> None:
        """Return when the mirror was read, or after a while without it: a start need not list machines."""
        if self.reader is not None:
            with contextlib.suppress(Unavailable):
                await self.reader.wait_for(0, FIRST_LOAD_SECONDS)

    def note(self, change: Change) -> None:
        """Follow one change of the mirror."""
        if change.kind not in (MACHINES, NODES):
            return
        old = self._instances.pop((change.kind, change.key), "")
        if old and self._keys[change.kind].get(old) == change.key:
            del self._keys[change.kind][old]
        indexed = _indexed(change)
        instance = provider_instance_id(indexed.provider_id)
        self._waiting.pop(change.key, None)
        if change.kind == NODES:
            self._impaired.pop(change.key, None)
            if instance and taint_for(NoticeKind.INSTANCE_STATUS) in indexed.taints:
                self._impaired[change.key] = instance
            ends = keys.LIFECYCLE_ANNOTATION in indexed.annotations
            (self._with_hooks.add if ends else self._with_hooks.discard)(change.key)
        elif instance and keys.MAINTENANCE_ANNOTATION in indexed.annotations:
            self._waiting[change.key] = instance
        if instance:
            self._keys[change.kind][instance] = change.key
            self._instances[(change.kind, change.key)] = instance

    def count(self, instances: Iterable[str]) -> int:
        """How many of these have Machines in the mirror."""
        return sum(instance in self._keys[MACHINES] for instance in instances)

    def has_machine(self, key: str) -> bool:
        """Whether the mirror shows a machine with this key and an instance."""
        return (MACHINES, key) in self._instances

    async def machine(self, instance: str) -> Machine | None:
        """None: no Machine has this instance. Raises TransientError when that cannot be known now."""
        found: Machine | None = self._record(MACHINES, instance)
        unknown = instance not in self._keys[MACHINES]
        if found is not None or (unknown and self._trusted()):
            return found
        async with self._listing:
            if self.clock.monotonic() - self._listed_at > LISTED_SECONDS:
                await self._list()
        return self._listed.get(instance)

    def node(self, instance: str) -> Node | None:
        """The node of this instance, if the mirror knows it (INT-23: it may not exist yet)."""
        found: Node | None = self._record(NODES, instance)
        return found

    async def any_node(self, instance: str) -> Node | None:
        """The node of this instance, owned by a pool or not; None: there is none. Raises TransientError."""
        found = self.node(instance)
        unknown = instance not in self._keys[NODES]
        if found is not None or (unknown and self._trusted()) or self.nodes is None:
            return found
        async with self._listing:
            if self.clock.monotonic() - self._listed_nodes_at > LISTED_SECONDS:
                listed = await self.nodes()
                self._listed_nodes = {provider_instance_id(n.provider_id): n for n in listed}
                self._listed_nodes_at = self.clock.monotonic()
        return self._listed_nodes.get(instance) if instance else None

    def nodes_with_hooks(self) -> list[Node]:
        """Nodes that an auto scaling group ends, as far as the mirror knows."""
        found = [self._read(NODES, name) for name in sorted(self._with_hooks)]
        return [node for node in found if node is not None]

    def shows_node(self, name: str) -> bool:
        """Does the mirror have a node of this name?"""
        return self._read(NODES, name) is not None

    def has_lost(self, name: str) -> bool:
        """Is the node of this name certainly gone?"""
        return self._trusted() and not self.shows_node(name)

    async def pool(self, machine: Machine) -> NodePool | None:
        """The pool of this machine, None for one without. Raises TransientError when that cannot be known now."""
        key = machine.pool_key
        found: NodePool | None = self._read(NODE_POOLS, key)
        if found is not None or not key or self._trusted():
            return found
        async with self._listing:  # a storm of notices reads each pool once
            at, known = self._read_pools.get(key, (float("-inf"), None))
            if self.clock.monotonic() - at > LISTED_SECONDS:
                known = await self.pools(key)
                self._read_pools[key] = (self.clock.monotonic(), known)
        return known

    def scheduled(self) -> list[tuple[str, Machine]]:
        """(instance, machine) of all machines that wait for a scheduled event, as far as the mirror knows."""
        found = [(instance, self._read(MACHINES, key)) for key, instance in self._waiting.items()]
        return [(instance, machine) for instance, machine in found if machine is not None]

    def impaired(self) -> list[str]:
        """Instances of Machines whose nodes were closed for their status checks, as far as the mirror knows."""
        return [one for one in self._impaired.values() if one in self._keys[MACHINES]]

    def _record(self, kind: str, instance: str) -> Any:
        return self._read(kind, self._keys[kind].get(instance, ""))

    def _read(self, kind: str, key: str) -> Any:
        body = self.reader.kinds[kind].get(key) if self.reader and key else None
        try:
            return None if body is None else decode_record(kind, body)
        except msgspec.MsgspecError as error:
            log.warning("unreadable record in the mirror", kind=kind, key=key, error=str(error))
            return None

    def _trusted(self) -> bool:
        reader = self.reader
        now = self.clock.monotonic()
        if reader is None or not reader.complete or reader.doubtful_seconds(now) > DOUBT_SECONDS:
            return False
        return reader.age(now) <= TRUSTED_SECONDS

    async def _list(self) -> None:
        log.warning("the mirror cannot be trusted: listing machines")
        found = await self.machines.list()
        ids = ((provider_instance_id(m.provider_id), m) for m in found)
        # Requirements name hundreds of types: 15,000 machines would fill the memory for nothing.
        self._listed = {name: replace(m, requirements=()) for name, m in ids if name}
        self._listed_at = self.clock.monotonic()


def _indexed(change: Change) -> _Indexed:
    if change.body is None:
        return _Indexed()
    try:
        return _INDEXED.decode(change.body)
    except msgspec.MsgspecError as error:
        log.warning("unreadable record in the mirror", key=change.key, error=str(error))
        return _Indexed()


async def list_nodes(kube: Kube) -> list[Node]:
    """All readable nodes, from the API server. Raises TransientError."""
    return [node for node in await kube.read_all(NODE_OBJECTS, _readable) if node is not None]


def _readable(raw: dict[str, Any]) -> Node | None:
    try:
        return parse_node(raw)
    except InvalidObject as error:
        log.warning("unreadable node", error=error.message)
        return None
