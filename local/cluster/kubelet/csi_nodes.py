"""The CSINode that a kubelet writes beside its Node: the EBS driver counts as installed on every node, and attaches as
many volumes as EC2 says of the instance type, minus the root volume.
"""

from __future__ import annotations

from local.cluster.control_plane.informers import Obj
from local.cluster.kubelet.instances import Instance

EBS_DRIVER = "ebs.csi.aws.com"
ZONE = "topology.kubernetes.io/zone"


def csi_node(node: Obj, instance: Instance) -> Obj:
    """The CSINode of a registered Node, which owns it."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    driver = {
        "name": EBS_DRIVER,
        "nodeID": instance.instance_id,
        "topologyKeys": [ZONE],
        "allocatable": {"count": instance.max_volumes},
    }
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "spec": {"drivers": [driver]},
    }
