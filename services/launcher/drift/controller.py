"""Keeps the condition Drifted of every launched machine true (DRF-01). What ``reasons`` decides is written here.

All machines are judged every five minutes, those of a pool or a class also when it changed. Nothing is remembered that
counts: after a crash or a lost message the next check finds the same.

What may go wrong: a pool, a class or EC2's list cannot be read. Their machines then keep the condition that they have
and the others are judged all the same (F23). The machines are listed before pools and classes, so that none has a newer
hash than what it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.launcher.drift.reasons import Facts, drift_of, is_judged
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from services.launcher.resolved_class import Resolved
from shared.cloud.ec2.records import Instance
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import DRIFTED, Condition, Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.nodepools import NodePool
from shared.errors import DovetailError
from shared.kube.machines import Machines
from shared.kube.pools import readable_pools
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource

log = get_logger(__name__)

CHECK_SECONDS = 2.0
"""How soon the machines of a changed pool or class are judged."""
PERIOD_SECONDS = 300.0
TYPE_SEEN_SECONDS = 1800.0
"""How long a type that was found is not searched again (DRF-02)."""
_NEVER = float("-inf")


@dataclass
class DriftController:
    """Judges machines and writes what changed."""

    ports: Ports
    machines: Machines
    node_classes: NodeClasses
    catalogues: CatalogueSource
    writer: MachineWriter
    _changed: set[str] = field(default_factory=set)
    """Keys of pools and classes; as many as there are of them."""
    _judged_at: float = _NEVER
    _types_seen: dict[str, float] = field(default_factory=dict)
    """Machine's uid -> when its type was in the catalogue (monotonic)."""

    def changed(self, key: str) -> None:
        """This pool or class was edited: its machines are judged soon."""
        self._changed.add(key)

    async def check(self) -> None:
        """Judge the machines that are due. Raises what the API server or Redis raises; then all is tried again."""
        now = self.ports.clock.monotonic()
        all_due = now - self._judged_at >= PERIOD_SECONDS
        changed, self._changed = self._changed, set()
        if not (all_due or changed):
            return
        try:
            await self._judge(None if all_due else changed)
        except DovetailError:
            self._changed |= changed
            raise
        if all_due:
            self._judged_at = now

    async def _judge(self, changed: Set[str] | None) -> None:
        """``changed``: keys of the pools and classes whose machines are due; None: all."""
        launched = [machine for machine in await self.machines.list() if is_judged(machine)]
        if changed is None:
            uids = {machine.uid for machine in launched}
            self._types_seen = {u: at for u, at in self._types_seen.items() if u in uids}
        pools = await readable_pools(self.ports.kube)
        due = [
            machine
            for machine in launched
            if changed is None
            or not changed.isdisjoint((machine.pool_key, _class_key(machine, pools)))
        ]
        verdicts = await self._verdicts([m for m in due if self._may_drift(m)], pools)
        for machine in due:
            verdict = verdicts[machine.uid] if self._may_drift(machine) else ""
            if verdict is not None:
                await self._write(machine, verdict)

    def _may_drift(self, machine: Machine) -> bool:
        """V1alpha5 needs the gate (DRF-08, OPS-05)."""
        return self.ports.settings.feature_gates.drift or not machine.api.drift_needs_gate

    async def _verdicts(
        self, machines: list[Machine], pools: Mapping[str, NodePool]
    ) -> dict[str, str | None]:
        """By uid. EC2 is asked only about machines that did not drift without it."""
        if not machines:
            return {}
        facts = await self._facts(machines, pools)
        now = self.ports.clock.now()
        found = {m.uid: drift_of(m, facts[m.uid], now=now) for m in machines}
        open_ids = {
            provider_instance_id(m.provider_id)
            for m in machines
            if not found[m.uid] and facts[m.uid].resolved is not None
        }
        instances = await self._instances(open_ids - {""})
        for machine in machines:
            instance = instances.get(provider_instance_id(machine.provider_id))
            if instance is not None:
                known = replace(facts[machine.uid], instance=instance)
                found[machine.uid] = drift_of(machine, known, now=now)
        return found

    async def _facts(
        self, machines: Iterable[Machine], pools: Mapping[str, NodePool]
    ) -> dict[str, Facts]:
        """By uid, all but the instances."""
        classes = await self.node_classes.readable()
        catalogue = await self.catalogues.get()
        types = {kind.name: kind for kind in catalogue.types} if catalogue else {}
        class_of = {machine.uid: _class_key(machine, pools) for machine in machines}
        resolved = await self._resolved(set(class_of.values()) & classes.keys())
        return {
            machine.uid: Facts(
                pools.get(machine.pool_key),
                classes.get(class_of[machine.uid]),
                resolved.get(class_of[machine.uid]),
                types=types,
                type_seen=self._type_seen(machine, types),
                authority=self.node_classes.cluster.authority(),
            )
            for machine in machines
        }

    async def _resolved(self, keys: Set[str]) -> dict[str, Resolved]:
        """Classes that are ready; the others' machines keep their condition."""
        found: dict[str, Resolved] = {}
        for key in sorted(keys):
            try:
                found[key] = await self.node_classes.resolve(key)
            except DovetailError as error:
                log.debug("drift waits for the node class", node_class=key, error=error.message)
        return found

    def _type_seen(self, machine: Machine, types: Mapping[str, InstanceType]) -> bool:
        now = self.ports.clock.monotonic()
        if now - self._types_seen.get(machine.uid, _NEVER) < TYPE_SEEN_SECONDS:
            return True
        if machine.instance_type in types:
            self._types_seen[machine.uid] = now
        return False

    async def _instances(self, ids: Set[str]) -> dict[str, Instance]:
        """By id; none at all when EC2 does not answer."""
        if not ids:
            return {}
        try:
            return {one.id: one for one in await self.ports.cloud.ec2.instances(ids=sorted(ids))}
        except DovetailError as error:
            log.warning("drift waits for EC2's list of instances", error=error.message)
            return {}

    async def _write(self, machine: Machine, reason: str) -> None:
        """Each change once. One machine that cannot be written does not stop the others."""
        held = machine.conditions.get(DRIFTED)
        held_reason = held.reason if held and held.status == "True" else ""
        if held_reason == reason and (reason or held is None):
            return
        try:
            if reason:
                condition = Condition("True", reason, reason, self.ports.clock.now())
                await self.machines.write_condition(machine, DRIFTED, condition)
            else:
                await self.machines.drop_condition(machine, DRIFTED)
        except DovetailError as error:
            log.warning("cannot write drift", machine=machine.name, error=error.message)
            return
        self._report(machine, reason)

    def _report(self, machine: Machine, reason: str) -> None:
        if not reason:
            log.debug(machine.api.worded("nodeclaim is no longer drifted"), machine=machine.name)
            return
        self.ports.metrics.count_drifted(machine, reason)
        log.debug("marking drifted", machine=machine.name, reason=reason)


def _class_key(machine: Machine, pools: Mapping[str, NodePool]) -> str:
    """v1alpha5: its pool's class of today, for the reference to it is in no hash (NP-04 is v1's)."""
    pool = pools.get(machine.pool_key)
    if pool is not None and machine.api.class_follows_pool:
        return pool.node_class_key
    return machine.node_class_key
