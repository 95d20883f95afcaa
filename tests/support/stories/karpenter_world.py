"""What Karpenter v1 leaves in a cluster and an account: its objects, laid down as its controllers write them.

Karpenter itself is represented by its candidate in the leader election, the same protocol with Karpenter's identity,
and by its Deployment. ``python -m tests.support.stories.karpenter_world`` is that Karpenter on the stack that the
shell's variables name, with two nodes, until its Deployment has no replicas.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cli.migration.inventory import DEPLOYMENTS, LEASE_NAME
from cli.migration.karpenter import cloud_of
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import tag_specification
from shared.concurrency.clock import SystemClock, rfc3339
from shared.kube.client import Kube
from shared.kube.lease import Lease
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES

SYSTEM = "kube-system"
INSTANCE_TYPE = "m5.large"
TEMPLATE = "karpenter.k8s.aws/1357924680135792468"
POOL_HASH = {
    "karpenter.sh/nodepool-hash": "12389071234",
    "karpenter.sh/nodepool-hash-version": "v3",
}
CLASS_HASH = {
    "karpenter.k8s.aws/ec2nodeclass-hash": "998877665544",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
}
TERMINATION = "karpenter.sh/termination"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
CONDITIONS = ("Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound")


@dataclass
class KarpenterWorld:
    """Karpenter in one cluster. ``claims``: names of the NodeClaims that it made."""

    kube: Kube
    cloud: Cloud
    cluster: str
    claims: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[Lease]:
        """Karpenter's candidate for its Lease, as long as its Deployment has replicas."""
        lease = Lease(
            self.kube, LEASE_NAME, SYSTEM, "karpenter-6d5f-x_1b2c", clock=SystemClock(), random=Random(3)
        )  # fmt: skip
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(lease.run(stop))
            group.create_task(self._stop_with_the_deployment(stop))
            yield lease
            stop.set()

    async def _stop_with_the_deployment(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            found = await self.kube.get(DEPLOYMENTS, "karpenter", SYSTEM)
            if found["spec"]["replicas"] == 0:
                stop.set()
            await asyncio.sleep(0.2)

    async def install(self) -> None:
        """The Deployment of its chart, with settings."""
        variables = {"CLUSTER_NAME": self.cluster, "BATCH_IDLE_DURATION": "1s", "LOG_LEVEL": "info"}
        pod = {
            "containers": [
                {
                    "name": "controller",
                    "image": "karpenter/controller",
                    "env": [{"name": k, "value": v} for k, v in variables.items()],
                }
            ]
        }
        labels = {"app.kubernetes.io/name": "karpenter"}
        document = {
            "metadata": {"name": "karpenter", "labels": labels},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
        await self.kube.create(DEPLOYMENTS, document, SYSTEM)

    async def make_node(self, name: str) -> str:
        """A NodeClaim, its instance and launch template, and its registered node. Returns the instance's id."""
        node_class = await self.kube.get(EC2_NODE_CLASSES, "default")
        pool = await self.kube.get(NODE_POOLS, "default")
        await self._hash(node_class, pool)
        claim = await self.kube.create(NODE_CLAIMS, self._claim(name, pool))
        instance, zone = await self._launch(name, node_class["status"])
        self.claims.append(name)
        provider_id = f"aws:///{zone}/{instance}"
        await self._launched(claim, provider_id, zone, node_class["status"])
        node = await self._joined(provider_id)
        await self._register(claim, node, provider_id, instance, node_class["status"])
        return instance

    async def _hash(self, node_class: dict[str, Any], pool: dict[str, Any]) -> None:
        for resource, hashes in ((EC2_NODE_CLASSES, CLASS_HASH), (NODE_POOLS, POOL_HASH)):
            body = {"metadata": {"annotations": hashes}}
            await self.kube.patch(resource, "default", body)

    def _labels(self) -> dict[str, str]:
        return {
            "karpenter.sh/nodepool": "default",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "karpenter.sh/capacity-type": "on-demand",
            "node.kubernetes.io/instance-type": INSTANCE_TYPE,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        }

    def _claim(self, name: str, pool: dict[str, Any]) -> dict[str, Any]:
        return {
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/nodepool": "default"},
                "annotations": {**POOL_HASH, **CLASS_HASH, "kubernetes.io/description": "general"},
                "finalizers": [TERMINATION],
                "ownerReferences": [
                    {
                        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default",
                        "uid": pool["metadata"]["uid"], "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "requirements": [
                    {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [INSTANCE_TYPE]},
                ],
                "resources": {"requests": {"cpu": "700m", "memory": "300Mi", "pods": "6"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "720h",
            },
        }  # fmt: skip

    async def _launch(self, name: str, status: dict[str, Any]) -> tuple[str, str]:
        """CreateFleet with a launch template, tags as Karpenter sets them. Returns (instance id, zone)."""
        tags = {
            f"kubernetes.io/cluster/{self.cluster}": "owned",
            "karpenter.sh/nodepool": "default",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "eks:eks-cluster-name": self.cluster,
        }
        data = {
            "ImageId": status["amis"][0]["id"],
            "UserData": base64.b64encode(self._user_data().encode()).decode(),
            "SecurityGroupIds": [one["id"] for one in status["securityGroups"]],
            "IamInstanceProfile": {"Name": status["instanceProfile"]},
        }
        template, _ = await self.cloud.launch_templates.ensure(TEMPLATE, data, tags)
        subnet = status["subnets"][0]
        request = {
            "Type": "instant",
            "ClientToken": f"karpenter-{name}",
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": template.name, "Version": "$Latest"},
                    "Overrides": [{"InstanceType": INSTANCE_TYPE, "SubnetId": subnet["id"]}],
                }
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"
            },
            "TagSpecifications": [tag_specification(kind, tags) for kind in ("instance", "fleet")],
        }  # fmt: skip
        answer = await self.cloud.ec2.create_fleet(request)
        (found,) = answer.instances
        return found.id, subnet["zone"]

    def _user_data(self) -> str:
        labels = ",".join(
            f"{k}={v}" for k, v in self._labels().items() if "kubernetes.io/" not in k
        )
        return (
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"
            f"  cluster: {{name: {self.cluster}}}\n"
            "  kubelet:\n    config:\n      maxPods: 29\n"
            "      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]\n"
            f'    flags: ["--node-labels={labels}"]\n'
        )

    async def _launched(
        self, claim: dict[str, Any], provider_id: str, zone: str, status: dict[str, Any]
    ) -> None:
        labels = {
            **self._labels(),
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": zone[:-1],
        }
        name = claim["metadata"]["name"]
        await self.kube.patch(NODE_CLAIMS, name, {"metadata": {"labels": labels}})
        body = {
            "status": {
                "providerID": provider_id,
                "imageID": status["amis"][0]["id"],
                "capacity": {"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi"},
                "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi"},
                "conditions": self._conditions(("Launched",)),
            }
        }  # fmt: skip
        await self.kube.patch(NODE_CLAIMS, name, body, subresource="status")

    def _conditions(self, kinds: tuple[str, ...]) -> list[dict[str, str]]:
        now = rfc3339(SystemClock().now())
        return [
            {"type": k, "status": "True", "reason": k, "message": "", "lastTransitionTime": now}
            for k in kinds
        ]

    async def _joined(self, provider_id: str) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                for node in (await self.kube.list(NODES)).items:
                    ready = any(
                        one["type"] == "Ready" and one["status"] == "True"
                        for one in node["status"].get("conditions") or ()
                    )
                    if node["spec"].get("providerID") == provider_id and ready:
                        return node
                await asyncio.sleep(0.1)

    async def _register(
        self,
        claim: dict[str, Any],
        node: dict[str, Any],
        provider_id: str,
        instance: str,
        status: dict[str, Any],
    ) -> None:
        name = node["metadata"]["name"]
        owner = {
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"], "blockOwnerDeletion": True,
        }  # fmt: skip
        marks = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        kept = [t for t in node["spec"].get("taints") or () if t["key"] != UNREGISTERED["key"]]
        body = {
            "metadata": {
                "labels": {**self._labels(), **marks},
                "annotations": {**POOL_HASH, **CLASS_HASH},
                "finalizers": [TERMINATION],
                "ownerReferences": [owner],
            },
            "spec": {"taints": kept},
        }
        await self.kube.patch(NODES, name, body)
        tags = {"Name": name, "karpenter.sh/nodeclaim": claim["metadata"]["name"]}
        await self.cloud.ec2.tag([instance], tags)
        note = {"metadata": {"annotations": {"karpenter.k8s.aws/tagged": "true"}}}
        await self.kube.patch(NODE_CLAIMS, claim["metadata"]["name"], note)
        done = {"status": {"nodeName": name, "conditions": self._conditions(CONDITIONS)}}
        await self.kube.patch(NODE_CLAIMS, claim["metadata"]["name"], done, subresource="status")


async def main() -> None:
    variables = dict(os.environ)
    kube = await Kube.connect(
        variables["KUBECONFIG"], clock=SystemClock(), random=Random(5), user_agent="karpenter"
    )
    async with cloud_of(variables) as cloud:
        assert cloud is not None
        world = KarpenterWorld(kube, cloud, variables["CLUSTER_NAME"])
        await world.install()
        async with world.leading() as lease:
            await asyncio.wait_for(lease.acquired.wait(), 60)
            for name in ("default-aaaaa", "default-bbbbb"):
                await world.make_node(name)
            sys.stdout.write("two nodes run\n")
            sys.stdout.flush()
            await world._stop_with_the_deployment(asyncio.Event())
    await kube.close()


if __name__ == "__main__":
    asyncio.run(main())
