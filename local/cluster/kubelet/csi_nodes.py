"""The CSINode that a kubelet writes beside its Node: the EBS driver counts as installed on every node.

The limit is EC2's for the hypervisor, minus the root volume and one network interface. Instance stores and the larger
limits of the newest families are not taken into account.
"""

from __future__ import annotations

import re

from local.cluster.control_plane.informers import Obj
from local.cluster.kubelet.instances import Instance

EBS_DRIVER = "ebs.csi.aws.com"
ZONE = "topology.kubernetes.io/zone"
NITRO_ATTACHMENTS, XEN_ATTACHMENTS = 28, 39
RESERVED_ATTACHMENTS = 2
"""Attachments of Nitro that are in use: the root volume and the first network interface. Xen counts only volumes."""
_XEN = re.compile(r"(c[134]|d2|f1|g[23]|h1|i[23]|m[1-4]|p[23]|r[34]|t[12]|x1e?)\.")


def ebs_limit(instance_type: str) -> int:
    """Number of EBS volumes that a machine of this type can attach for pods."""
    if _XEN.match(instance_type) and not instance_type.endswith(".metal"):
        return XEN_ATTACHMENTS - 1
    return NITRO_ATTACHMENTS - RESERVED_ATTACHMENTS


def csi_node(node: Obj, instance: Instance) -> Obj:
    """The CSINode of a registered Node, which owns it."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    driver = {
        "name": EBS_DRIVER,
        "nodeID": instance.instance_id,
        "topologyKeys": [ZONE],
        "allocatable": {"count": ebs_limit(instance.instance_type)},
    }
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "spec": {"drivers": [driver]},
    }
