"""Objects of EKS Auto Mode, as it keeps them in the same cluster: built as its documents and its node labels show."""

from __future__ import annotations

from typing import Any

AUTO_MODE_CLASS = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
OTHERS_LABELS = {
    "karpenter.sh/nodepool": "general-purpose",
    "eks.amazonaws.com/nodeclass": "default",
    "eks.amazonaws.com/compute-type": "auto",
}
_REQUIREMENT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def others_pool(name: str) -> dict[str, Any]:
    """A NodePool such as general-purpose."""
    spec = {"nodeClassRef": dict(AUTO_MODE_CLASS), "requirements": [_REQUIREMENT]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


def others_claim(name: str) -> dict[str, Any]:
    """A NodeClaim with the finalizer that ours have, too."""
    metadata = {
        "name": name,
        "labels": dict(OTHERS_LABELS),
        "finalizers": ["karpenter.sh/termination"],
    }
    return {
        "metadata": metadata,
        "spec": {"nodeClassRef": dict(AUTO_MODE_CLASS), "requirements": [_REQUIREMENT]},
    }
