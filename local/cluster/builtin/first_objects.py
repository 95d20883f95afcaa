"""Objects of a new cluster: namespaces, priority classes, roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local.cluster.api.authorization.first_roles import first_roles
from local.cluster.builtin.resources import RBAC_GROUP

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def first_objects() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(plural, group, object) in the order of creation."""
    for name in NAMESPACES:
        yield "namespaces", "", {"metadata": {"name": name}}
    for name, value in PRIORITIES.items():
        yield "priorityclasses", "scheduling.k8s.io", {"metadata": {"name": name}, "value": value}
    for plural, role in first_roles():
        yield plural, RBAC_GROUP, role
