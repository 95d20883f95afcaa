"""Roles and bindings of a new cluster: the basic rights of every user, and the roles for ``kubectl create rolebinding
--clusterrole=view``.

A real server aggregates admin, edit and view from labelled roles; here each is one role.
"""

from __future__ import annotations

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
    Resource,
)
from local.cluster.builtin.resources import RBAC_GROUP as GROUP

Document = dict[str, Any]
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *HEALTH]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def first_roles() -> list[tuple[str, Document]]:
    """(plural, object) of every role and binding."""
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
    return [("clusterroles", one) for one in roles] + [
        ("clusterrolebindings", one) for one in bindings
    ]


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
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": name} for name in groups],
    }
