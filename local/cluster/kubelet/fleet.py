"""Instances become Nodes: registration, readiness, termination.

Each poll of the emulator advances every instance: running and tagged for this cluster, unless its user data names
another one -> Node object after ``boot_seconds`` -> Ready after ``ready_seconds`` more. When an instance
terminates, its kubelet stops at once (pods on it do not change any more); after ``grace_seconds`` its Node becomes
Ready=Unknown, and the cloud's node lifecycle controller deletes the Node. A Node with a finalizer remains, marked for
deletion, until its controller removes the finalizer. A Node that was deleted while its instance runs is not registered
again, because a kubelet registers only when it starts.

While the emulator does not answer, instances are assumed unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.conditions import is_true, with_conditions
from local.cluster.control_plane.informers import Key, Obj, find
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.kubelet.csi_nodes import csi_node
from local.cluster.kubelet.instances import Instance, InstanceSource
from local.cluster.kubelet.node_objects import (
    NOT_READY_TAINT,
    SIMULATED,
    conditions,
    node_object,
    unknown_conditions,
)
from local.cluster.kubelet.user_data import KubeletConfiguration, parse_user_data
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, rfc3339
from shared.errors import TransientError
from shared.log import get_logger

log = get_logger(__name__)

_DECIDED = (400, 409, 422)
"""Error codes that the same Node would get again."""


@dataclass(frozen=True)
class BootTimes:
    """Seconds from launch to Node, from Node to Ready, and from an instance's end to Ready=Unknown."""

    boot: float
    ready: float
    grace: float


@dataclass
class Machine:
    """An instance whose kubelet registered a Node. Times are wall time."""

    node_name: str
    provider_id: str
    ready_at: float
    became_ready: bool = False
    ended_at: float | None = None


class Fleet:
    """The kubelets of all machines."""

    def __init__(
        self,
        store: Store,
        recorder: EventRecorder,
        clock: Clock,
        cluster_name: str,
        times: BootTimes,
    ) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._cluster, self._tag = cluster_name, f"kubernetes.io/cluster/{cluster_name}"
        self._times = times
        self._machines: dict[str, Machine] = {}
        self._alive: set[str] = set()
        self._answered = True
        self.unable_to_join: Callable[[Instance], bool] = lambda instance: False
        """Instances whose kubelet never starts."""
        self._elsewhere: set[str] = set()
        """Ids of instances whose user data names another cluster: their kubelets never come here."""
        self.silent: set[str] = set()
        """Ids of running instances whose kubelet reports nothing at present."""

    def serves(self, node: Obj) -> bool:
        """Whether a kubelet runs on this node and reports it ready."""
        return self.lives_on(node) and is_true(node, "Ready")

    def lives_on(self, node: Obj) -> bool:
        """Whether a kubelet runs on this node, ready or not."""
        simulated = (node["metadata"].get("annotations") or {}).get(SIMULATED) == "simulated"
        return simulated or node["metadata"]["name"] in self._alive

    async def run(self, client: InstanceSource, poll_seconds: float) -> None:
        """Poll the instances until cancelled."""
        while True:
            try:
                self.observe(await client.instances())
                self._answered = True
            except TransientError as error:
                if self._answered:
                    log.warning("instances not readable, will ask again", error=error.message)
                self._answered = False
            await asyncio.sleep(poll_seconds)

    def observe(self, instances: dict[str, Instance]) -> None:
        """Advance every machine, given all instances that exist now."""
        now = self._clock.now()
        for instance in instances.values():
            machine = self._machines.get(instance.instance_id)
            booted = now >= instance.launched_at + self._times.boot
            if machine is None and booted and self._starts(instance):
                self._boot(instance, now)
        self._elsewhere &= instances.keys()
        for instance_id, machine in list(self._machines.items()):
            self._advance(instance_id, machine, instances.get(instance_id), now)

    def _starts(self, instance: Instance) -> bool:
        ours = instance.state == "running" and self._tag in instance.tags
        known = instance.instance_id in self._elsewhere
        return ours and not known and not self.unable_to_join(instance)

    def _boot(self, instance: Instance, now: float) -> None:
        configuration = self._configuration(instance)
        if configuration.cluster in (None, self._cluster):
            self._register(instance, configuration, now)
            return
        self._elsewhere.add(instance.instance_id)
        log.info(
            "joins another cluster", instance=instance.instance_id, cluster=configuration.cluster
        )

    def _register(
        self, instance: Instance, configuration: KubeletConfiguration, now: float
    ) -> None:
        provider_id = f"aws:///{instance.zone}/{instance.instance_id}"
        node = node_object(instance, configuration, rfc3339(now))
        machine = Machine(instance.private_dns_name, provider_id, now + self._times.ready)
        try:
            created = self._store.create("nodes", node)
        except ApiError as error:
            log.warning("node not registered", node=machine.node_name, error=error.message)
            if error.code in _DECIDED:
                self._machines[instance.instance_id] = machine
                self._take_over(machine, error)
            return  # otherwise it registers at the next poll, like a kubelet that cannot reach the API server
        self._machines[instance.instance_id] = machine
        self._alive.add(machine.node_name)
        log.info("node registered", node=machine.node_name, instance=instance.instance_id)
        text = f"Node {machine.node_name} event: Registered Node in Controller"
        self._recorder.record(created, "RegisteredNode", text, component="node-controller")
        self._register_drivers(created, instance)

    def _register_drivers(self, node: Obj, instance: Instance) -> None:
        name, group = node["metadata"]["name"], "storage.k8s.io"
        try:
            if self._store.find("csinodes", name, group=group) is not None:
                # It belongs to an earlier node with this name.
                self._store.delete("csinodes", name, group=group)
            self._store.create("csinodes", csi_node(node, instance), group=group)
        except ApiError as error:
            log.warning("CSINode not written", node=name, error=error.message)

    def _take_over(self, machine: Machine, error: ApiError) -> None:
        """Whether an existing Node belongs to this machine, whose kubelet was restarted. A Node of the same name may
        belong to another one.
        """
        node = self._node(machine)
        if error.reason != "AlreadyExists" or node is None:
            return
        machine.became_ready = is_true(node, "Ready")
        self._alive.add(machine.node_name)
        log.info("node taken over", node=machine.node_name)

    def _configuration(self, instance: Instance) -> KubeletConfiguration:
        try:
            return parse_user_data(instance.user_data)
        except ValueError as error:
            log.warning("user data not usable", instance=instance.instance_id, error=str(error))
            return KubeletConfiguration()

    def _advance(
        self, instance_id: str, machine: Machine, instance: Instance | None, now: float
    ) -> None:
        if instance is not None and instance.state == "running" and instance_id not in self.silent:
            if machine.ended_at is not None:  # its kubelet reports again
                machine.ended_at, machine.became_ready = None, False
                self._alive.add(machine.node_name)
            if not machine.became_ready and now >= machine.ready_at:
                machine.became_ready = self._make_ready(machine)
            return
        self._alive.discard(machine.node_name)
        machine.ended_at = machine.ended_at or now
        if now < machine.ended_at + self._times.grace:
            return
        node = self._node(machine)
        if node is None:
            if instance is None or instance.state == "terminated":
                del self._machines[instance_id]
            return
        self._mark_unknown(node)
        if instance is None or instance.state == "terminated":
            self._delete_node(machine)

    def reporting(self) -> list[str]:
        """Ids of the instances whose kubelet runs and reports."""
        return [one for one, machine in self._machines.items() if machine.node_name in self._alive]

    def adopt_nodes(self) -> None:
        """Know the machine of every Node again, after the store returned to an earlier state.

        Kubelets report their state again and again, so a Node that was not ready then becomes ready.
        """
        for machine in self._machines.values():
            node = self._node(machine)
            if node is not None:
                machine.became_ready = is_true(node, "Ready")
        known = {machine.provider_id for machine in self._machines.values()}
        for node in self._store.list("nodes"):
            name, provider_id = node["metadata"]["name"], node["spec"].get("providerID") or ""
            if provider_id in known or self.serves(node) or not provider_id.startswith("aws:///"):
                continue
            machine = Machine(name, provider_id, self._clock.now(), is_true(node, "Ready"))
            self._machines[provider_id.rpartition("/")[2]] = machine

    def _node(self, machine: Machine) -> Obj | None:
        node = find(self._store, "nodes", Key("", machine.node_name))
        same = node is not None and node["spec"].get("providerID") == machine.provider_id
        return node if same else None

    def _make_ready(self, machine: Machine) -> bool:
        """Returns False when the node was deleted or changed between two writes; the next poll tries again."""
        node = self._node(machine)
        if node is None:
            return False
        now = rfc3339(self._clock.now())
        merged = with_conditions(
            node["status"].get("conditions"), conditions(ready=True, now=now), now
        )
        status = {"status": {"conditions": merged}}
        name = machine.node_name
        stored = self._store.patch("nodes", name, status, subresource="status")
        if not self._remove_not_ready_taint(stored):
            return False
        text = f"Node {name} status is now: NodeReady"
        self._recorder.record(node, "NodeReady", text, component="kubelet")
        return True

    def _remove_not_ready_taint(self, stored: Obj) -> bool:
        """Conditional on the version that was read: an older list of taints would restore taints that others have
        removed since, such as the autoscaler's boot taint.
        """
        taints = [
            t for t in stored["spec"].get("taints") or () if t["key"] != NOT_READY_TAINT["key"]
        ]
        version, name = stored["metadata"]["resourceVersion"], stored["metadata"]["name"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}
        try:
            self._store.patch("nodes", name, body)
        except ApiError as error:
            log.info("taint not removed, will try again", node=name, error=error.message)
            return False
        return True

    def _mark_unknown(self, node: Obj) -> None:
        now, status = rfc3339(self._clock.now()), node.get("status") or {}
        ready = [c for c in status.get("conditions") or () if c["type"] == "Ready"]
        if ready and ready[0]["status"] == "Unknown":
            return
        merged = with_conditions(status.get("conditions"), unknown_conditions(now), now)
        name = node["metadata"]["name"]
        body = {"status": {"conditions": merged}}
        self._store.patch("nodes", name, body, subresource="status")
        text = f"Node {name} status is now: NodeNotReady"
        self._recorder.record(node, "NodeNotReady", text, component="node-controller")

    def _delete_node(self, machine: Machine) -> None:
        node = self._node(machine)
        if node is None or node["metadata"].get("deletionTimestamp"):
            return
        text = f"Deleting node {machine.node_name} because it does not exist in the cloud provider"
        self._recorder.record(
            node, "DeletingNode", text, component="cloud-node-lifecycle-controller"
        )
        self._store.delete("nodes", machine.node_name, uid=node["metadata"]["uid"])
