"""Hand-made histories: a real store and EC2's real inventory, without services, so that each step is chosen.

``History.run`` hands every event to the invariants under test and collects what they say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from local.aws.ec2.instances import Instance
from local.aws.emulator import Emulator
from local.aws.http.recorder import Call
from local.aws.settings import EmulatorSettings
from local.cluster.storage.store import Store
from shared.cloud.ec2.ownership import TOKEN_TAG, cluster_tag
from shared.concurrency.clock import rfc3339
from shared.domain import labels
from shared.domain.machines.commands import CommandRecord, written
from shared.kube.resources import (
    EC2_NODE_CLASSES,
    LAUNCH_RECORDS,
    LEASES,
    NODE_CLAIMS,
    NODE_POOLS,
    PDBS,
)
from simulation.invariants import Safety
from simulation.invariants.picture import Picture
from simulation.trace import Event
from tests.services.conftest import CRDS, our_definitions
from tests.support.clock.fake import FakeClock

CLUSTER = "simulated"
NOW = 1_790_000_000.0
Json = dict[str, Any]


class ReportingStore(Store):
    """Says what changes, right after the change."""

    on_change: Any = None

    def _commit(self, collection: Any, document: Json) -> Json:
        done = super()._commit(collection, document)
        if self.on_change is not None:
            meta = done["metadata"]
            self.on_change(collection.resource.plural, meta.get("namespace"), meta["name"])
        return done


def instance(name: str, **changes: Any) -> Instance:
    """A pending instance of a type with 4 CPUs; ``tags`` default to those of an instance of this cluster."""
    number = int(name.removeprefix("i-"), 16)
    kind = changes.pop("facts", SimpleNamespace(name="m5.xlarge", vcpus=4, memory_mib=16384))
    tags = {cluster_tag("dovetail-local"): "owned", TOKEN_TAG: "token"}
    fields: Json = {
        "instance_id": name, "sequence": number, "reservation_id": "r-1", "owner_id": "1", "region": "us-west-2",
        "facts": kind, "zone": "us-west-2a", "zone_id": "usw2-az1", "subnet_id": "subnet-1", "vpc_id": "vpc-1",
        "private_ip": f"10.0.0.{number % 250}", "image_id": "ami-1", "lifecycle": "spot", "security_groups": (),
        "tags": tags, "launched_at": NOW, "launched_monotonic": 0.0,
    }  # fmt: skip
    return Instance(**fields | changes)


class History:
    """A world in which the test is everybody."""

    def __init__(self, *invariants: Safety) -> None:
        self.clock = FakeClock(seconds=1000.0, wall=NOW)
        self.store = ReportingStore(self.clock, Random(3))
        for definition in our_definitions():
            self.store.create(CRDS.plural, definition, group=CRDS.group)
        settings = EmulatorSettings(seed=False, cluster_name=CLUSTER)
        self.emulator = Emulator(settings, self.clock, lambda _: None)
        self.settings = SimpleNamespace(seed=1, minutes=5.0)
        self.invariants = invariants
        self.found: list[str] = []
        self.processes: dict[str, Any] = {}
        self.loop = SimpleNamespace(
            time=self.clock.monotonic,
            set_exception_handler=self._handle,
        )
        self.handler: Any = None
        self.blocked: dict[tuple[str, str], float] = {}
        self.network = SimpleNamespace(links=SimpleNamespace(blocked_until=self._blocked))
        self.redis: Any = None
        self._writer, self._verb = "users", "write"
        self._number = 0
        self.store.on_change = self._changed

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - 1000.0

    def _handle(self, handler: Any) -> None:
        self.handler = handler

    def _blocked(self, first: str, second: str) -> float:
        return self.blocked.get((first, second), 0.0)

    # Events

    def event(self, kind: str, **fields: Any) -> None:
        """Something happened: ask the invariants."""
        self._number += 1
        event = Event(self._number, self.elapsed, kind, fields)
        for invariant in self.invariants:
            if kind in invariant.kinds:
                self.found += invariant.check(event, self)  # type: ignore[arg-type]

    def _changed(self, plural: str, namespace: str | None, name: str) -> None:
        self.event(
            "api", verb=self._verb, resource=plural, namespace=namespace, name=name, by=self._writer
        )

    @contextmanager
    def by(self, service: str) -> Iterator[None]:
        """Writes are those of a service."""
        before, self._writer = self._writer, f"dovetail-{service}/0.1.0"
        yield
        self._writer = before

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)

    def judge(self, *before: str) -> list[str]:
        """What was found so far, which is then forgotten."""
        found, self.found = self.found, []
        return found

    # EC2

    def start(self, name: str, token: str = "token", **tags: str) -> Instance:
        """CreateFleet of the launcher starts one instance."""
        mine = {cluster_tag(CLUSTER): "owned", TOKEN_TAG: token, labels.NODE_POOL: "main", **tags}
        made = instance(name, tags=mine, launched_monotonic=self.clock.monotonic())
        self.emulator.inventory.add(made)
        made.state = "running"
        self.call("CreateFleet")
        return made

    def call(self, action: str, **parameters: Any) -> None:
        """A call of a service to AWS."""
        call = Call(self.clock.now(), "ec2", action, parameters, None, 200)
        self.emulator.recorder.record(call)
        self.event("aws", action=action, code=None, by="dovetail")

    def end(self, name: str) -> None:
        """TerminateInstances of the terminator."""
        found = self.emulator.inventory.get(name)
        assert found is not None
        self.emulator.inventory.terminate(found)
        self.call("TerminateInstances", InstanceIds=[name])

    # Objects

    def record(self, token: str, *uids: str) -> None:
        """A launch record for machines with these UIDs."""
        machines = [{"kind": "NodeClaim", "name": uid, "uid": uid} for uid in uids]
        spec = {
            "clientToken": token,
            "machines": machines,
            "request": {},
            "createdAt": rfc3339(self.clock.now()),
            "attempt": 0,
        }
        body = {"metadata": {"name": token}, "spec": spec}
        self.store.create("launchrecords", body, group=LAUNCH_RECORDS.group)

    def drop_record(self, token: str) -> None:
        self.store.delete("launchrecords", token, group=LAUNCH_RECORDS.group)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """The API server is restored from a backup: what is written meanwhile is no change by anybody."""
        before, self.store.on_change = self.store.on_change, None
        yield
        self.store.on_change = before
        for one in self.invariants:
            picture: Picture = getattr(one, "picture", None) or one.launches.picture  # type: ignore[attr-defined]
            picture.rolled_back_at = self.elapsed
            picture.documents.clear()

    def ready_class(self) -> None:
        """The EC2NodeClass of all pools, which is Ready."""
        body = {
            "metadata": {"name": "main"},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1234567"}],
                "securityGroupSelectorTerms": [{"id": "sg-1234567"}],
                "role": "nodes",
            },
        }
        group = EC2_NODE_CLASSES.group
        self.store.create("ec2nodeclasses", body, group=group)
        ready = {"status": {"conditions": [condition("Ready", self.clock.now())]}}
        self.store.patch("ec2nodeclasses", "main", ready, group=group, subresource="status")

    def pool(self, name: str = "main", **spec: Any) -> None:
        """A NodePool, or new fields of it."""
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"}
        template = {"spec": {"nodeClassRef": reference, "requirements": [], "expireAfter": "Never"}}
        body = {"metadata": {"name": name}, "spec": {"template": template, **spec}}
        if self.store.find("nodepools", name, group=NODE_POOLS.group):
            self.store.patch("nodepools", name, {"spec": spec}, group=NODE_POOLS.group)
        else:
            self.store.create("nodepools", body, group=NODE_POOLS.group)

    def annotate_pool(self, name: str = "main", **annotations: str) -> None:
        """Annotations of ours on a NodePool, named with ``_`` for ``-``."""
        found = {f"dovetail.sh/{key.replace('_', '-')}": one for key, one in annotations.items()}
        body = {"metadata": {"annotations": found}}
        self.store.patch("nodepools", name, body, group=NODE_POOLS.group)

    def machine(self, name: str, instance_id: str = "", **more: Any) -> str:
        """A NodeClaim of the pool ``main``; returns its UID. ``conditions``: types that are True."""
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"}
        metadata: Json = {
            "name": name,
            "labels": {labels.NODE_POOL: more.pop("pool", "main")},
            "finalizers": [labels.FINALIZER],
            "annotations": more.pop("annotations", {}),
        }
        spec = {"nodeClassRef": reference, "requirements": [], **more.pop("spec", {})}
        body = {"metadata": metadata, "spec": spec}
        made = self.store.create("nodeclaims", body, group=NODE_CLAIMS.group)
        if instance_id or more:
            self.status(name, instance_id, *more.pop("conditions", ()))
        return str(made["metadata"]["uid"])

    def status(self, name: str, instance_id: str, *conditions: str) -> None:
        """The status of a NodeClaim, which knows its node once that registered."""
        joined = set(conditions) - {"Launched"}
        status = {
            "providerID": f"aws:///us-west-2a/{instance_id}",
            "nodeName": f"node-{instance_id}" if joined else "",
            "conditions": [condition(one, self.clock.now()) for one in conditions],
        }
        body = {"status": status}
        self.store.patch("nodeclaims", name, body, group=NODE_CLAIMS.group, subresource="status")

    def annotate(self, name: str, key: str, text: str | None) -> None:
        body = {"metadata": {"annotations": {key: text}}}
        self.store.patch("nodeclaims", name, body, group=NODE_CLAIMS.group)

    def command(
        self, *candidates: str, replacements: tuple[str, ...] = (), id_: str = "c1"
    ) -> None:
        """The scheduler writes a command to its machines."""
        keys = tuple(f"NodeClaim/{name}" for name in candidates)
        record = CommandRecord(
            id_, "drift", "Drifted", keys, tuple(f"NodeClaim/{name}" for name in replacements), NOW
        )
        with self.by("scheduler"):
            for name in candidates:
                self.annotate(name, labels.COMMAND_ANNOTATION, written(record))

    def delete_machine(self, name: str, by: str = "users") -> None:
        with self.by(by):
            self.store.delete("nodeclaims", name, group=NODE_CLAIMS.group)

    def release_machine(self, name: str) -> None:
        """The last finalizer goes."""
        body = {"metadata": {"finalizers": None}}
        self.store.patch("nodeclaims", name, body, group=NODE_CLAIMS.group)

    def node(self, instance_id: str, **more: Any) -> str:
        """A ready node of an instance; returns its name."""
        name = f"node-{instance_id}"
        metadata = {
            "name": name,
            "labels": {labels.NODE_POOL: "main"},
            "finalizers": [labels.FINALIZER],
            **more,
        }
        ready = condition("Ready", self.clock.now())
        self.store.create(
            "nodes",
            {
                "metadata": metadata,
                "spec": {"providerID": f"aws:///us-west-2a/{instance_id}"},
                "status": {"conditions": [ready]},
            },
        )
        return name

    def not_ready(self, node: str) -> None:
        status = {"conditions": [condition("Ready", self.clock.now(), "Unknown")]}
        self.store.patch("nodes", node, {"status": status}, subresource="status")

    def pod(self, name: str, node: str = "", **more: Any) -> None:
        """A ready pod of the workload ``web`` on a node; without one it is pending."""
        spec: Json = {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
            "terminationGracePeriodSeconds": 5,
            **more.pop("spec", {}),
        }
        metadata = {"name": name, "labels": {"app": "web"}, **more}
        self.store.create("pods", {"metadata": metadata, "spec": spec}, namespace="default")
        if node:
            self.store.bind(name, "default", node)
            ready = [condition("Ready", self.clock.now())]
            body = {"status": {"phase": "Running", "conditions": ready}}
            self.store.patch("pods", name, body, namespace="default", subresource="status")

    def evict(self, name: str) -> None:
        """The terminator evicts a pod."""
        with self.by("terminator"):
            self._verb = "evict"
            self.store.evict(name, "default")
            self._verb = "write"

    def fault(self, kind: str) -> None:
        """A fault strikes."""
        self.event("fault", what="something", fault=kind)

    def pod_budget(self, desired: int, allowed: int, name: str = "web") -> None:
        """A PodDisruptionBudget as its controller left it."""
        body = {
            "metadata": {"name": name},
            "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}},
        }
        group = PDBS.group
        self.store.create("poddisruptionbudgets", body, group=group, namespace="default")
        status = {"desiredHealthy": desired, "disruptionsAllowed": allowed, "observedGeneration": 1}
        self.store.patch(
            "poddisruptionbudgets",
            name,
            {"status": status},
            group=group,
            namespace="default",
            subresource="status",
        )

    def lease(self, holder: str, epoch: int, name: str = "dovetail-scheduler") -> None:
        """Somebody writes a Lease."""
        spec = {"holderIdentity": holder, "leaseTransitions": epoch}
        group = LEASES.group
        if self.store.find("leases", name, group=group, namespace="default"):
            self.store.patch("leases", name, {"spec": spec}, group=group, namespace="default")
        else:
            body = {"metadata": {"name": name}, "spec": spec}
            self.store.create("leases", body, group=group, namespace="default")


def condition(kind: str, now: float, status: str = "True") -> Json:
    """One status condition."""
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": rfc3339(now),
    }
