"""How much memory machines really have: learned from their nodes, used for the next ones (IT-12).

EC2 says what a machine has, the kubelet what the operating system got of it; between them are some percent that only
the estimate of IT-11 knows. The first node of an (instance type, image) replaces the estimate; of several the least
counts, for a pod must fit on any of them.

Kept in Redis and here; what Redis lost is written again. What may go wrong: a node that reports nonsense would make its
type useless for two months, so what is not between half and all of the memory that was expected is not believed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.resources import MEMORY
from shared.log import get_logger
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory, Sizes

log = get_logger(__name__)

KEEP_LEARNED_SECONDS = 60 * 24 * 3600.0
"""From the last node that reported (LCH-90)."""
RENEW_LEARNED_SECONDS = 24 * 3600.0
"""A node that reports nothing new is stored again this often."""
MOST_LEARNED = 5_000
"""(type, image) pairs remembered; those not seen for longest go first."""
MIB = 1024**2
_MEMORY_LABEL = keys.AWS_PREFIX + "instance-memory"


class Learned(msgspec.Struct, frozen=True):
    instance_type: str
    image: str
    memory_bytes: int

    @property
    def member(self) -> str:
        return f"{self.instance_type} {self.image}"


def learned(machine: Machine, node: Node) -> Learned | None:
    """What this machine's node says of its type and image; None when that is nothing, or not to be believed."""
    reported = node.capacity.get(MEMORY, 0)
    expected = machine.capacity.get(MEMORY, 0)
    known = machine.instance_type and machine.image_id
    if not known or expected <= 0 or not expected // 2 <= reported <= _most(machine, expected):
        return None
    return Learned(machine.instance_type, machine.image_id, reported)


def _most(machine: Machine, expected: int) -> int:
    """The memory of the type by EC2; where no label has it, a quarter more than estimated."""
    label = machine.labels.get(_MEMORY_LABEL, "")
    return int(label) * MIB if label.isdecimal() else expected + expected // 4


@dataclass
class MemorySizes:
    """Everything learned, by (type, image)."""

    store: LearnedMemory
    clock: Clock
    _held: Sizes = field(default_factory=dict)
    _syncing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def learn(self, machine: Machine, node: Node) -> None:
        """Remember what this node reports. Cheap when it is nothing new; raises what Redis raises."""
        found = learned(machine, node)
        if found is None:
            return
        size, seen = self._held.get(found.member, (found.memory_bytes + 1, 0.0))
        now = self.clock.now()
        if size <= found.memory_bytes and now - seen < RENEW_LEARNED_SECONDS:
            return
        await self.store.write({found.member: (found.memory_bytes, now)})
        self._held[found.member] = (min(size, found.memory_bytes), now)
        if found.memory_bytes < size:
            log.info(
                "learned the memory of an instance type",
                instance_type=found.instance_type,
                image=found.image,
                bytes=found.memory_bytes,
            )

    async def by_type(self) -> dict[str, dict[str, int]]:
        """Instance type -> image id -> bytes. Redis and this process know the same afterwards."""
        async with self._syncing:
            await self._sync()
        found: dict[str, dict[str, int]] = {}
        for member, (size, _) in self._held.items():
            name, _, image = member.partition(" ")
            found.setdefault(name, {})[image] = size
        return found

    async def _sync(self) -> None:
        stored = await self.store.read()
        lost = {
            member: known
            for member, known in self._held.items()
            if member not in stored or known[0] < stored[member][0]
        }
        if lost:
            await self.store.write(lost)
        merged = stored | lost
        keep = sorted(merged, key=lambda member: (merged[member][1], member))[-MOST_LEARNED:]
        oldest = self.clock.now() - KEEP_LEARNED_SECONDS
        kept = {member: merged[member] for member in keep if merged[member][1] > oldest}
        self._held = kept
        await self.store.drop(member for member in merged if member not in kept)
