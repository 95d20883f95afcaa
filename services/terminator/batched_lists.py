"""Lists that many terminations need at the same moment: one call to the API server answers all of them.

Every answer was read after it was asked for: an older list could miss a launch or a volume that matters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from shared.cloud.client.batching import Batcher
from shared.domain.machines.machine import Machine
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS, NODES, VOLUME_ATTACHMENTS, Resource

IDLE_SECONDS = 0.02
LONGEST_SECONDS = 0.2
MOST_REQUESTS = 1000

Json = dict[str, Any]
Item = TypeVar("Item")


class NodePlace(NamedTuple):
    """A node's name, and what its kubelet says it runs on."""

    name: str
    provider_id: str


def _shared(read: Callable[[], Awaitable[Item]]) -> Batcher[None, Item]:
    async def answer(requests: list[None]) -> list[Item]:
        return [await read()] * len(requests)

    return Batcher(answer, idle=IDLE_SECONDS, longest=LONGEST_SECONDS, most=MOST_REQUESTS)


class BatchedLists:
    """Whole lists of small kinds. Not of pods: those of one node are far fewer than all."""

    def __init__(self, kube: Kube, machines: Machines) -> None:
        self._machines = _shared(machines.list_all)
        self._nodes = _shared(lambda: kube.read_all(NODES, _place))
        self._attachments = _shared(partial(_items, kube, VOLUME_ATTACHMENTS))
        self._records = _shared(partial(_items, kube, LAUNCH_RECORDS))

    async def machines(self) -> Sequence[Machine]:
        return (await self.all_machines())[0]

    async def all_machines(self) -> tuple[Sequence[Machine], Sequence[Mapping[str, Any]]]:
        """The readable machines, and the others as they are stored."""
        return await self._machines.submit(None)

    async def nodes(self) -> Sequence[NodePlace]:
        return await self._nodes.submit(None)

    async def volume_attachments(self) -> Sequence[Json]:
        return await self._attachments.submit(None)

    async def launch_records(self) -> Sequence[Json]:
        return await self._records.submit(None)


async def _items(kube: Kube, resource: Resource) -> Sequence[Json]:
    return (await kube.list(resource)).items


def _place(raw: Json) -> NodePlace:
    return NodePlace(raw["metadata"]["name"], str((raw.get("spec") or {}).get("providerID") or ""))
