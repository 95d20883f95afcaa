"""Where a field of another generation belongs, for faults about fields that a kind does not have.

People often change ``apiVersion`` and ``kind`` of an object, and leave the fields as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.api.faults import Path

_TEMPLATE = "spec.template.spec"
_KUBELET = "in v1 it is spec.kubelet of the EC2NodeClass"
_NODE_POOL = {
    **{f"spec.{one}": f"in v1 it is {_TEMPLATE}.{one}" for one in (
        "requirements", "taints", "startupTaints", "nodeClassRef", "expireAfter", "terminationGracePeriod",
    )},
    **{f"spec.template.{one}": f"in v1 it is {_TEMPLATE}.{one}" for one in (
        "requirements", "taints", "startupTaints", "nodeClassRef", "expireAfter", "terminationGracePeriod",
    )},
    **{f"spec.{one}": f"in v1 it is spec.disruption.{one}" for one in (
        "consolidateAfter", "consolidationPolicy", "budgets",
    )},
    **{f"{place}.{one}": f"in v1 it is spec.template.metadata.{one}"
       for place in ("spec", "spec.template", _TEMPLATE) for one in ("labels", "annotations")},
    "spec.disruption.expireAfter": f"in v1 it is {_TEMPLATE}.expireAfter",
    "spec.disruption.terminationGracePeriod": f"in v1 it is {_TEMPLATE}.terminationGracePeriod",
    f"{_TEMPLATE}.kubelet": _KUBELET,
    f"{_TEMPLATE}.kubeletConfiguration": _KUBELET,
    "spec.kubelet": _KUBELET,
    "spec.kubeletConfiguration": _KUBELET,
    f"{_TEMPLATE}.nodeClassRef.apiVersion": "v1 has group and kind instead, such as group: karpenter.k8s.aws",
    f"{_TEMPLATE}.resources": "it had no effect; remove it",
    "spec.providerRef": f"in v1 it is {_TEMPLATE}.nodeClassRef",
    "spec.provider": f"v1 has an EC2NodeClass instead, which {_TEMPLATE}.nodeClassRef names",
    "spec.consolidation": "v1 has spec.disruption.consolidationPolicy and consolidateAfter instead",
    "spec.ttlSecondsAfterEmpty": "v1 has spec.disruption.consolidateAfter with consolidationPolicy: WhenEmpty instead",
    "spec.ttlSecondsUntilExpired": f"v1 has {_TEMPLATE}.expireAfter instead, with a unit",
    "spec.limits.resources": "in v1 its entries are those of spec.limits",
}  # fmt: skip
_NODE_CLASS = {
    **{f"spec.{one}": f"v1 has {one}Terms instead, a list of terms"
       for one in ("subnetSelector", "securityGroupSelector", "amiSelector")},
    "spec.launchTemplate": "v1 has no launch templates of your own; write its settings here",
    "spec.kubeletConfiguration": "in v1 it is spec.kubelet",
}  # fmt: skip
_PROVISIONER = {
    "spec.kubelet": "in v1alpha5 it is spec.kubeletConfiguration",
    "spec.nodeClassRef": "in v1alpha5 it is spec.providerRef",
    "spec.disruption": "v1alpha5 has consolidation, ttlSecondsAfterEmpty and ttlSecondsUntilExpired instead",
    "spec.expireAfter": "v1alpha5 has ttlSecondsUntilExpired instead, in seconds",
    "spec.template": "in v1alpha5 its fields are those of spec",
    **{f"spec.limits.{one}": f"in v1alpha5 it is spec.limits.resources.{one}" for one in ("cpu", "memory")},
    "spec.blockDeviceMappings": "it is a field of the AWSNodeTemplate",
    "spec.subnetSelector": "it is a field of the AWSNodeTemplate",
    "spec.securityGroupSelector": "it is a field of the AWSNodeTemplate",
}  # fmt: skip
_NODE_TEMPLATE = {
    **{f"spec.{one}Terms": f"v1alpha1 has {one} instead, a map of tags"
       for one in ("subnetSelector", "securityGroupSelector", "amiSelector")},
    "spec.role": "v1alpha1 has instanceProfile instead",
    "spec.kubelet": "in v1alpha5 it is spec.kubeletConfiguration of the Provisioner",
    "spec.kubeletConfiguration": "in v1alpha5 it is spec.kubeletConfiguration of the Provisioner",
}  # fmt: skip
_CONTAINERD = "remove it: every node has containerd"
_MOVES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("karpenter.sh/v1", "NodePool"): _NODE_POOL,
    ("karpenter.k8s.aws/v1", "EC2NodeClass"): _NODE_CLASS,
    ("karpenter.sh/v1beta1", "NodePool"): {f"{_TEMPLATE}.kubelet.containerRuntime": _CONTAINERD},
    ("karpenter.sh/v1beta1", "NodeClaim"): {"spec.kubelet.containerRuntime": _CONTAINERD},
    ("karpenter.sh/v1alpha5", "Provisioner"): _PROVISIONER,
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): _NODE_TEMPLATE,
}


def place_of_field(identity: tuple[str, str], path: Path) -> str:
    """Where the field at ``path`` belongs, of an object of this (apiVersion, kind); empty where nothing is known."""
    return _MOVES.get(identity, {}).get(".".join(map(str, path)), "")
