"""The Kubernetes resources that Dovetail uses, and their REST paths.

A ``Resource`` is a constant without discovery at run time, so a missing CRD is a ``NotFound`` at the first call
(``Kube.serves`` checks for it). What may go wrong: the path of a namespaced resource without a namespace is the
cluster-wide collection, which is right for list and watch and wrong for one object, so ``path`` refuses the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote


@lru_cache(maxsize=4096)
def _quoted(part: str) -> str:
    """One part of a path. Names of kinds, namespaces and objects come again with each request."""
    return quote(part, safe="")


@dataclass(frozen=True, slots=True)
class Resource:
    """One row of ``kubectl api-resources``. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects, such as ``karpenter.sh/v1alpha5``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name kubectl accepts, such as ``machines.karpenter.sh``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """URL path of a collection (no name), an object, or a subresource of an object.

        Raises ValueError for one namespaced object without its namespace, and for a cluster-scoped object with one.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.qualified} is cluster-scoped: leave the namespace out")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.qualified} {name!r} needs a namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(map(_quoted, parts))


PODS = Resource("", "v1", "pods", "Pod", True)
NODES = Resource("", "v1", "nodes", "Node", False)
SERVICES = Resource("", "v1", "services", "Service", True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
EVENTS = Resource("", "v1", "events", "Event", True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
PVCS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
PVS = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False
)

SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True)
CAPACITY_BUFFERS = Resource(
    "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", True
)
PROVISIONING_REQUESTS = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True
)

DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)
DEVICE_KINDS = (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS, CLAIM_TEMPLATES)
"""Of dynamic resource allocation."""
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True)
SCHEDULING_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True)
"""Kubernetes' own, from 1.36 on, in place of the groups in Workloads of 1.35."""
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", True)
VERTICAL_AUTOSCALERS = Resource(
    "autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler", True
)
DEVICE_TEMPLATES = Resource("dovetail.sh", "v1alpha1", "devicetemplates", "DeviceTemplate", False)

CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

PROVISIONERS = Resource("karpenter.sh", "v1alpha5", "provisioners", "Provisioner", False)
MACHINES = Resource("karpenter.sh", "v1alpha5", "machines", "Machine", False)
AWS_NODE_TEMPLATES = Resource(
    "karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "AWSNodeTemplate", False
)
LAUNCH_RECORDS = Resource("dovetail.sh", "v1alpha1", "launchrecords", "LaunchRecord", False)
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", False)
NODE_OVERLAYS = Resource("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False)
EC2_NODE_CLASSES = Resource("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", False)

OUR_KINDS = (
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    EC2_NODE_CLASSES,
    PROVISIONERS,
    AWS_NODE_TEMPLATES,
    LAUNCH_RECORDS,
)
"""The kinds without which no service works; deploy/crds defines them."""
