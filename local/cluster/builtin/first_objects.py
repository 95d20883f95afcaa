"""Objects of a new cluster: namespaces, priority classes, and roles with their bindings.

The roles are the basic rights of every user, and those for ``kubectl create rolebinding --clusterrole=view``. A real
server aggregates admin, edit and view from labelled roles; here each is one role.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local.cluster.api.authorization.users import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from local.cluster.builtin.resources import (
    ACCESS_GROUP,
    APPS,
    BATCH,
    CORE,
    IDENTITY_GROUP,
    NETWORKING,
    RBAC,
    RBAC_GROUP,
    Resource,
)

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
Document = dict[str, Any]
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *HEALTH]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def first_objects() -> Iterator[tuple[str, str, Document]]:
    """(plural, group, object) in the order of creation."""
    for name in NAMESPACES:
        yield "namespaces", "", {"metadata": {"name": name}}
    for name, value in PRIORITIES.items():
        yield "priorityclasses", "scheduling.k8s.io", {"metadata": {"name": name}, "value": value}
    roles = [
        _role("cluster-admin", _rule(["*"], ["*"], ["*"]), _paths(["*"], ["*"])),
        _role("system:discovery", _paths(["get"], DISCOVERY)),
        _role("system:public-info-viewer", _paths(["get"], HEALTH)),
        _role("system:basic-user", *_questions()),
        _role("view", *_workloads(READ, secret=False)),
        _role("edit", *_workloads(READ + WRITE, secret=True)),
        _role("admin", *_workloads(READ + WRITE, secret=True), *_over(RBAC[2:], READ + WRITE)),
    ]
    bindings = [
        _binding("cluster-admin", MASTERS),
        _binding("system:discovery", AUTHENTICATED),
        _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
        _binding("system:basic-user", AUTHENTICATED),
    ]
    for plural, objects in (("clusterroles", roles), ("clusterrolebindings", bindings)):
        for one in objects:
            yield plural, RBAC_GROUP, one


def _questions() -> list[Document]:
    access = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    return [
        _rule(["create"], [ACCESS_GROUP], access),
        _rule(["create"], [IDENTITY_GROUP], ["selfsubjectreviews"]),
    ]


def _workloads(verbs: list[str], *, secret: bool) -> list[Document]:
    core = [one for one in CORE if one.namespaced and (secret or one.plural != "secrets")]
    return [
        *_over(core, verbs),
        *_over(APPS, verbs),
        *_over(BATCH, verbs),
        *_over(NETWORKING, verbs),
    ]


def _over(resources: list[Resource] | tuple[Resource, ...], verbs: list[str]) -> list[Document]:
    names = [
        name
        for one in resources
        if one.namespaced
        for name in (one.plural, *(f"{one.plural}/{sub}" for sub in one.subresources))
    ]
    return [_rule(verbs, [resources[0].group], names)]


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Document:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _paths(verbs: list[str], urls: list[str]) -> Document:
    return {"verbs": verbs, "nonResourceURLs": urls}


def _role(name: str, *rules: Document) -> Document:
    return {"metadata": {"name": name, "labels": _LABELS}, "rules": list(rules)}


def _binding(role: str, *groups: str) -> Document:
    return {
        "metadata": {"name": role, "labels": _LABELS},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "Group", "name": name} for name in groups],
    }
