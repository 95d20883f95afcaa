"""The Node object that a kubelet registers."""

from __future__ import annotations

from typing import Any

from local.cluster.control_plane.informers import Obj
from local.cluster.kubelet.images import system_of
from local.cluster.kubelet.instances import Instance
from local.cluster.kubelet.node_resources import node_resources
from local.cluster.kubelet.user_data import KubeletConfiguration

ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
SIMULATED = "local.dovetail.sh/kubelet"
"""Annotation; the value ``simulated`` gives a Node without an instance a kubelet."""
LEGACY_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def node_labels(instance: Instance, operating_system: str = "linux") -> dict[str, str]:
    """The labels that kubelet and cloud provider set."""
    labels = {
        "kubernetes.io/arch": ARCHITECTURES.get(instance.architecture, instance.architecture),
        "kubernetes.io/os": operating_system,
        "kubernetes.io/hostname": instance.private_dns_name,
        "node.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": instance.region,
    }
    # Deprecated labels, which kubelets and cloud providers still set and manifests still select.
    labels |= {old: labels[new] for old, new in LEGACY_LABELS.items()}
    if instance.zone_id:
        labels["topology.k8s.aws/zone-id"] = instance.zone_id
    return labels


def node_object(instance: Instance, configuration: KubeletConfiguration, now: str) -> Obj:
    """The Node at registration: not ready, with the corresponding taint."""
    capacity, allocatable = node_resources(instance, configuration)
    addresses = [{"type": "Hostname", "address": instance.private_dns_name}]
    addresses.append({"type": "InternalDNS", "address": instance.private_dns_name})
    if instance.private_ip:
        addresses.insert(0, {"type": "InternalIP", "address": instance.private_ip})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.private_dns_name,
            "labels": {
                **configuration.labels,
                **node_labels(instance, configuration.operating_system),
            },
        },
        "spec": {
            "providerID": f"aws:///{instance.zone}/{instance.instance_id}",
            "taints": [*configuration.taints, NOT_READY_TAINT],
        },
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": addresses,
            "conditions": conditions(ready=False, now=now),
            "nodeInfo": _node_info(instance, configuration.operating_system),
        },
    }


def _node_info(instance: Instance, operating_system: str) -> dict[str, Any]:
    system = system_of(instance.image_name or "", instance.architecture, operating_system)
    return {
        "architecture": ARCHITECTURES.get(instance.architecture, instance.architecture),
        "bootID": instance.instance_id,
        "containerRuntimeVersion": system.runtime,
        "kernelVersion": system.kernel,
        "kubeProxyVersion": system.kubelet,
        "kubeletVersion": system.kubelet,
        "machineID": instance.instance_id,
        "operatingSystem": operating_system,
        "osImage": system.image,
        "systemUUID": instance.instance_id,
    }


def conditions(*, ready: bool, now: str) -> list[dict[str, str]]:
    """The kubelet's conditions."""
    stamps = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    pressures = {
        "MemoryPressure": "KubeletHasSufficientMemory",
        "DiskPressure": "KubeletHasNoDiskPressure",
        "PIDPressure": "KubeletHasSufficientPID",
    }
    found = [
        {"type": t, "status": "False", "reason": r, "message": "", **stamps}
        for t, r in pressures.items()
    ]
    reason = "KubeletReady" if ready else "KubeletNotReady"
    message = "kubelet is posting ready status" if ready else "container runtime network not ready"
    status = "True" if ready else "False"
    found.append(
        {"type": "Ready", "status": status, "reason": reason, "message": message, **stamps}
    )
    return found


def unknown_conditions(now: str) -> list[dict[str, str]]:
    """The conditions that the node lifecycle controller writes when a kubelet no longer reports."""
    silent = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": now,
    }
    return [
        {"type": t, **silent} for t in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]


def fixed_instance(number: int, region: str, now: float) -> Instance:
    """The machine of a fixed node: an m5.large that is in no instance list."""
    # Outside the subnets of instances, because a node is named after its address.
    address = f"192.168.{128 + number // 240}.{10 + number % 240}"
    return Instance(
        instance_id=f"i-{number:017x}",
        instance_type="m5.large",
        zone=f"{region}{'abc'[number % 3]}",
        region=region,
        state="running",
        launched_at=now,
        private_dns_name=f"ip-{address.replace('.', '-')}.{region}.compute.internal",
        private_ip=address,
        vcpus=2,
        memory_mib=8192,
        max_pods=29,
    )


def fixed_node(number: int, region: str, now: float, stamp: str) -> Obj:
    """A ready Node of the managed node group ``ng-v1``."""
    configuration = KubeletConfiguration(labels={"eks.amazonaws.com/nodegroup": "ng-v1"})
    node = node_object(fixed_instance(number, region, now), configuration, stamp)
    node["metadata"]["annotations"] = {SIMULATED: "simulated"}
    node["spec"]["taints"] = []
    node["status"]["conditions"] = conditions(ready=True, now=stamp)
    return node
