"""Nodes with pods and instances, the kubelets and controllers around them, and a terminator that can be restarted.

The API server, EC2 and Redis are real; what kubelets, the ReplicaSet controller and the pod garbage collector do is
done here once per turn, by the test's clock. Budgets are counted by the local cluster's own disruption controller.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.cluster.control_plane.informers import key_of
from local.cluster.controllers.disruption import DisruptionController
from local.cluster.storage.store import Store
from services.terminator.ports import Ports
from services.terminator.service import build_queue
from services.terminator.waiting.step import DONE
from shared.api.core.references import to_object
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import Conflict
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, PODS
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.runtime.tracing import OFF, Tracer
from shared.settings import TerminatorSettings, read
from tests.services.conftest import CLUSTER, Control, create_machine, create_node_claim
from tests.services.launcher.mortal import Life, Mortal
from tests.support.clock.fake import FakeClock

SPARE = "spare"
"""A node that nobody takes away: where replaced pods go."""
IMAGE = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
POOL_LABELS = {V1ALPHA5: "karpenter.sh/provisioner-name", V1: "karpenter.sh/nodepool"}
FINALIZER = "karpenter.sh/termination"
FORGETFUL = {"instancePendingSeconds": 0, "instanceShuttingDownSeconds": 0}
"""EC2 without its pauses."""


@dataclass(frozen=True)
class Place:
    """A machine with its node and its instance."""

    kind: str
    machine: str
    node: str
    provider_id: str

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.machine}"

    @property
    def instance(self) -> str:
        return provider_instance_id(self.provider_id)


@dataclass
class World:
    kube: Kube
    store: Store
    cloud: Cloud
    control: Control
    bus: Bus
    clock: FakeClock
    metrics: Metrics
    recorder: Recorder
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    slow: set[str] = field(default_factory=set)
    """Apps whose pods use up their whole grace."""
    stuck: set[str] = field(default_factory=set)
    """Apps whose pods never leave by themselves."""
    tracer: Tracer = OFF

    def __post_init__(self) -> None:
        self.settings = self.settings_with()
        self.budgets = DisruptionController(self.store, self.clock)
        self.restart()

    def settings_with(self, **changes: Any) -> TerminatorSettings:
        return read(TerminatorSettings, cluster_name=CLUSTER, aws_region="us-west-2", **changes)

    def restart(self, life: Life | None = None) -> None:
        """A new terminator that remembers nothing. With ``life`` it may die."""
        kube: Any = Mortal(self.kube, life) if life else self.kube
        bus: Any = Mortal(self.bus, life) if life else self.bus
        cloud: Any = (
            Mortal(self.cloud, life, ec2=Mortal(self.cloud.ec2, life)) if life else self.cloud
        )
        self.queue = build_queue(
            Ports(
                kube, cloud, bus, self.clock, self.metrics, self.recorder, self.settings,
                self.tracer,
            )
        )  # fmt: skip
        self.termination = self.queue.termination
        self.done: set[str] = set()

    async def instances(self, number: int, tags: Mapping[str, str] | None = None) -> list[str]:
        """Provider ids of new running instances."""
        listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        tagged = [{"ResourceType": "instance", "Tags": listed}] if listed else []
        if not hasattr(self, "template"):
            wanted = SelectorTerm(tags={"karpenter.sh/discovery": CLUSTER})
            self.subnet = (await self.cloud.ec2.subnets([wanted]))[0]
            image = await self.cloud.ssm.parameter(IMAGE)
            made = await self.cloud.launch_templates.ensure("n", {"ImageId": image}, {"a": "b"})
            self.template = made[0]
        target = {"TotalTargetCapacity": number, "DefaultTargetCapacityType": "on-demand"}
        named = {"LaunchTemplateId": self.template.id, "Version": str(self.template.version)}
        overrides = [{"InstanceType": "m5.large", "SubnetId": self.subnet.id}]
        answer = await self.cloud.ec2.create_fleet(
            {
                "Type": "instant",
                "ClientToken": f"world-{next(self.numbers)}",
                "TargetCapacitySpecification": target,
                "TagSpecifications": tagged,
                "LaunchTemplateConfigs": [
                    {"LaunchTemplateSpecification": named, "Overrides": overrides}
                ],
            }
        )
        return [f"aws:///{self.subnet.zone}/{one.id}" for one in answer.instances]

    async def places(self, generations: Iterable[str], **spec: Any) -> list[Place]:
        """One machine with a ready node for each; ``spec`` is for NodeClaims."""
        wanted = list(generations)
        return [
            await self._place(generation, provider_id, spec)
            for generation, provider_id in zip(
                wanted, await self.instances(len(wanted)), strict=True
            )
        ]

    async def _place(self, generation: str, provider_id: str, spec: dict[str, Any]) -> Place:
        number = next(self.numbers)
        name, node = f"machine-{number}", f"node-{number}"
        if generation == V1:
            stored = await create_node_claim(self.kube, name, **spec)
        else:
            stored = await create_machine(self.kube, name)
        resource = NODE_CLAIMS if generation == V1 else MACHINES
        condition = {"type": "Registered", "status": "True", "reason": "Registered", "message": ""}
        condition["lastTransitionTime"] = rfc3339(self.clock.now())
        status = {"providerID": provider_id, "nodeName": node, "conditions": [condition]}
        self.store.patch(
            resource.plural, name, {"status": status}, group=resource.group, subresource="status"
        )
        self.node(node, provider_id, generation, owner=stored)
        return Place(stored["kind"], name, node, provider_id)

    def node(
        self, name: str, provider_id: str, generation: str = V1, *, owner: dict[str, Any] | None = None,
        finalizers: tuple[str, ...] = (FINALIZER,), labels: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """A ready node of ours."""
        pool = {POOL_LABELS[generation]: "default"}
        metadata = {
            "name": name,
            "labels": pool if labels is None else labels,
            "finalizers": list(finalizers),
            "ownerReferences": [to_object(owner) | {"blockOwnerDeletion": True}] if owner else [],
        }
        ready = {"type": "Ready", "status": "True"}
        body = {
            "metadata": metadata,
            "spec": {"providerID": provider_id},
            "status": {"conditions": [ready]},
        }
        self.store.create(NODES.plural, body)

    def not_ready(self, name: str) -> None:
        """Its kubelet is silent."""
        conditions = [{"type": "Ready", "status": "Unknown"}]
        body = {"status": {"conditions": conditions}}
        self.store.patch(NODES.plural, name, body, subresource="status")

    def pod(
        self, app: str, node: str, *, ready: bool = True, annotations: dict[str, str] | None = None,
        owned: bool = True, started: float | None = None, **spec: Any,
    ) -> str:  # fmt: skip
        """A running pod of this app; its name. ``owned``: it is replaced when it goes."""
        name = f"{app}-{next(self.numbers)}"
        references = [self._owner(app)] if owned else []
        self.store.create(
            PODS.plural,
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"app": app},
                    "annotations": annotations or {},
                    "ownerReferences": references,
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "main", "image": "app"}],
                    **spec,
                },
            },
        )
        self.set_ready(name, ready)
        return name

    def set_ready(self, name: str, ready: bool) -> None:
        """What its kubelet says."""
        state = {"type": "Ready", "status": "True" if ready else "False"}
        body = {"status": {"phase": "Running", "conditions": [state]}}
        self.store.patch(PODS.plural, name, body, namespace="default", subresource="status")

    def app(self, name: str, replicas: int) -> None:
        """A ReplicaSet."""
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "app"}]},
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.store.create("replicasets", body, group="apps")

    def _owner(self, app: str) -> dict[str, Any]:
        if self.store.find("replicasets", app, group="apps", namespace="default") is None:
            self.app(app, 1)
        found = self.store.get("replicasets", app, group="apps", namespace="default")
        uid = found["metadata"]["uid"]
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": app,
            "uid": uid,
            "controller": True,
        }

    async def budget(self, name: str, app: str, **spec: Any) -> None:
        """A disruption budget for an app, counted at once."""
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        }
        self.store.create("poddisruptionbudgets", body, group="policy")
        await self.count_budgets()

    async def count_budgets(self) -> None:
        for budget in self.store.list("poddisruptionbudgets", group="policy"):
            await self.budgets.reconcile(key_of(budget))

    def pods(self, app: str) -> list[dict[str, Any]]:
        return self.store.list(PODS.plural, namespace="default", label_selector=f"app={app}")

    def healthy(self, app: str) -> int:
        """Pods that are ready and stay."""
        return sum(
            _is_ready(pod) and not pod["metadata"].get("deletionTimestamp")
            for pod in self.pods(app)
        )

    def leaving(self, pod: str) -> dict[str, Any]:
        """A pod's metadata, also when it is gone: then it is empty."""
        found = self.store.find(PODS.plural, pod, namespace="default")
        return found["metadata"] if found else {}

    def machine(self, place: Place) -> dict[str, Any] | None:
        resource = NODE_CLAIMS if place.kind == "NodeClaim" else MACHINES
        return self.store.find(resource.plural, place.machine, group=resource.group)

    def conditions(self, place: Place) -> dict[str, tuple[str, str]]:
        """Type -> (status, reason) of a machine's conditions."""
        found = self.machine(place)
        assert found is not None
        return {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}

    def delete(self, place: Place) -> None:
        """kubectl delete machine, or nodeclaim."""
        resource = NODE_CLAIMS if place.kind == "NodeClaim" else MACHINES
        self.store.delete(resource.plural, place.machine, group=resource.group)

    def delete_node(self, name: str) -> None:
        """kubectl delete node."""
        self.store.delete(NODES.plural, name)

    def is_gone(self, place: Place) -> bool:
        return self.machine(place) is None and self.store.find(NODES.plural, place.node) is None

    async def turn(self, seconds: float = 1.0) -> None:
        """Everybody acts once, then time passes."""
        await self.step()
        await self.surroundings()
        self.clock.advance(seconds)

    async def step(self) -> None:
        """The terminator looks for work and does the next step of each."""
        await self.queue.resync()
        for item in [one for one in self.queue.open if one not in self.done]:
            kind, _, name = item.partition("/")
            try:
                if await self.queue.step(kind, name) is DONE:
                    self.done.add(item)
            except Conflict:
                continue

    async def until_gone(self, *places: Place, seconds: float = 10.0, most: int = 100) -> int:
        """Turns that it took."""
        for count in range(1, most + 1):
            await self.turn(seconds)
            if all(map(self.is_gone, places)):
                return count
        raise AssertionError(f"after {most} turns there is still {self.queue.open}")

    async def surroundings(self) -> None:
        """Kubelets end pods, pods of nodes that are gone vanish, apps are completed elsewhere, budgets counted."""
        for pod in self.store.list(PODS.plural, namespace="default"):
            self._keep_house(pod)
        await self.count_budgets()

    def _keep_house(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        app, node = meta["labels"]["app"], pod["spec"]["nodeName"]
        if node == SPARE:
            if not _is_ready(pod):
                self.set_ready(meta["name"], True)
            return
        orphan = self.store.find(NODES.plural, node) is None
        if not orphan and not self._leaves_now(app, meta):
            return
        self.store.delete(PODS.plural, meta["name"], namespace="default", grace_seconds=0)
        if meta.get("ownerReferences"):
            self.pod(app, SPARE, ready=False)

    def _leaves_now(self, app: str, meta: dict[str, Any]) -> bool:
        at = meta.get("deletionTimestamp")
        if not at or app in self.stuck:
            return False
        return app not in self.slow or self.clock.now() >= parse_rfc3339(at)


def _is_ready(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["conditions"][0]["status"] == "True")
