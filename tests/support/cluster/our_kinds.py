"""One small object of every kind of ours, and kubectl on a server that serves these kinds."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.cluster.api.patches import merge_patch
from local.cluster.builtin.manifests import read_manifests
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from tests.support.cluster.kubectl import NEWEST_PROGRAM, Kubectl, served

Document = dict[str, Any]
CRDS = Path(__file__).parents[3] / "deploy" / "crds"
READY = [{"type": "Ready", "status": "True"}]


@dataclass(frozen=True)
class Kind:
    """One kind with a small object, and what kubectl shows of it."""

    api_version: str
    kind: str
    plural: str
    spec: Document
    columns: str
    wide: str
    labels: Document = field(default_factory=dict)
    status: Document = field(default_factory=lambda: {"conditions": READY})
    shown: str = ""
    """Cells of the row with -o wide, without name and age."""
    edit: tuple[str, str] = ("", "")
    """Text that ``kubectl edit`` replaces by other text; empty: nothing may change."""
    explained: tuple[str, str] = ("", "")
    """A field below spec, and words of its description."""

    def object(self, name: str, spec: Document | None = None) -> Document:
        """A manifest; ``spec`` is merged over the small object's."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name, "labels": self.labels},
            "spec": merge_patch(copy.deepcopy(self.spec), spec or {}),
        }


SELECTOR = {"karpenter.sh/discovery": "demo"}
TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
MACHINE_LABELS = {TYPE: "m5.large", ZONE: "us-west-2a", "karpenter.sh/capacity-type": "spot"}
REQUIREMENT = {"key": ZONE, "operator": "In", "values": ["us-west-2a"]}
CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "blue"}

PROVISIONER = Kind(
    "karpenter.sh/v1alpha5",
    "Provisioner",
    "provisioners",
    {"providerRef": {"name": "blue"}, "weight": 7, "requirements": [REQUIREMENT]},
    columns="TEMPLATE",
    wide="TEMPLATE WEIGHT",
    status={"conditions": [{"type": "Active", "status": "True"}]},
    shown="blue 7",
    edit=("weight: 7", "weight: 8"),
    explained=("ttlSecondsAfterEmpty", "econds"),
)
TEMPLATE = Kind(
    "karpenter.k8s.aws/v1alpha1",
    "AWSNodeTemplate",
    "awsnodetemplates",
    {"subnetSelector": SELECTOR, "securityGroupSelector": SELECTOR, "instanceProfile": "old"},
    columns="READY AGE",
    wide="READY AGE",
    shown="True",
    edit=("instanceProfile: old", "instanceProfile: new"),
    explained=("metadataOptions.httpTokens", "token"),
)
MACHINE = Kind(
    "karpenter.sh/v1alpha5",
    "Machine",
    "machines",
    {"requirements": [REQUIREMENT], "machineTemplateRef": {"name": "blue"}},
    columns="TYPE ZONE NODE READY AGE",
    wide="TYPE ZONE NODE READY AGE CAPACITY PROVISIONER TEMPLATE",
    labels={**MACHINE_LABELS, "karpenter.sh/provisioner-name": "default"},
    status={"nodeName": "n1", "providerID": "aws:///us-west-2a/i-1", "conditions": READY},
    shown="m5.large us-west-2a n1 True spot default blue",
    edit=("name: blue", "name: green"),
    explained=("resources.requests", "pods"),
)
POOL = Kind(
    "karpenter.sh/v1",
    "NodePool",
    "nodepools",
    {
        "weight": 7,
        "template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": [REQUIREMENT]}},
    },
    columns="NODECLASS NODES READY AGE",
    wide="NODECLASS NODES READY AGE WEIGHT CPU MEMORY",
    status={"nodes": 2, "resources": {"cpu": "8", "memory": "32Gi"}, "conditions": READY},
    shown="blue 2 True 7 8 32Gi",
    edit=("weight: 7", "weight: 8"),
    explained=("disruption.budgets.nodes", "percentage"),
)
CLAIM = Kind(
    "karpenter.sh/v1",
    "NodeClaim",
    "nodeclaims",
    {"nodeClassRef": CLASS_REF, "requirements": [REQUIREMENT]},
    columns="TYPE CAPACITY ZONE NODE READY AGE",
    wide="TYPE CAPACITY ZONE NODE READY AGE IMAGEID ID NODEPOOL NODECLASS DRIFTED",
    labels={**MACHINE_LABELS, "karpenter.sh/nodepool": "default"},
    status={
        "nodeName": "n1",
        "imageID": "ami-1",
        "providerID": "aws:///us-west-2a/i-1",
        "conditions": [*READY, {"type": "Drifted", "status": "True"}],
    },
    shown="m5.large spot us-west-2a n1 True ami-1 aws:///us-west-2a/i-1 default blue True",
    explained=("requirements.minValues", "instance types"),
)
CLASS = Kind(
    "karpenter.k8s.aws/v1",
    "EC2NodeClass",
    "ec2nodeclasses",
    {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": SELECTOR}],
        "securityGroupSelectorTerms": [{"tags": SELECTOR}],
    },
    columns="READY AGE",
    wide="READY AGE ROLE INSTANCEPROFILE",
    shown="True nodes",
    edit=("role: nodes", "role: others"),
    explained=("kubelet.maxPods", "pods"),
)
OVERLAY = Kind(
    "karpenter.sh/v1alpha1",
    "NodeOverlay",
    "nodeoverlays",
    {"requirements": [REQUIREMENT], "priceAdjustment": "-10%", "weight": 7},
    columns="READY AGE",
    wide="READY AGE WEIGHT",
    shown="True 7",
    edit=("weight: 7", "weight: 8"),
    explained=("priceAdjustment", "price"),
)
DEVICES = Kind(
    "dovetail.sh/v1alpha1",
    "DeviceTemplate",
    "devicetemplates",
    {"requirements": [REQUIREMENT], "drivers": [{"driver": "gpu.nvidia.com"}]},
    columns="AGE",
    wide="AGE",
    edit=("gpu.nvidia.com", "gpu.example.com"),
    explained=("drivers.driver", "driver"),
)
RECORD = Kind(
    "dovetail.sh/v1alpha1",
    "LaunchRecord",
    "launchrecords",
    {
        "machines": [{"name": "m1", "uid": "u1"}],
        "clientToken": "token-1",
        "attempt": 0,
        "request": {"TotalTargetCapacity": 1},
        "createdAt": "2026-01-01T00:00:00Z",
    },
    columns="TOKEN ATTEMPT AGE",
    wide="TOKEN ATTEMPT AGE",
    shown="token-1 0",
    edit=("attempt: 0", "attempt: 1"),
    explained=("request", "CreateFleet"),
)
KINDS = [PROVISIONER, TEMPLATE, MACHINE, POOL, CLAIM, CLASS, OVERLAY, DEVICES, RECORD]


def listed(documents: list[Document]) -> Document:
    """Many manifests as one: kubectl starts once."""
    return {"apiVersion": "v1", "kind": "List", "items": documents}


class OurKinds:
    """kubectl, and short ways into the store behind it."""

    def __init__(self, store: Store, kubectl: Kubectl) -> None:
        self.store = store
        self.kubectl = kubectl

    def create(self, kind: Kind, name: str, spec: Document | None = None) -> None:
        group = kind.api_version.partition("/")[0]
        self.store.create(kind.plural, kind.object(name, spec), group=group)

    def set_status(self, kind: Kind, name: str) -> None:
        group, status = kind.api_version.partition("/")[0], {"status": kind.status}
        self.store.patch(kind.plural, name, status, group=group, subresource="status")

    def find(self, kind: Kind, name: str) -> Document | None:
        return self.store.find(kind.plural, name, group=kind.api_version.partition("/")[0])

    def stored(self, kind: Kind, name: str) -> Document:
        """The object, which must exist."""
        found = self.find(kind, name)
        assert found is not None, f"{kind.kind} {name}"
        return found

    async def apply(self, documents: list[Document], *options: str) -> tuple[int, str]:
        manifest = json.dumps(listed(documents))
        return await self.kubectl("apply", *options, "-f", "-", stdin=manifest)


@contextlib.asynccontextmanager
async def our_kinds(home: Path, which: str = NEWEST_PROGRAM) -> AsyncIterator[OurKinds]:
    """A server with the definitions of ``deploy/crds``; kubectl (``which`` one) keeps its files in ``home``."""
    store = Store(SystemClock(), random.Random(7))
    for _, definition in read_manifests(CRDS):
        store.create("customresourcedefinitions", definition, group="apiextensions.k8s.io")
    async with served(store) as url:
        yield OurKinds(store, Kubectl.for_server(url, home, which))
