"""The running stack as users, faults and promises see it: objects and instances as they were read last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from local.aws.emulator import load_catalogue
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from simulation.chaos.parts import RealAws, RealNetwork, RealProcess, RealRedis
from simulation.invariants.picture import FOLLOWED

BY_HAND = {"kind": "state-change"}


@dataclass
class ReadStore:
    """The followed objects as they were read last. ``revision`` grows with each reading."""

    kube: Kube
    revision: int = 0
    _documents: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    async def read(self) -> None:
        """List everything from the API server. Raises DovetailError."""
        self._documents = {
            (one.plural, one.group): (await self.kube.list(one)).items for one in FOLLOWED.values()
        }
        self.revision += 1

    def list(self, plural: str, *, group: str = "") -> list[Any]:
        """The objects of one kind."""
        return self._documents.get((plural, group), [])


class ReadInstances:
    """The instances as they were read last, with what a person's console can do to one."""

    def __init__(self, aws: RealAws, types: Mapping[str, Any]) -> None:
        self._aws, self._types = aws, types
        self._found: list[Any] = []

    def read(self) -> None:
        """List them."""
        self._found = [
            SimpleNamespace(
                instance_id=row["instanceId"],
                sequence=number,
                state=row["state"],
                tags=row["tags"],
                zone=row["zone"],
                lifecycle=row["lifecycle"],
                facts=self._types[row["instanceType"]],
            )
            for number, row in enumerate(self._aws.instances())
        ]

    def all(self) -> list[Any]:
        """In the order of their launch."""
        return self._found

    def get(self, instance_id: str) -> Any:
        """One of them; None for an unknown one."""
        return next((one for one in self._found if one.instance_id == instance_id), None)

    def terminate(self, instance: Any, _reason: object) -> None:
        """Terminate it by hand."""
        self._aws.control(
            "interruptions", {**BY_HAND, "state": "terminated", "instanceId": instance.instance_id}
        )

    def stop(self, instance: Any, _reason: object) -> None:
        """Stop it by hand."""
        self._aws.control(
            "interruptions", {**BY_HAND, "state": "stopping", "instanceId": instance.instance_id}
        )


class ReadEmulator:
    """What promises and users ask of the emulator."""

    def __init__(self, aws: RealAws, cluster: str, region: str) -> None:
        self.catalogue = load_catalogue()
        self.settings = SimpleNamespace(cluster_name=cluster, region=region)
        self.inventory = ReadInstances(aws, self.catalogue.types)
        self.capacity = SimpleNamespace(left=lambda _pool: 1)


@dataclass
class ChaosWorld:
    """Fits where the simulation's World is used by users, faults and liveness."""

    kube: Kube
    store: ReadStore
    emulator: ReadEmulator
    redis: RealRedis
    aws: RealAws
    network: RealNetwork
    processes: dict[str, RealProcess]
    cluster: Any = None
    trace: Any = None
    clock: SystemClock = field(default_factory=SystemClock)

    async def read(self) -> None:
        """Read objects and instances. Raises DovetailError."""
        await self.store.read()
        self.emulator.inventory.read()
