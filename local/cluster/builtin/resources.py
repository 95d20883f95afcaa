"""The kinds that the API server serves without a CustomResourceDefinition, and their addresses.

A ``Resource`` is one row of the discovery document. Those of custom resources come from ``custom_resources.py``. For a
kind that is missing here kubectl reports "no matches for kind".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

STATUS = ("status",)
SCALABLE = ("scale", "status")
ALL = ("all",)
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One served kind. ``subresources`` are names such as ``status``, ``scale``, ``eviction``."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    custom: bool = False
    verbs: tuple[str, ...] = VERBS

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects: ``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``plural.group``, or the bare plural in the core group, as messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular_name(self) -> str:
        """The singular name that ``kubectl get`` accepts."""
        return self.singular or self.kind.lower()

    @property
    def list_name(self) -> str:
        """``kind`` of its lists."""
        return self.list_kind or f"{self.kind}List"


def _core(
    plural: str,
    kind: str,
    short: tuple[str, ...] = (),
    subresources: tuple[str, ...] = (),
    *,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
) -> Resource:
    return Resource("", "v1", plural, kind, namespaced, short, categories, subresources)


CORE = (
    _core("configmaps", "ConfigMap", ("cm",)),
    _core("endpoints", "Endpoints", ("ep",)),
    _core("events", "Event", ("ev",)),
    _core("limitranges", "LimitRange", ("limits",)),
    _core("namespaces", "Namespace", ("ns",), ("finalize", "status"), namespaced=False),
    _core("nodes", "Node", ("no",), STATUS, namespaced=False),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",), STATUS),
    _core("persistentvolumes", "PersistentVolume", ("pv",), STATUS, namespaced=False),
    _core(
        "pods", "Pod", ("po",), ("binding", "eviction", "log", "resize", "status"), categories=ALL
    ),
    _core("podtemplates", "PodTemplate"),
    _core("replicationcontrollers", "ReplicationController", ("rc",), SCALABLE, categories=ALL),
    _core("resourcequotas", "ResourceQuota", ("quota",), STATUS),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", ("sa",), ("token",)),
    _core("services", "Service", ("svc",), STATUS, categories=ALL),
)

APPS = (
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True),
    Resource("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), ALL, STATUS),
    Resource("apps", "v1", "deployments", "Deployment", True, ("deploy",), ALL, SCALABLE),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), ALL, SCALABLE),
    Resource("apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), ALL, SCALABLE),
)

BATCH = (
    Resource("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ALL, STATUS),
    Resource("batch", "v1", "jobs", "Job", True, (), ALL, STATUS),
)

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = (
    Resource(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", False),
    Resource(RBAC_GROUP, "v1", "rolebindings", "RoleBinding", True),
    Resource(RBAC_GROUP, "v1", "roles", "Role", True),
)

STORAGE_GROUP = "storage.k8s.io"
STORAGE = (
    Resource(STORAGE_GROUP, "v1", "csidrivers", "CSIDriver", False),
    Resource(STORAGE_GROUP, "v1", "csinodes", "CSINode", False),
    Resource(STORAGE_GROUP, "v1", "storageclasses", "StorageClass", False, ("sc",)),
    Resource(STORAGE_GROUP, "v1", "volumeattachments", "VolumeAttachment", False, (), (), STATUS),
)

DEVICE_GROUP = "resource.k8s.io"
DEVICES = (
    Resource(DEVICE_GROUP, "v1", "deviceclasses", "DeviceClass", False),
    Resource(DEVICE_GROUP, "v1", "resourceclaims", "ResourceClaim", True, (), (), STATUS),
    Resource(DEVICE_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    Resource(DEVICE_GROUP, "v1", "resourceslices", "ResourceSlice", False),
)
"""Dynamic resource allocation."""

NETWORKING_GROUP = "networking.k8s.io"
NETWORKING = (
    Resource(NETWORKING_GROUP, "v1", "ingressclasses", "IngressClass", False),
    Resource(NETWORKING_GROUP, "v1", "ingresses", "Ingress", True, ("ing",), (), STATUS),
    Resource(NETWORKING_GROUP, "v1", "networkpolicies", "NetworkPolicy", True, ("netpol",)),
)

ADMISSION_GROUP = "admissionregistration.k8s.io"
ADMISSION = (
    Resource(
        ADMISSION_GROUP,
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        False,
        subresources=STATUS,
    ),
    Resource(
        ADMISSION_GROUP,
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        False,
    ),
    Resource(
        ADMISSION_GROUP,
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        False,
    ),
    Resource(
        ADMISSION_GROUP,
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        False,
    ),
)

CRD_GROUP = "apiextensions.k8s.io"
CRD_PLURAL = "customresourcedefinitions"

AUTOSCALERS = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    True,
    ("hpa",),
    ALL,
    STATUS,
)
AUTOSCALERS_V1 = replace(AUTOSCALERS, version="v1")
"""Served beside the stored version; see ``autoscaler_versions.py``."""

OTHERS = (
    Resource(
        CRD_GROUP, "v1", CRD_PLURAL, "CustomResourceDefinition", False, ("crd", "crds"), (), STATUS
    ),
    AUTOSCALERS,
    Resource("coordination.k8s.io", "v1", "leases", "Lease", True),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True),
    Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), (), STATUS
    ),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",)),
)

ACCESS_GROUP, IDENTITY_GROUP = "authorization.k8s.io", "authentication.k8s.io"


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group, "v1", kind.lower() + "s", kind, namespaced, verbs=("create",))


REVIEWS = (
    _review(IDENTITY_GROUP, "SelfSubjectReview"),
    _review(IDENTITY_GROUP, "TokenReview"),
    _review(ACCESS_GROUP, "LocalSubjectAccessReview", namespaced=True),
    _review(ACCESS_GROUP, "SelfSubjectAccessReview"),
    _review(ACCESS_GROUP, "SelfSubjectRulesReview"),
    _review(ACCESS_GROUP, "SubjectAccessReview"),
)
"""Reviews, which are answered at once and not stored."""
TOKEN_REQUEST = _review(IDENTITY_GROUP, "TokenRequest", namespaced=True)
"""The body of ``serviceaccounts/token``; not a resource of its own."""

BUILT_IN: tuple[Resource, ...] = (
    CORE + APPS + BATCH + RBAC + STORAGE + DEVICES + NETWORKING + ADMISSION + OTHERS
)
"""Every kind that is served from the start."""
