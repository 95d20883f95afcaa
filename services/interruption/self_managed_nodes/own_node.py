"""The one Machine and node of the instance that the agent runs on (``--source imds``).

A thousand agents must not each follow the whole cluster, nor list it in a storm: the node's owner reference names the
Machine, so three small reads answer everything. What may go wrong: the node has no Machine, or is not registered
yet; then there is none to act on, and the notice comes again with the next reading of the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.api.core.nodes import parse_node
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pools.generations import GENERATIONS
from shared.domain.pools.nodepools import NodePool
from shared.errors import NotFound, Unavailable
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.pools import read_pool
from shared.kube.resources import NODES


@dataclass
class OwnNode:
    """An ``InstanceLookup`` for one instance. ``name``: of its Kubernetes node."""

    kube: Kube
    machines: Machines
    name: str = ""
    instance: str = ""
    _node: Node | None = None
    _waiting: Machine | None = None

    def count(self, instances: Iterable[str]) -> int:
        """How many of these are this one."""
        return sum(instance == self.instance for instance in instances)

    async def machine(self, instance: str) -> Machine | None:
        """Read node and Machine afresh. None: another instance, or one without a Machine. Raises TransientError; what
        was read before stays then, because another task may be using it.
        """
        if instance != self.instance:
            return None
        node, machine = await self._read()
        self._node = node
        waits = machine is not None and keys.MAINTENANCE_ANNOTATION in machine.annotations
        self._waiting = machine if waits else None
        return machine

    async def _read(self) -> tuple[Node | None, Machine | None]:
        try:
            raw = await self.kube.get(NODES, self.name)
            node = parse_node(raw)
            if provider_instance_id(node.provider_id) != self.instance:
                return None, None
            if any(taint.key == keys.UNREGISTERED_TAINT_KEY for taint in node.taints):
                raise Unavailable(f"node {self.name} is not registered yet")
            key = _owner_key(raw["metadata"].get("ownerReferences") or ())
            return node, await self.machines.get(key) if key else None
        except NotFound:
            return None, None

    def node(self, instance: str) -> Node | None:
        """As of the last ``machine``."""
        return self._node if instance == self.instance else None

    async def any_node(self, instance: str) -> Node | None:
        """Read afresh, owned by a pool or not. None: another instance. Raises TransientError."""
        await self.machine(instance)
        return self.node(instance)

    async def pool(self, machine: Machine) -> NodePool | None:
        """The pool of this Machine; None for one without. Raises TransientError when that cannot be known now."""
        return await read_pool(self.kube, machine.pool_key) if machine.pool_key else None

    def scheduled(self) -> list[tuple[str, Machine]]:
        """The machine, if it waited for a scheduled event at the last ``machine``."""
        return [(self.instance, self._waiting)] if self._waiting else []


def _owner_key(owners: Iterable[dict[str, object]]) -> str:
    kinds = {one.machine_kind for one in GENERATIONS.values()}
    found = (f"{one.get('kind')}/{one.get('name')}" for one in owners if one.get("kind") in kinds)
    return next(found, "")
