"""Small complete manifests with defaults; tests set only the fields that they are about."""

from __future__ import annotations

from typing import Any

from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import Catalogue
from shared.simulation.simulate import Simulation, simulate
from shared.solver.solve import SolverSettings

Document = dict[str, Any]
ZONES = ("us-east-1a", "us-east-1b")


def metadata(name: str, **changes: Any) -> Document:
    return {"name": name, **changes}


def pod_spec(cpu: str = "500m", memory: str = "512Mi", **changes: Any) -> Document:
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "app", "resources": {"requests": requests}}], **changes}


def pod(name: str = "web", *, meta: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, **(meta or {})),
        "spec": pod_spec(**spec),
    }


def node_pool(name: str = "default", **template_spec: Any) -> Document:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": reference, "requirements": [], **template_spec}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata(name),
        "spec": {"template": {"spec": spec}},
    }


def ec2_node_class(name: str = "default", **spec: Any) -> Document:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": metadata(name),
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "nodes",
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            **spec,
        },
    }


def provisioner(name: str = "default", **spec: Any) -> Document:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": metadata(name),
        "spec": {"providerRef": {"name": "default"}, **spec},
    }


def offering(zone: str = ZONES[0], price: Any = 0.1, **changes: Any) -> Document:
    return {"zone": zone, "capacityType": "on-demand", "price": price, **changes}


def instance_type(
    name: str = "m5.large", cpu: Any = 2, memory: Any = "8Gi", **spec: Any
) -> Document:
    return {
        "apiVersion": "dovetail.sh/v1alpha1",
        "kind": "InstanceType",
        "metadata": metadata(name),
        "spec": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": 29},
            "offerings": [offering(zone) for zone in ZONES],
            **spec,
        },
    }


def node(name: str = "node-1", cpu: str = "4", memory: str = "16Gi", **changes: Any) -> Document:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[0]}
    allocatable = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels),
        "status": {"allocatable": allocatable},
        **changes,
    }


def controller(kind: str, name: str = "web", **spec: Any) -> Document:
    group = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": metadata(name),
        "spec": {"template": template, **spec},
    }


def no_catalogue() -> Catalogue:
    raise AssertionError("the inputs bring their own catalogue")


def run(*documents: object, **settings: Any) -> Simulation:
    return simulate(
        documents,
        catalogue=no_catalogue,
        settings=SolverSettings(**settings),
        clock=SystemClock(),
    )


def answer(*documents: object, **settings: Any) -> Document:
    """With one small type and a pool, unless the documents bring types of their own."""
    kinds = [str(one.get("kind")) for one in documents if isinstance(one, dict)]
    types = (
        [] if "InstanceType" in kinds else [instance_type(), instance_type("m5.xlarge", 4, "16Gi")]
    )
    pools = [] if {"NodePool", "Provisioner"} & set(kinds) else [node_pool()]
    return run(*documents, *types, *pools, **settings).answer


def placed(found: Document) -> dict[str, str]:
    """Pod -> instance type of its machine, or name of the node."""
    places = {p: one["offering"]["instanceType"] for one in found["machines"] for p in one["pods"]}
    return places | {p: one["node"] for one in found["existing"] for p in one["pods"]}


def faults(found: Document) -> list[tuple[str, str, str]]:
    return [(one["kind"], one["name"], one["field"]) for one in found["faults"]]
