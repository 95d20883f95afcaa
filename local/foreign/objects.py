"""Objects that a stack creates on an existing cluster, and the label that identifies them.

Each object has the label ``LABEL``, whose value identifies the stack, so removal needs no list that a killed process
could lose. Pure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from local.cluster.builtin.manifests import ACCOUNT_KINDS, read_manifests
from local.stack_plan import KUBELETS, NAMESPACE, PROJECT, stack_id
from shared.kube.resources import NAMESPACES, Resource

Object = dict[str, Any]
LABEL = "local.dovetail.sh/stack"
DIRECTORY = "local.dovetail.sh/directory"
"""Annotation of the namespace: the directory of the stack that created it."""
RBAC = "rbac.authorization.k8s.io"
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
CREATED = (
    CRDS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Resource(RBAC, "v1", "clusterroles", "ClusterRole", False),
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource(RBAC, "v1", "roles", "Role", True),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding", True),
)
"""Kinds of the created objects, in the order of creation."""
_KUBELETS_RULES = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update"]},
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["csinodes", "volumeattachments"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["storage.k8s.io"], "resources": ["csinodes"], "verbs": ["create", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]},
]


def stack_objects(directory: Path) -> list[tuple[Resource, Object]]:
    """All objects in the order of creation, with their label. Raises ConfigurationError."""
    read = read_manifests(PROJECT / "deploy" / "crds")
    accounts = read_manifests(PROJECT / "deploy" / "kubernetes", "ACCOUNTS_DIRECTORY")
    documents = [document for _, document in read]
    documents += [document for _, document in accounts if document.get("kind") in ACCOUNT_KINDS]
    documents += _kubelets_account()
    kinds = {resource.kind: resource for resource in CREATED}
    found = [(kinds[document["kind"]], document) for document in documents]
    found.sort(key=lambda one: CREATED.index(one[0]))
    return [(resource, _labelled(document, directory)) for resource, document in found]


def _labelled(document: Object, directory: Path) -> Object:
    metadata = document["metadata"]
    labels = {**(metadata.get("labels") or {}), LABEL: stack_id(directory)}
    annotations = {**(metadata.get("annotations") or {}), DIRECTORY: str(directory.resolve())}
    return {**document, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _kubelets_account() -> list[Object]:
    """Account of the kubelet program, with the rights of kubelets on all nodes and no others."""
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": KUBELETS}
    subject = {"kind": "ServiceAccount", "name": KUBELETS, "namespace": NAMESPACE}
    version = f"{RBAC}/v1"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": KUBELETS, "namespace": NAMESPACE},
        },
        {
            "apiVersion": version,
            "kind": "ClusterRole",
            "metadata": {"name": KUBELETS},
            "rules": _KUBELETS_RULES,
        },
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": KUBELETS},
            "roleRef": role,
            "subjects": [subject],
        },
    ]
